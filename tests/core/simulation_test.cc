// Random histories against the reference model. The seed of a failed one is printed; TIERCEL_SIM_SEED runs it alone.
// TIERCEL_SIM_HISTORIES and TIERCEL_SIM_STEPS override how many there are and how long.
#include <gtest/gtest.h>

#include <cstdlib>

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

void RunHistory(uint64_t seed, uint64_t steps, bool tell = false) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  World world(seed, tell);
  for (uint64_t i = 0; i < steps; ++i) {
    world.Step();
    if (testing::Test::HasFailure()) return;
  }
  world.Drain();
}

TEST(Simulation, RandomHistories) {
  const uint64_t steps = FromEnvironment("TIERCEL_SIM_STEPS", 1000);
  if (const uint64_t seed = FromEnvironment("TIERCEL_SIM_SEED", 0); seed != 0) return RunHistory(seed, steps, true);
  const uint64_t histories = FromEnvironment("TIERCEL_SIM_HISTORIES", kHistories);
  for (uint64_t seed = 1; seed <= histories; ++seed) {
    RunHistory(seed, steps);
    if (testing::Test::HasFailure()) {
      std::printf("failed: TIERCEL_SIM_SEED=%llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
}

}  // namespace
}  // namespace tiercel::core::sim
