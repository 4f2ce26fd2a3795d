#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <set>
#include <vector>

#include "base/backoff.h"

namespace tiercel {
namespace {

TEST(Random, SameSeedSameNumbers) {
  // splitmix64 of seed 0 gives 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, ... as published; the generator's first
  // number is rotl(second * 5, 7) * 9.
  EXPECT_EQ(Random(0).Next(), std::rotl(uint64_t{0x6e789e6aa1b965f4} * 5, 7) * 9);
  EXPECT_EQ(Random(0).Next(), 11091344671253066420u);
  Random a(1), b(1), c(2);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t x = a.Next();
    EXPECT_EQ(x, b.Next());
    differs |= x != c.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  Random random(7);
  for (uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{10}, (uint64_t{1} << 63) + 1}) {
    for (int i = 0; i < 1000; ++i) EXPECT_LT(random.Below(bound), bound);
  }
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) ++seen[random.Below(10)];
  for (int n : seen) {
    EXPECT_GT(n, 800);
    EXPECT_LT(n, 1200);
  }
}

TEST(Random, UnitIsHalfOpen) {
  Random random(9);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double x = random.Unit();
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
  }
  EXPECT_NEAR(sum / 10'000, 0.5, 0.02);
}

TEST(RandomId, IsNeverZeroAndDoesNotRepeat) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t id = RandomId();
    EXPECT_NE(id, 0u);
    EXPECT_TRUE(ids.insert(id).second);
  }
}

TEST(FillRandom, FillsAll) {
  std::vector<std::byte> bytes(4096);
  FillRandom(bytes);
  std::set<std::byte> distinct(bytes.begin(), bytes.end());
  EXPECT_GT(distinct.size(), 200u);
  FillRandom({});
}

TEST(Backoff, DoublesUpToItsCapAndStartsOverAfterSuccess) {
  Backoff backoff({.first_ms = 100, .cap_ms = 2000, .jitter = 0}, 1);
  for (int64_t expected : {100, 200, 400, 800, 1600, 2000, 2000}) EXPECT_EQ(backoff.NextMs(), expected);
  backoff.Succeeded();
  EXPECT_EQ(backoff.NextMs(), 100);
}

TEST(Backoff, JitterOnlyShortens) {
  Backoff backoff({.first_ms = 1000, .cap_ms = 1000, .jitter = 0.2}, 3);
  std::set<int64_t> pauses;
  for (int i = 0; i < 1000; ++i) {
    const int64_t pause = backoff.NextMs();
    EXPECT_GE(pause, 800);
    EXPECT_LE(pause, 1000);
    pauses.insert(pause);
  }
  EXPECT_GT(pauses.size(), 50u);
}

}  // namespace
}  // namespace tiercel
