// What the core's tables cost, and the bound that metadata-max sets on them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

#ifdef TIERCEL_SANITIZED
constexpr int kObjects = 50'000;
constexpr bool kResidentCounts = false;  // shadow memory is resident too
#else
constexpr int kObjects = 300'000;
constexpr bool kResidentCounts = true;
#endif
constexpr uint64_t kKeyBytes = 16;  // a whole cell, so that no rounding is counted as the object's
constexpr uint64_t kObjectBytes = 200;

std::string NumberedKey(int i) {
  char text[kKeyBytes + 1];
  std::snprintf(text, sizeof text, "%016d", i);
  return text;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void PutAll(Harness& h) {
  h.auto_close = false;
  for (int i = 0; i < kObjects; ++i) {
    ASSERT_TRUE(h.Put(NumberedKey(i), 40).ok()) << i;
    if (i % 1000 == 999) h.WorkAll();
  }
  h.WorkAll();
}

// One DRAM replica of one extent.
TEST(Memory, AnObjectTakesAtMost200BytesBesideItsKey) {
  Options options;
  options.eviction_high_watermark_ratio = 1.0;
  Harness h(options);
  h.AddStore("a", uint64_t{64} * 2 * kObjects);
  const uint64_t counted_before = h.master->metadata_bytes(), resident_before = ResidentBytes();
  ASSERT_NO_FATAL_FAILURE(PutAll(h));
  ASSERT_EQ(h.master->Size(0), static_cast<uint64_t>(kObjects));
  const uint64_t counted = h.master->metadata_bytes() - counted_before, resident = ResidentBytes() - resident_before;
  std::printf("bytes per object beside its key: counted %.1f, resident %.1f\n",
              static_cast<double>(counted) / kObjects - static_cast<double>(kKeyBytes),
              static_cast<double>(resident) / kObjects - static_cast<double>(kKeyBytes));
  EXPECT_LE(counted, kObjects * (kObjectBytes + kKeyBytes));
  if (kResidentCounts) {
    EXPECT_LE(resident, kObjects * (kObjectBytes + kKeyBytes));
    EXPECT_LE(resident, counted + counted / 8 + 8 * kMiB) << "metadata-max sees all that the tables take";
  }
}

TEST(Memory, RemovedObjectsLeaveRoomForAsMany) {
  Options options;
  options.eviction_high_watermark_ratio = 1.0;
  Harness h(options);
  h.AddStore("a", uint64_t{64} * 2 * kObjects);
  ASSERT_NO_FATAL_FAILURE(PutAll(h));
  const uint64_t full = h.master->metadata_bytes();
  for (int i = 0; i < kObjects; ++i) ASSERT_TRUE(h.Delete(NumberedKey(i)));
  ASSERT_NO_FATAL_FAILURE(PutAll(h));
  // What waited to become free meanwhile has a table of its own, which keeps its chunks.
  EXPECT_LE(h.master->metadata_bytes(), full + full / 50 + kMiB);
}

// As P-13 for data frames: what is refused has taken no memory.
TEST(Memory, P13_RefusedRequestsTakeNone) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("there", 100).ok());
  const std::string too_long(kMaxKeyBytes + 1, 'k');
  const std::string longest(kMaxKeyBytes, 'k');
  const auto refuse = [&] {
    EXPECT_FALSE(h.Start("k", kMaxValueBytes + 1).ok());
    EXPECT_FALSE(h.Start("k", UINT64_MAX).ok());
    EXPECT_FALSE(h.Start(longest, 1 << 30).ok()) << "larger than all space";
    EXPECT_FALSE(h.Start(too_long, 1).ok());
    EXPECT_FALSE(h.Start("", 1).ok());
    EXPECT_FALSE(h.Start("k", 1, {.replicas = 1000}).ok());
    EXPECT_FALSE(h.Start("k", 1, {}, 4'000'000'000u).ok()) << "a namespace that there is not";
    EXPECT_FALSE(h.Look(longest, true, 4'000'000'000u).has_value());
    EXPECT_FALSE(h.Delete(longest, 15));
    EXPECT_FALSE(h.master->PutEnd(h.caller(), Version{UINT64_MAX}, 0, {}, h.now()).ok());
    EXPECT_FALSE(h.master->PutRenew(h.caller(), Version{1}, h.now()).ok());
  };
  refuse();  // what is made at a first use stays
  const uint64_t counted = h.master->metadata_bytes(), resident = ResidentBytes();
  for (int i = 0; i < 20'000; ++i) refuse();
  EXPECT_EQ(h.master->metadata_bytes(), counted);
  if (kResidentCounts) {
    EXPECT_LT(std::max(resident, ResidentBytes()) - resident, kMiB);
  }
  EXPECT_EQ(h.master->open_puts(), 0u);
  EXPECT_EQ(h.Dram().objects, 1u);
}

// ---- metadata-max

constexpr uint64_t kMax = 24 * kMiB;

Options LittleMetadata() {
  Options options;
  options.metadata_max_bytes = kMax;
  return options;
}

// Long keys fill the tables soon.
std::string LongKey(int i) { return NumberedKey(i) + std::string(1000, 'k'); }

// Puts, and leases so that nothing may be evicted, until the tables are full; how many.
int FillWithLeased(Harness& h, Error* refused) {
  for (int i = 0; i < 100'000; ++i) {
    const Result<PutPlan> plan = h.Start(LongKey(i), 40);
    if (!plan.ok()) {
      *refused = plan.error();
      return i;
    }
    EXPECT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
    ObjectInfo info;
    EXPECT_TRUE(h.master->Lookup(h.Key(LongKey(i)), {.lease_ms = 60'000}, h.now(), &info));
    EXPECT_EQ(info.lease_ms, 60'000) << i;
    if (i % 500 == 0) h.WorkAll();
    EXPECT_LE(h.master->metadata_bytes(), kMax) << i;
  }
  ADD_FAILURE() << "nothing was refused";
  return 0;
}

class MetadataMax : public testing::Test {
 protected:
  MetadataMax() : h(LittleMetadata()) {
    h.AddStore("a", 64 * kMiB);
    count = FillWithLeased(h, &refused);
    h.WorkAll();
  }
  void Pass(int64_t ms) {
    for (; ms > 0; ms -= 2000) {
      h.Advance(2000);
      h.Alive();
    }
  }
  Harness h;
  Error refused{ErrorCode::kInvalid, "not refused"};
  int count = 0;
};

TEST_F(MetadataMax, RefusesByNameAndLeavesNothingHalfWritten) {
  EXPECT_EQ(refused.code(), ErrorCode::kMetadataFull);
  EXPECT_EQ(refused.action(), ErrorAction::kWait);
  EXPECT_NE(refused.message().find(std::to_string(kMax)), std::string::npos) << refused.message();
  EXPECT_GT(count, 5000);
  const uint64_t objects = h.Dram().objects, metadata = h.master->metadata_bytes();
  const SpaceBytes bytes = h.Bytes(h.stores[0]);
  EXPECT_EQ(bytes.reserved, 0u);
  for (int i = 0; i < 100; ++i) {
    const Result<PutPlan> again = h.Start(LongKey(count + i), 40);
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().code(), ErrorCode::kMetadataFull);
    EXPECT_FALSE(h.Present(LongKey(count + i)));
  }
  EXPECT_EQ(h.master->open_puts(), 0u);
  EXPECT_EQ(h.Dram().objects, objects);
  EXPECT_EQ(h.master->metadata_bytes(), metadata);
  EXPECT_EQ(h.Bytes(h.stores[0]).free, bytes.free);
  EXPECT_EQ(h.master->counters().evicted_objects, 0u) << "leased ones are not given up";
  for (int i = 0; i < count; i += 97) EXPECT_TRUE(h.Present(LongKey(i)));
  h.master->CheckInvariants(h.now());
}

TEST_F(MetadataMax, RemovalMakesRoom) {
  for (int i = 0; i < 200; ++i) {
    ASSERT_FALSE(h.Start(LongKey(count + i), 40).ok()) << i;
    ASSERT_TRUE(h.Delete(LongKey(i)));
    ASSERT_TRUE(h.Put(LongKey(count + i), 40).ok()) << "room for one";
    ObjectInfo info;
    ASSERT_TRUE(h.master->Lookup(h.Key(LongKey(count + i)), {.lease_ms = 60'000}, h.now(), &info));
    ASSERT_LE(h.master->metadata_bytes(), kMax);
  }
}

TEST_F(MetadataMax, EvictionMakesRoomWhenLeasesHaveEnded) {
  Pass(62'000);
  for (int i = 0; i < 3000; ++i) {
    const Result<PutPlan> plan = h.Start(LongKey(count + i), 40);
    ASSERT_TRUE(plan.ok()) << i << ": " << plan.error().message();
    ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
    if (i % 500 == 0) h.WorkAll();
    ASSERT_LE(h.master->metadata_bytes(), kMax);
  }
  EXPECT_GT(h.master->counters().evicted_objects, 2000u);
  EXPECT_TRUE(h.Present(LongKey(count + 2999)));
}

TEST_F(MetadataMax, FlushMakesRoom) {
  EXPECT_EQ(h.master->Flush(0, h.now()), static_cast<uint64_t>(count));
  h.Tick();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(h.Put(LongKey(i), 40).ok()) << i;
}

TEST_F(MetadataMax, ALargerLimitTakesEffectAtOnce) {
  Options larger = LittleMetadata();
  larger.metadata_max_bytes = 2 * kMax;
  h.master->SetOptions(larger, h.now());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(h.Put(LongKey(count + i), 40).ok()) << i;
}

}  // namespace
}  // namespace tiercel::core
