// Random histories against the reference model. The seed of a failed one is printed; TIERCEL_SIM_SEED runs it alone.
// TIERCEL_SIM_HISTORIES and TIERCEL_SIM_STEPS override how many there are and how long.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/core/world.h"

namespace tiercel::core::sim {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

#ifdef TIERCEL_SANITIZED
constexpr uint64_t kHistories = 100;
#else
constexpr uint64_t kHistories = 2000;
#endif

// What happened in all histories together: a simulation in which something never happens proves nothing about it.
struct Totals {
  std::map<std::string, uint64_t> counts;
  void Add(const World& world) {
    const Counters& c = world.counters();
    counts["puts ended"] += c.puts_ended;
    counts["puts failed"] += c.puts_failed;
    counts["puts taken over"] += c.puts_taken_over;
    counts["puts given up"] += c.puts_given_up;
    counts["puts timed out"] += c.puts_timed_out;
    counts["puts without space"] += c.puts_no_space;
    counts["partial placements"] += c.puts_partial;
    counts["replaced"] += c.replaced_objects;
    counts["evicted"] += c.evicted_objects;
    counts["evicted with soft pin"] += c.evicted_soft_pinned;
    counts["expired"] += c.expired_objects;
    counts["lost"] += c.lost_objects;
    counts["leases refused"] += c.leases_refused;
    counts["replicas corrupt"] += c.replicas_corrupt;
    counts["replicas in use"] += c.replicas_in_use;
    counts["stores suspect"] += c.stores_suspect;
    counts["stores away"] += c.stores_away;
    counts["stores gone"] += c.stores_gone;
    counts["writes refused: stale put"] += world.refused_writes(SimStore::Outcome::kStalePut);
    counts["restarts of the master"] += world.restarts();
    counts["objects restored"] += world.restored();
    counts["stores on old storage"] += world.reincarnations();
    counts["writes refused: old epoch"] += world.refused_writes(SimStore::Outcome::kOldEpoch);
  }
};

void RunHistory(uint64_t seed, uint64_t steps, bool tell, Totals* totals) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  World world(seed, tell);
  for (uint64_t i = 0; i < steps; ++i) {
    world.Step();
    if (testing::Test::HasFailure()) return;
  }
  world.Drain();
  totals->Add(world);
}

TEST(Simulation, RandomHistories) {
  Totals totals;
  const uint64_t steps = FromEnvironment("TIERCEL_SIM_STEPS", 1000);
  if (const uint64_t seed = FromEnvironment("TIERCEL_SIM_SEED", 0); seed != 0)
    return RunHistory(seed, steps, true, &totals);
  const uint64_t histories = FromEnvironment("TIERCEL_SIM_HISTORIES", kHistories);
  for (uint64_t seed = 1; seed <= histories; ++seed) {
    RunHistory(seed, steps, false, &totals);
    if (testing::Test::HasFailure()) {
      std::printf("failed: TIERCEL_SIM_SEED=%llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
  for (const auto& [name, count] : totals.counts) {
    std::printf("%-28s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
    EXPECT_TRUE(count > 0 || histories < 100) << name;
  }
}

}  // namespace
}  // namespace tiercel::core::sim
