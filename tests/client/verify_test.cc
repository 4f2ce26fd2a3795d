#include "client/verify.h"

#include <gtest/gtest.h>

#include "base/checksum.h"

namespace tiercel::client {
namespace {

constexpr uint64_t kSeed = 77;

struct Case {
  explicit Case(uint64_t size) {
    for (uint64_t i = 0; i < BlockCount(size); ++i) sums.push_back(i * 1000 + 1);
    expected = {
        .version = {5}, .key_seed = kSeed, .size = size, .sum = ObjectSum(kSeed, size, sums), .lease_until_ms = 1000};
    evidence = {.first_block = 0, .sums = sums, .trailer = {}, .bytes = size};
  }
  ErrorCode Outcome(int64_t now_ms, ReadPastLease policy = ReadPastLease::kVerify) const {
    Status status = Verify(expected, evidence, policy, now_ms);
    return status.ok() ? ErrorCode::kExists : status.error().code();  // kExists stands for "good"
  }
  std::vector<uint64_t> sums;
  Expected expected;
  Evidence evidence;
};
constexpr ErrorCode kGood = ErrorCode::kExists;

TEST(Verify, WholeValuesOfAnySize) {
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, kBlockBytes, kBlockBytes + 1, 5 * kBlockBytes}) {
    EXPECT_EQ(Case(size).Outcome(0), kGood) << size;
    EXPECT_EQ(Case(size).Outcome(5000), kGood) << size << ": a match is right whatever the clock says";
  }
}

TEST(Verify, DiscardThrowsAwayWhatIsPastItsLease) {
  Case c(10);
  EXPECT_EQ(c.Outcome(999, ReadPastLease::kDiscard), kGood);
  EXPECT_EQ(c.Outcome(1000, ReadPastLease::kDiscard), ErrorCode::kLeaseExpired);
}

TEST(Verify, AMismatchIsTheReplicasFaultOnlyWithinTheLease) {
  Case c(3 * kBlockBytes);
  c.sums[1] ^= 1;
  EXPECT_EQ(c.Outcome(999), ErrorCode::kChecksum);
  EXPECT_EQ(c.Outcome(1000), ErrorCode::kLeaseExpired);
}

TEST(Verify, BytesOfAnotherKeyDoNotPass) {
  Case c(100);
  c.expected.key_seed = kSeed + 1;
  EXPECT_EQ(c.Outcome(0), ErrorCode::kChecksum);
}

TEST(Verify, MissingBytesAreALengthError) {
  Case c(3 * kBlockBytes);
  c.evidence.bytes -= 1;
  EXPECT_EQ(c.Outcome(0), ErrorCode::kLength);
}

TEST(Verify, RangesAreHeldAgainstTheTrailerAndTheTrailerAgainstTheObject) {
  Case c(3 * kBlockBytes + 5);
  std::vector<uint64_t> all = c.sums;
  c.evidence.first_block = 3;
  c.evidence.sums = std::span(c.sums).subspan(3, 1);
  c.evidence.bytes = 5;
  EXPECT_EQ(c.Outcome(0), ErrorCode::kLength) << "without a trailer a part proves nothing";
  c.evidence.trailer = all;
  EXPECT_EQ(c.Outcome(0), kGood);
  all[0] ^= 1;  // a block that was not read
  EXPECT_EQ(c.Outcome(0), ErrorCode::kChecksum);
  all[0] ^= 1;
  c.sums[3] ^= 1;
  EXPECT_EQ(c.Outcome(0), ErrorCode::kChecksum);
}

}  // namespace
}  // namespace tiercel::client
