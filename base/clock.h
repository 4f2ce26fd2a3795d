// Clocks. Leases, grants and time-outs run on the boot-time clock, time to live on the wall clock.
#pragma once

#include <atomic>
#include <cstdint>

namespace tiercel {

// Both times at one moment. Pure code gets it as an argument and never asks a clock.
struct Times {
  int64_t boot_ms = 0;  // CLOCK_BOOTTIME: never steps back, counts suspend
  int64_t wall_ms = 0;  // Unix time; may step
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Times Now() const = 0;
};

// The machine's clocks. Thread-safe.
class SystemClock final : public Clock {
 public:
  Times Now() const override;
  static const SystemClock& Get();  // stateless, so shared
};

// A clock that tests turn by hand. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Times start = {.boot_ms = 1'000'000, .wall_ms = 1'700'000'000'000})
      : boot_ms_(start.boot_ms), wall_ms_(start.wall_ms) {}
  Times Now() const override { return {boot_ms_.load(), wall_ms_.load()}; }
  void Advance(int64_t ms) {
    boot_ms_ += ms;
    wall_ms_ += ms;
  }
  void StepWall(int64_t ms) { wall_ms_ += ms; }

 private:
  std::atomic<int64_t> boot_ms_;
  std::atomic<int64_t> wall_ms_;
};

// Monotonic nanoseconds for measuring durations.
int64_t MonotonicNanos();

}  // namespace tiercel
