#include "base/extent_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/random.h"

namespace tiercel {
namespace {

uint64_t RoundUp(uint64_t bytes, uint64_t granule) { return (bytes + granule - 1) / granule * granule; }

// The free space as plain intervals, in order.
class Model {
 public:
  explicit Model(uint64_t capacity) { free_[0] = capacity; }

  bool IsFree(Extent e) const {
    auto it = free_.upper_bound(e.offset);
    if (it == free_.begin()) return false;
    --it;
    return e.offset >= it->first && e.offset + e.length <= it->first + it->second;
  }
  void Take(Extent e) {
    auto it = std::prev(free_.upper_bound(e.offset));
    const Extent whole{it->first, it->second};
    free_.erase(it);
    if (e.offset > whole.offset) free_[whole.offset] = e.offset - whole.offset;
    const uint64_t end = e.offset + e.length, whole_end = whole.offset + whole.length;
    if (end < whole_end) free_[end] = whole_end - end;
  }
  void Give(Extent e) {
    auto it = free_.emplace(e.offset, e.length).first;
    if (auto next = std::next(it); next != free_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it != free_.begin()) {
      auto previous = std::prev(it);
      if (previous->first + previous->second == it->first) {
        previous->second += it->second;
        free_.erase(it);
      }
    }
  }
  uint64_t bytes() const {
    uint64_t sum = 0;
    for (const auto& [offset, length] : free_) sum += length;
    return sum;
  }
  uint64_t largest() const {
    uint64_t most = 0;
    for (const auto& [offset, length] : free_) most = std::max(most, length);
    return most;
  }
  // The most that kMaxExtents ranges can give in whole aligned granules, and the most that one can.
  std::pair<uint64_t, uint64_t> Usable(uint64_t granule) const {
    std::vector<uint64_t> usable;
    for (const auto& [offset, length] : free_) {
      const uint64_t from = RoundUp(offset, granule), to = (offset + length) / granule * granule;
      if (to > from) usable.push_back(to - from);
    }
    std::sort(usable.rbegin(), usable.rend());
    uint64_t sum = 0;
    for (size_t i = 0; i < usable.size() && i < kMaxExtents; ++i) sum += usable[i];
    return {sum, usable.empty() ? 0 : usable[0]};
  }
  size_t ranges() const { return free_.size(); }
  const std::map<uint64_t, uint64_t>& all() const { return free_; }

