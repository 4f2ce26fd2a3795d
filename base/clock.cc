#include "base/clock.h"

#include <ctime>

namespace tiercel {
namespace {

int64_t ReadNanos(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

Times SystemClock::Now() const {
  return {.boot_ms = ReadNanos(CLOCK_BOOTTIME) / 1'000'000, .wall_ms = ReadNanos(CLOCK_REALTIME) / 1'000'000};
}

const SystemClock& SystemClock::Get() {
  static const SystemClock clock;
  return clock;
}

int64_t MonotonicNanos() { return ReadNanos(CLOCK_MONOTONIC); }

}  // namespace tiercel
