// When a rail is to be left alone: it made too many errors within a window, or one that says so by itself. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace tiercel::transfer {

class RailHealth {
 public:
  struct Options {
    int64_t window_ms = 5000;
    uint32_t error_limit = 5;  // the error that reaches it pauses the rail; at most kMaxLimit
    int64_t pause_ms = 5000;
  };
  static constexpr uint32_t kMaxLimit = 32;

  explicit RailHealth(const Options& options);

  void Error(int64_t now_ms, bool pause_at_once = false);
  bool Usable(int64_t now_ms) const { return now_ms >= paused_until_ms_; }
  int64_t paused_until_ms() const { return paused_until_ms_; }

 private:
  Options options_;
  std::array<int64_t, kMaxLimit> times_{};  // ring of the latest errors
  uint32_t count_ = 0;
  uint32_t next_ = 0;
  int64_t paused_until_ms_ = INT64_MIN;
};

}  // namespace tiercel::transfer
