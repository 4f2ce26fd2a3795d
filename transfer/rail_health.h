// When a rail is to be left alone: it made too many errors within a window, or one that says so by itself. Pure.
//
// The first pause is short, because most of what ails a rail is over soon. Then it is on probation: an error pauses it
// again, for twice as long, until it has gone a whole window without one.
#pragma once

#include <array>
#include <cstdint>

#include "base/backoff.h"

namespace tiercel::transfer {

class RailHealth {
 public:
  struct Options {
    int64_t window_ms = 5000;
    uint32_t error_limit = 5;  // the error that reaches it pauses the rail; at most kMaxLimit
    Backoff::Options pause{.first_ms = 10, .cap_ms = 5000, .jitter = 0.2};
  };
  static constexpr uint32_t kMaxLimit = 32;

  RailHealth(const Options& options, uint64_t seed);

  void Error(int64_t now_ms, bool pause_at_once = false);
  bool Usable(int64_t now_ms) const { return now_ms >= paused_until_ms_; }
  int64_t paused_until_ms() const { return paused_until_ms_; }

 private:
  Options options_;
  Backoff pauses_;
  std::array<int64_t, kMaxLimit> times_{};  // ring of the latest errors
  uint32_t count_ = 0;
  uint32_t next_ = 0;
  bool probation_ = false;
  int64_t quiet_since_ms_ = 0;  // the last error, or the end of the pause it led to
  int64_t paused_until_ms_ = INT64_MIN;
};

}  // namespace tiercel::transfer
