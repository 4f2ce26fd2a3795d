// Leases that run out under a read: renewed, past, past with reused space, discarded.
#include <gtest/gtest.h>

#include "tests/client/harness.h"

namespace tiercel::test {
namespace {

// Each wait for the batch takes ten milliseconds of the test's clock.
void MakeSlow(Harness* h, int waits) {
  h->engine->hold_waits = waits;
  h->engine->on_hold = [h] { h->clock.Advance(10); };
}

void DropRenewals(Harness* h) {
  h->master.intercept = [h, asked = 0](const FakeMaster::Args& args) mutable -> std::optional<Result<resp::Reply>> {
    if (args[0] == "GETREPLICAS" && ++asked > 1) return NullReply();
    return std::nullopt;
  };
}

TEST(Lease, O12_ATransferLongerThanItsLeaseRenewsIt) {
  for (ReadPastLease policy : {ReadPastLease::kVerify, ReadPastLease::kDiscard}) {
    ClientOptions options;
    options.read_past_lease = policy;
    Harness h(options);
    const auto value = RandomBytes(3 * kBlockBytes, 1);
    h.MustPut("k", value);
    h.master.lease_ms = 40;
    MakeSlow(&h, 100);  // a second in all
    auto got = h.client().Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(Same((*got)->span(), value));
    EXPECT_GE(h.master.CountOf("GETREPLICAS"), 1000u / 40);
    EXPECT_LE(h.master.CountOf("GETREPLICAS"), 1000u / 20 + 2) << "renewed at half its time, not all the time";
  }
}

TEST(Lease, O12_WithoutRenewalsTheChecksumsDecide) {
  Harness h;
  const auto value = RandomBytes(3 * kBlockBytes, 1);
  h.MustPut("k", value);
  h.master.lease_ms = 1;
  MakeSlow(&h, 5);
  DropRenewals(&h);
  auto got = h.client().Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_TRUE(Same((*got)->span(), value));
}

TEST(Lease, O12_DiscardRefusesEvenRightBytes) {
  ClientOptions options;
  options.read_past_lease = ReadPastLease::kDiscard;
  Harness h(options);
  h.MustPut("k", RandomBytes(3 * kBlockBytes, 1));
  h.master.lease_ms = 1;
  h.engine->after_batch = [&] { h.clock.Advance(10); };  // too late for any renewal
  std::vector<std::byte> memory(3 * kBlockBytes);
  auto into = h.client().GetInto("k", memory);
  ASSERT_FALSE(into.ok());
  EXPECT_EQ(into.error().code(), ErrorCode::kLeaseExpired);
  EXPECT_TRUE(h.master.reports.empty()) << "the replica is not to blame";
}

TEST(Lease, T37_SpaceReusedUnderASlowReadNeverPasses) {
  const auto value = RandomBytes(8 * kBlockBytes, 1), other = RandomBytes(8 * kBlockBytes, 2);
  for (bool deleted : {true, false}) {
    Harness h;
    h.MustPut("k", value);
    auto place = h.master.BytesOf(h.master.objects["k"], 0);
    h.master.lease_ms = deleted ? 1 : 0;  // 0: the cap on leases is reached, and nothing holds the bytes
    h.engine->hold_waits = 3;
    h.engine->on_hold = [&] {
      h.clock.Advance(10);
      std::ranges::copy(other, place.begin());
      if (deleted) h.master.objects.clear();
    };
    auto got = h.client().Get("k");
    if (deleted) {
      ASSERT_TRUE(got.ok()) << got.error().ToString();
      EXPECT_FALSE(got->has_value()) << "asked again, the master knows no such key";
    } else {
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.error().code(), ErrorCode::kLeaseExpired);
    }
    EXPECT_TRUE(h.master.reports.empty());
  }
}

TEST(Lease, T37_TheObjectThatWasReplacedMeanwhileIsReadAnew) {
  Harness h;
  const auto value = RandomBytes(8 * kBlockBytes, 1), fresh = RandomBytes(5 * kBlockBytes, 2);
  h.MustPut("k", value);
  auto place = h.master.BytesOf(h.master.objects["k"], 0);
  h.master.lease_ms = 1;
  bool done = false;
  h.engine->hold_waits = 1;
  h.engine->on_hold = [&] {
    if (std::exchange(done, true)) return;
    h.clock.Advance(10);
    std::ranges::fill(place, std::byte{0});
    h.engine->hold_waits = 0;
    h.MustPut("k", fresh, {.replace = true});
  };
  auto got = h.client().Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_TRUE(Same((*got)->span(), fresh));
}

TEST(Lease, ALeaseOfZeroStillReadsAndIsNotRenewed) {
  Harness h;
  const auto value = RandomBytes(100, 1);
  h.MustPut("k", value);
  h.master.lease_ms = 0;
  MakeSlow(&h, 10);
  EXPECT_TRUE(Same((*h.client().Get("k"))->span(), value));
  EXPECT_EQ(h.master.CountOf("GETREPLICAS"), 1u);
}

TEST(Lease, ALeaseOfZeroWithABadCopyTriesTheOther) {
  Harness h;
  h.master.AddStore("s2", 64 << 20);
  const auto value = RandomBytes(100, 1);
  h.MustPut("k", value, {.replicas = 2});
  h.master.BytesOf(h.master.objects["k"], 0)[3] ^= std::byte{1};
  h.master.lease_ms = 0;
  auto got = h.client().Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_TRUE(Same((*got)->span(), value));
}

TEST(Lease, TheCallersLeaseIsAskedFor) {
  Harness h;
  h.MustPut("k", RandomBytes(100, 1));
  (void)h.client().Get("k", {.lease_ms = 1234});
  EXPECT_EQ(h.master.log.back(), (FakeMaster::Args{"GETREPLICAS", "k", "LEASE", "1234"}));
}

}  // namespace
}  // namespace tiercel::test
