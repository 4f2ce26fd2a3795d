// Killing at random moments, with a checker outside that holds the history: what was acknowledged is there, what was
// deleted stays deleted, and what was not answered is one of two things.
//
// TIERCEL_CRASH_SEED=N runs the round of this seed alone; TIERCEL_TEST_LONG=1 runs 300 instead of 20.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/crash/load.h"

namespace tiercel::test {
namespace {

constexpr int kRounds = 20, kLongRounds = 300;
constexpr int kKillsARound = 2;

Deployment::Shape ShapeOf(Random& random) {
  Deployment::Shape shape;
  shape.stores = random.OneIn(3) ? 0 : 2;
  const char* fsync[] = {"no", "everysec", "always"};
  // Short leases, so that replaced values give their space back soon and nothing must be evicted.
  shape.more = {"--index-fsync", fsync[random.Below(3)], "--lease-ttl", "100ms"};
  return shape;
}

// Which processes die together: the master, a store, some, or all.
std::vector<size_t> Victims(Random& random, size_t processes) {
  std::vector<size_t> victims;
  while (victims.empty()) {
    for (size_t i = 0; i < processes; ++i) {
      if (random.OneIn(2)) victims.push_back(i);
    }
  }
  return victims;
}

void KillAndStart(Deployment& system, Load& load, Random& random) {
  const std::vector<size_t> victims = Victims(random, system.size());
  for (const size_t i : victims) system.Kill(i);
  if (victims[0] != 0) {
    // The master goes on without them for a while.
    ASSERT_TRUE(load.journal().AwaitMore(random.Below(20))) << "nothing is acknowledged without a store";
  }
  for (const size_t i : victims) {
    const Status started = system.Start(i);
    ASSERT_TRUE(started.ok()) << started.error().ToString();
    if (!random.OneIn(4)) continue;
    system.Kill(i);  // in the middle of coming back
    const Status again = system.Start(i);
    ASSERT_TRUE(again.ok()) << again.error().ToString();
  }
}

void Round(uint64_t seed) {
  Random random(seed);
  Deployment system(ShapeOf(random));
  ASSERT_TRUE(system.ok()) << system.error();
  Load load(&system, seed);
  for (int kill = 0; kill < kKillsARound; ++kill) {
    load.Run();
    bool moves = load.journal().AwaitMore(20 + random.Below(400));
    if (moves) KillAndStart(system, load, random);
    moves = moves && !testing::Test::HasFatalFailure() && load.journal().AwaitMore(1 + random.Below(60));
    load.Stop();
    ASSERT_TRUE(moves) << "writers go on by themselves";
    ASSERT_TRUE(system.AwaitSettled()) << "waiting for " << system.Info("restored_waiting");
    load.CheckAll();
    EXPECT_EQ(system.Info("evicted_objects"), 0) << "the check counts on everything staying";
    if (!load.journal().faults().empty()) break;
  }
  for (const std::string& fault : load.journal().faults()) ADD_FAILURE() << fault;
  if (testing::Test::HasFailure()) std::cerr << system.Logs();
}

TEST(Crash, KilledAtRandomMomentsNothingAcknowledgedIsLost) {
  if (!MemoryDir::Fits(Deployment::Shape::Bytes(2))) GTEST_SKIP() << "no tmpfs with room for two stores";
  if (const char* one = std::getenv("TIERCEL_CRASH_SEED")) {
    SCOPED_TRACE(one);
    return Round(std::strtoull(one, nullptr, 10));
  }
  const int rounds = std::getenv("TIERCEL_TEST_LONG") != nullptr ? kLongRounds : kRounds;
  const uint64_t base = RandomId();
  for (int i = 0; i < rounds && !HasFailure(); ++i) {
    const uint64_t seed = base + static_cast<uint64_t>(i);
    SCOPED_TRACE("TIERCEL_CRASH_SEED=" + std::to_string(seed));
    std::cout << "round " << i << " TIERCEL_CRASH_SEED=" << seed << std::endl;
    Round(seed);
  }
}

}  // namespace
}  // namespace tiercel::test
