// Points in time until which a call may take, on the monotonic clock, and waiting for a socket until one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tiercel/error.h"

namespace tiercel::resp {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline Now() { return std::chrono::steady_clock::now(); }

// A negative time is over at once; a very long one is cut to a year, so that no sum overflows.
inline Deadline After(int64_t timeout_ms) {
  constexpr int64_t kYearMs = int64_t{365} * 24 * 3600 * 1000;
  return Now() + std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, 0, kYearMs));
}

// For poll(2): rounded up, so that a wait never ends before its deadline and spins.
inline int PollMs(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
}

enum class Waited { kReady, kDeadline, kStopped };
// Until one of `events` (or an error) is there, or `stop_fd` becomes readable.
Waited WaitFor(int fd, short events, Deadline deadline, int stop_fd);
// REQUIRES: not kReady.
Error WaitError(Waited waited, std::string_view peer);
Error Unreachable(std::string_view peer, std::string_view why);
Error Unreachable(std::string_view peer, int error_number);

}  // namespace tiercel::resp
