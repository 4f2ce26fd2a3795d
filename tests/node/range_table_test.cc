// RangeTable against a plain list of uses.
#include "server/node/range_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "base/random.h"

namespace tiercel::node {
namespace {

Version V(uint64_t value) { return Version{value}; }
ExtentList One(uint64_t offset, uint64_t length) { return ExtentList(Extent{offset, length}); }

TEST(RangeTableTest, ReadsNeverConflictWithReads) {
  RangeTable table;
  for (Use use : {Use::kSend, Use::kDiskWrite, Use::kView}) {
    EXPECT_FALSE(table.Find({100, 50}, use));
    table.Add({100, 50}, use, V(1));
  }
  EXPECT_EQ(table.total_uses(), 3u);
  EXPECT_EQ(table.bytes(Use::kView), 50u);
}

TEST(RangeTableTest, AWriteMeetsEveryOtherUse) {
  for (Use use : {Use::kSend, Use::kDiskWrite, Use::kView}) {
    RangeTable table;
    table.Add({100, 50}, use, V(1));
    EXPECT_FALSE(table.Find({0, 100}, Use::kIngest));
    EXPECT_FALSE(table.Find({150, 10}, Use::kIngest));
    for (Extent met : {Extent{99, 2}, Extent{149, 1}, Extent{100, 50}, Extent{0, 1000}, Extent{120, 1}}) {
      const auto conflict = table.Find(met, Use::kIngest);
      ASSERT_TRUE(conflict);
      EXPECT_EQ(conflict->use, use);
    }
    table.Remove({100, 50}, use);
    EXPECT_FALSE(table.Find({0, 1000}, Use::kIngest));
  }
}

TEST(RangeTableTest, AnIngestExcludesReadersAndNamesItsPut) {
  RangeTable table;
  table.Add({64, 64}, Use::kIngest, V(42));
  for (Use use : {Use::kSend, Use::kDiskWrite, Use::kView, Use::kIngest}) {
    const auto conflict = table.Find({0, 65}, use);
    ASSERT_TRUE(conflict);
    EXPECT_EQ(conflict->use, Use::kIngest);
    EXPECT_EQ(conflict->put, V(42));
    EXPECT_FALSE(table.Find({0, 64}, use));
  }
}

TEST(RangeTableTest, AViewIsNamedBeforeARead) {
  RangeTable table;
  table.Add({0, 100}, Use::kSend, V(1));
  table.Add({0, 100}, Use::kView, V(1));
  EXPECT_EQ(table.Find({50, 1}, Use::kIngest)->use, Use::kView);
}

TEST(RangeTableTest, ShortReadsUnderALongViewLeaveNoPieces) {
  RangeTable table;
  table.Add({0, 1 << 20}, Use::kView, V(1));
  for (uint64_t i = 0; i < 1000; ++i) {
    table.Add({i * 1000, 777}, Use::kSend, V(1));
    table.Remove({i * 1000, 777}, Use::kSend);
  }
  EXPECT_EQ(table.pieces(), 1u);
}

TEST(RangeTableTest, RefusedPlacesAreToldOnceAndOnlyWhenNothingHoldsThem) {
  RangeTable table;
  table.Add({100, 50}, Use::kView, V(1));
  ExtentList place;
  place.push_back({0, 64});
  place.push_back({128, 64});
  table.NoteRefused(V(9), place);
  table.NoteRefused(V(9), place);  // every slice of the put is refused; one entry
  std::vector<Extent> unpinned;
  bool closed = false;
  const auto is_closed = [&](Version) { return closed; };
  table.TakeUnpinned(is_closed, &unpinned);
  EXPECT_TRUE(unpinned.empty());
  table.Remove({100, 50}, Use::kView);
  table.TakeUnpinned(is_closed, &unpinned);  // nothing holds it, but the master does not know of the refusal yet
  EXPECT_TRUE(unpinned.empty());
  closed = true;
  table.TakeUnpinned(is_closed, &unpinned);
  EXPECT_EQ(unpinned, (std::vector<Extent>{{0, 64}, {128, 64}}));
  unpinned.clear();
  table.TakeUnpinned(is_closed, &unpinned);
  EXPECT_TRUE(unpinned.empty());
}

TEST(RangeTableTest, TooManyRefusalsAreToldEarlyNotLost) {
  RangeTable table({.max_uses = 10, .max_refused = 2});
  table.Add({0, 1000}, Use::kView, V(1));
  for (uint64_t i = 0; i < 3; ++i) table.NoteRefused(V(10 + i), One(i * 100, 50));
  std::vector<Extent> unpinned;
  table.TakeUnpinned([](Version) { return true; }, &unpinned);
  EXPECT_EQ(unpinned, (std::vector<Extent>{{0, 50}}));
  table.Remove({0, 1000}, Use::kView);
  unpinned.clear();
  table.TakeUnpinned([](Version) { return true; }, &unpinned);
  EXPECT_EQ(unpinned, (std::vector<Extent>{{100, 50}, {200, 50}}));
}

TEST(RangeTableTest, RoomIsBounded) {
  RangeTable table({.max_uses = 2, .max_refused = 2});
  table.Add({0, 1}, Use::kSend, V(1));
  EXPECT_TRUE(table.HasRoom(1));
  EXPECT_FALSE(table.HasRoom(2));
  table.Add({0, 1}, Use::kSend, V(1));
  EXPECT_FALSE(table.HasRoom(1));
}

TEST(RangeTableTest, RandomHistoriesAgreeWithAList) {
  struct Item {
    Extent range;
    Use use;
    Version put;
  };
  const auto overlap = [](Extent a, Extent b) {
    return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
  };
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    RangeTable table;
    std::vector<Item> items;
    const uint64_t span = 50 + random.Below(400);
    for (int step = 0; step < 2000; ++step) {
      if (!items.empty() && random.Below(100) < 45) {
        const size_t i = random.Below(items.size());
        table.Remove(items[i].range, items[i].use);
        items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        Item item{
            {random.Below(span), 1 + random.Below(40)}, static_cast<Use>(random.Below(4)), V(1 + random.Below(9))};
        const bool met = std::any_of(items.begin(), items.end(), [&](const Item& other) {
          return overlap(item.range, other.range) && (item.use == Use::kIngest || other.use == Use::kIngest);
        });
        const auto conflict = table.Find(item.range, item.use);
        ASSERT_EQ(conflict.has_value(), met);
        if (conflict) {
          ASSERT_TRUE(overlap(conflict->range, item.range));
          ASSERT_TRUE(std::any_of(items.begin(), items.end(), [&](const Item& other) {
            return other.use == conflict->use && overlap(other.range, conflict->range) &&
                   (other.use != Use::kIngest || other.put == conflict->put);
          }));
        } else {
          table.Add(item.range, item.use, item.put);
          items.push_back(item);
        }
      }
      ASSERT_EQ(table.total_uses(), items.size());
      ASSERT_LE(table.pieces(), 2 * items.size() + 1);
      uint64_t view_bytes = 0;
      for (const Item& item : items) view_bytes += item.use == Use::kView ? item.range.length : 0;
      ASSERT_EQ(table.bytes(Use::kView), view_bytes);
    }
    while (!items.empty()) {
      table.Remove(items.back().range, items.back().use);
      items.pop_back();
    }
    ASSERT_EQ(table.pieces(), 0u);
  }
}

}  // namespace
}  // namespace tiercel::node
