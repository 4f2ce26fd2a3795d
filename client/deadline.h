// The end of one call, on the monotonic clock. Everything that a call waits for is bounded by it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace tiercel::client {

class Deadline {
 public:
  static Deadline After(int64_t ms) { return Deadline(MonotonicMillis() + std::max<int64_t>(ms, 0)); }

  // What is left, at least 0.
  int64_t left_ms() const { return std::max<int64_t>(at_ms_ - MonotonicMillis(), 0); }
  bool over() const { return left_ms() == 0; }
  Deadline AtMost(int64_t ms) const { return Deadline(std::min(at_ms_, MonotonicMillis() + ms)); }

  static int64_t MonotonicMillis() { return MonotonicNanos() / 1'000'000; }

 private:
  explicit Deadline(int64_t at_ms) : at_ms_(at_ms) {}
  int64_t at_ms_;
};

}  // namespace tiercel::client