 private:
  std::map<uint64_t, uint64_t> free_;
};

TEST(ExtentAllocator, StartsAsOneRangeOfWholeGranules) {
  ExtentAllocator allocator(1000);
  EXPECT_EQ(allocator.capacity_bytes(), 960u);
  EXPECT_EQ(allocator.free_bytes(), 960u);
  EXPECT_EQ(allocator.largest_free_run(), 960u);
  ExtentList out;
  ASSERT_TRUE(allocator.Allocate(960, kSmallGranule, &out));
  EXPECT_EQ(out, ExtentList(Extent{0, 960}));
  EXPECT_EQ(allocator.free_bytes(), 0u);
  EXPECT_EQ(allocator.largest_free_run(), 0u);
  EXPECT_FALSE(allocator.Allocate(1, kSmallGranule, &out));
}

TEST(ExtentAllocator, NothingFitsIntoNothing) {
  ExtentAllocator allocator(63);
  ExtentList out;
  EXPECT_EQ(allocator.capacity_bytes(), 0u);
  EXPECT_FALSE(allocator.Allocate(1, kSmallGranule, &out));
  EXPECT_FALSE(allocator.Claim({0, 64}));
}

TEST(ExtentAllocator, HugeRequestDoesNotOverflow) {
  ExtentAllocator allocator((uint64_t{1} << 44) - kLargeGranule);
  ExtentList out;
  EXPECT_FALSE(allocator.Allocate(UINT64_MAX, kSmallGranule, &out));
  EXPECT_FALSE(allocator.Allocate(UINT64_MAX, kLargeGranule, &out));
  EXPECT_TRUE(allocator.Allocate(allocator.capacity_bytes(), kLargeGranule, &out));
  EXPECT_EQ(out.size(), 1u);
}

TEST(ExtentAllocator, LargeGranuleLosesNeitherHeadNorTail) {
  ExtentAllocator allocator(64 * 1024);
  ExtentList small, large;
  ASSERT_TRUE(allocator.Allocate(100, kSmallGranule, &small));
  ASSERT_TRUE(allocator.Allocate(5000, kLargeGranule, &large));
  EXPECT_EQ(large, ExtentList(Extent{4096, 8192}));
  EXPECT_EQ(allocator.free_bytes(), 64 * 1024u - 128 - 8192);
  ExtentList head;
  ASSERT_TRUE(allocator.Allocate(4096 - 128, kSmallGranule, &head));
  EXPECT_EQ(head, ExtentList(Extent{128, 4096 - 128})) << "the head that alignment left free fits exactly";
}

// A hole whose length is exact but which no rule of thumb guarantees to be aligned is found all the same.
TEST(ExtentAllocator, AlignedHoleOfExactSizeIsReused) {
  ExtentAllocator allocator(16 << 20);
  std::vector<ExtentList> all(16);
  for (ExtentList& list : all) ASSERT_TRUE(allocator.Allocate(1 << 20, kLargeGranule, &list));
  EXPECT_EQ(allocator.free_bytes(), 0u);
  for (const int which : {3, 9, 12}) allocator.Free(all[which][0]);
  for (int i = 0; i < 3; ++i) {
    ExtentList out;
    ASSERT_TRUE(allocator.Allocate(1 << 20, kLargeGranule, &out));
    EXPECT_EQ(out.size(), 1u);
  }
  EXPECT_EQ(allocator.free_bytes(), 0u);
}

TEST(ExtentAllocator, ScatteredSpaceIsGivenAsSeveralExtents) {
  ExtentAllocator allocator(64 * 1000);
  std::vector<ExtentList> all(1000);
  for (ExtentList& list : all) ASSERT_TRUE(allocator.Allocate(64, kSmallGranule, &list));
  for (size_t i = 0; i < all.size(); i += 2) allocator.Free(all[i][0]);
  ExtentList out;
  ASSERT_TRUE(allocator.Allocate(64 * kMaxExtents, kSmallGranule, &out));
  EXPECT_EQ(out.size(), kMaxExtents);
  EXPECT_EQ(out.bytes(), 64 * kMaxExtents);
  for (const Extent& extent : out) allocator.Free(extent);
  // One more range than a replica may have: refused, and nothing has changed.
  EXPECT_FALSE(allocator.Allocate(64 * kMaxExtents + 1, kSmallGranule, &out));
  EXPECT_TRUE(out.empty());
  EXPECT_EQ(allocator.free_bytes(), 64 * 500u);
}

TEST(ExtentAllocator, SeveralExtentsTakeTheLargestFirst) {
  ExtentAllocator allocator(1 << 20);
  // Free ranges of 64 KiB, 4 KiB and many of 64 bytes, with something used between them.
  std::vector<Extent> holes = {{0, 65536}, {131072, 4096}};
  for (uint64_t i = 0; i < 100; ++i) holes.push_back({200'000 / 64 * 64 + i * 128, 64});
  ASSERT_TRUE(allocator.Claim({0, 1 << 20}));
  for (const Extent& hole : holes) allocator.Free(hole);
  ExtentList out;
  ASSERT_TRUE(allocator.Allocate(65536 + 4096 + 64, kSmallGranule, &out));
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0], (Extent{0, 65536}));
  EXPECT_EQ(out[1], (Extent{131072, 4096}));
  EXPECT_EQ(out[2].length, 64u);
}

// O-20: full to the last byte, and scattered space is no reason to refuse.
TEST(ExtentAllocator, FillsToTheLastByteAndOn) {
  constexpr uint64_t kObjects = 16'384, kSize = 15 * 1024;
  ExtentAllocator allocator(kObjects * kSize);
  std::vector<ExtentList> all(kObjects);
  for (ExtentList& list : all) {
    ASSERT_TRUE(allocator.Allocate(kSize, kSmallGranule, &list));
    ASSERT_EQ(list.size(), 1u);
  }
  EXPECT_EQ(allocator.free_bytes(), 0u);
  ExtentList out;
  EXPECT_FALSE(allocator.Allocate(1, kSmallGranule, &out));
  for (uint64_t i = 0; i < kObjects; i += 2) allocator.Free(all[i][0]);
  EXPECT_EQ(allocator.free_bytes(), kObjects / 2 * kSize);
  EXPECT_EQ(allocator.largest_free_run(), kSize);
  // Half of the freed bytes, then all the rest.
  for (uint64_t i = 0; i < kObjects / 6; ++i) {
    ASSERT_TRUE(allocator.Allocate(3 * kSize, kSmallGranule, &out)) << i;
    EXPECT_EQ(out.size(), 3u);
    EXPECT_EQ(out.bytes(), 3 * kSize);
  }
  EXPECT_EQ(allocator.free_bytes(), (kObjects / 2 - kObjects / 6 * 3) * kSize);
}

TEST(ExtentAllocator, ClaimTakesExactlyFreeRanges) {
  ExtentAllocator allocator(1 << 20);
  EXPECT_TRUE(allocator.Claim({8192, 4096}));
  EXPECT_FALSE(allocator.Claim({8192, 4096}));
  EXPECT_FALSE(allocator.Claim({8192 - 64, 128}));
  EXPECT_FALSE(allocator.Claim({8192 + 4096 - 64, 128}));
  EXPECT_FALSE(allocator.Claim({4096, 16384}));
  EXPECT_FALSE(allocator.Claim({32, 64})) << "no granule starts there";
  EXPECT_FALSE(allocator.Claim({0, 65}));
  EXPECT_FALSE(allocator.Claim({(1 << 20) - 64, 128}));
  EXPECT_FALSE(allocator.Claim({1 << 20, 64}));
  EXPECT_FALSE(allocator.Claim({UINT64_MAX / 64 * 64, 128}));
  EXPECT_TRUE(allocator.Claim({0, 8192}));
  EXPECT_TRUE(allocator.Claim({8192 + 4096, 64}));
  EXPECT_EQ(allocator.free_bytes(), (1u << 20) - 8192 - 4096 - 64);
  for (const Extent& e : {Extent{0, 8192}, Extent{8192 + 4096, 64}, Extent{8192, 4096}}) allocator.Free(e);
  EXPECT_EQ(allocator.largest_free_run(), 1u << 20);
}

TEST(ExtentAllocator, PartsMayBeFreedInAnyOrder) {
  ExtentAllocator allocator(1 << 20);
  ExtentList out;
  ASSERT_TRUE(allocator.Allocate(1 << 20, kSmallGranule, &out));
  for (const uint64_t part : {3, 1, 0, 2}) allocator.Free({part << 18, 1 << 18});
  EXPECT_EQ(allocator.largest_free_run(), 1u << 20);
}

TEST(ExtentAllocatorDeathTest, DoubleFreeStops) {
  ExtentAllocator allocator(1 << 20);
  ExtentList out;
  ASSERT_TRUE(allocator.Allocate(4096, kSmallGranule, &out));
  allocator.Free(out[0]);
  EXPECT_DEATH(allocator.Free(out[0]), "freed twice");
  EXPECT_DEATH(allocator.Free({(1 << 20) - 64, 64}), "freed twice");
  EXPECT_DEATH(allocator.Free({1 << 20, 64}), "capacity");
  EXPECT_DEATH(allocator.Free({0, 65}), "granule");
}

// Random histories against the model: no overlap, free bytes exact, all granules come back as one range.
class ExtentAllocatorHistory : public testing::TestWithParam<int> {};

TEST_P(ExtentAllocatorHistory, AgreesWithTheModel) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const uint64_t capacity = (64 + random.Below(4 << 20)) / 64 * 64;
  const uint64_t largest = std::max<uint64_t>(64, capacity >> (1 + random.Below(8)));
  ExtentAllocator allocator(capacity);
  Model model(capacity);
  std::vector<Extent> used;
  for (int step = 0; step < 4000; ++step) {
    const uint64_t dice = random.Below(100);
    if (dice < 55) {
      const uint32_t granule = random.OneIn(3) ? kLargeGranule : kSmallGranule;
      const uint64_t bytes = 1 + random.Below(random.OneIn(4) ? largest : std::min<uint64_t>(largest, 4096));
      const uint64_t needed = RoundUp(bytes, granule);
      const auto [several, single] = model.Usable(granule);
      ExtentList out;
      const bool done = allocator.Allocate(bytes, granule, &out);
      if (single >= needed && model.ranges() < 8) {
        ASSERT_TRUE(done && out.size() == 1) << bytes << " in " << single;
      }
      if (several < needed) {
        ASSERT_FALSE(done);
      }
      if (model.ranges() <= kMaxExtents) {
        ASSERT_EQ(done, several >= needed) << bytes << " of " << several;
      }
      if (!done) {
        ASSERT_TRUE(out.empty());
        continue;
      }
      ASSERT_EQ(out.bytes(), needed);
      ASSERT_LE(out.size(), kMaxExtents);
      for (const Extent& extent : out) {
        ASSERT_EQ(extent.offset % granule, 0u);
        ASSERT_EQ(extent.length % granule, 0u);
        ASSERT_TRUE(model.IsFree(extent)) << extent.offset << "+" << extent.length;
        model.Take(extent);
        used.push_back(extent);
      }
    } else if (dice < 60) {
      const Extent extent{random.Below(capacity / 64) * 64, (1 + random.Below(64)) * 64};
      const bool free = model.IsFree(extent);
      ASSERT_EQ(allocator.Claim(extent), free) << extent.offset << "+" << extent.length;
      if (free) {
        model.Take(extent);
        used.push_back(extent);
      }
    } else if (!used.empty()) {
      std::swap(used[random.Below(used.size())], used.back());
      Extent extent = used.back();
      used.pop_back();
      if (extent.length > 64 && random.OneIn(5)) {  // in two parts
        const uint64_t part = (1 + random.Below(extent.length / 64 - 1)) * 64;
        used.push_back({extent.offset + part, extent.length - part});
        extent.length = part;
      }
      allocator.Free(extent);
      model.Give(extent);
    }
    ASSERT_EQ(allocator.free_bytes(), model.bytes());
    ASSERT_LE(allocator.largest_free_run(), model.largest());
    ASSERT_GE(allocator.largest_free_run() + allocator.largest_free_run() / 32, model.largest());
  }
  for (const Extent& extent : used) allocator.Free(extent);
  EXPECT_EQ(allocator.free_bytes(), capacity);
  EXPECT_EQ(allocator.largest_free_run(), capacity);
}
INSTANTIATE_TEST_SUITE_P(Seeds, ExtentAllocatorHistory, testing::Range(0, 40));

// Claims in random order rebuild the same free space (a restart).
TEST(ExtentAllocator, RecoveryByClaims) {
  Random random(11);
  ExtentAllocator first(8 << 20), second(8 << 20);
  std::vector<Extent> used;
  for (ExtentList out; first.Allocate(64 + random.Below(9000), kSmallGranule, &out);) {
    used.insert(used.end(), out.begin(), out.end());
  }
  for (size_t i = used.size(); i > 1; --i) std::swap(used[i - 1], used[random.Below(i)]);
  const size_t kept = used.size() / 2;
  for (size_t i = kept; i < used.size(); ++i) first.Free(used[i]);
  for (size_t i = 0; i < kept; ++i) ASSERT_TRUE(second.Claim(used[i]));
  for (size_t i = 0; i < kept; ++i) ASSERT_FALSE(second.Claim(used[i]));
  EXPECT_EQ(first.free_bytes(), second.free_bytes());
  for (size_t i = kept; i < used.size(); ++i) ASSERT_TRUE(second.Claim(used[i]));
}

TEST(ExtentAllocator, MemoryGrowsWithFreeRangesOnly) {
  ExtentAllocator allocator(64 << 20);
  const uint64_t empty = allocator.memory_bytes();
  std::vector<ExtentList> all(100'000);
  for (ExtentList& list : all) ASSERT_TRUE(allocator.Allocate(64, kSmallGranule, &list));
  EXPECT_EQ(allocator.memory_bytes(), empty);
  for (size_t i = 0; i < all.size(); i += 2) allocator.Free(all[i][0]);
  EXPECT_GT(allocator.memory_bytes(), empty);
  EXPECT_LT(allocator.memory_bytes(), empty + 50'000 * 60);
}

TEST(ExtentList, KeepsOneInlineAndManyInOrder) {
  ExtentList list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.begin(), list.end());
  std::vector<Extent> expected;
  for (uint64_t i = 0; i < 5; ++i) {
    list.push_back({i * 100, i});
    expected.push_back({i * 100, i});
    ASSERT_TRUE(std::equal(list.begin(), list.end(), expected.begin(), expected.end()));
    ASSERT_EQ(list, ExtentList(expected));
  }
  EXPECT_EQ(list.bytes(), 10u);

  ExtentList copy = list;
  EXPECT_EQ(copy, list);
  copy.push_back({1, 1});
  EXPECT_NE(copy, list);
  copy = ExtentList(Extent{7, 8});
  EXPECT_EQ(copy.size(), 1u);
  EXPECT_EQ(copy[0], (Extent{7, 8}));
  copy = list;
  EXPECT_EQ(copy, list);

  ExtentList moved = std::move(copy);
  EXPECT_EQ(moved, list);
  EXPECT_TRUE(copy.empty()) << "NOLINT: a moved-from list is empty by contract";
  copy.push_back({3, 4});
  EXPECT_EQ(copy[0], (Extent{3, 4}));
  moved.clear();
  EXPECT_TRUE(moved.empty());
  moved.push_back({5, 6});
  EXPECT_EQ(moved, ExtentList(Extent{5, 6}));
  moved.push_back({7, 8});
  EXPECT_EQ(moved.size(), 2u);
  EXPECT_EQ(moved[0], (Extent{5, 6}));
}

}  // namespace
}  // namespace tiercel
