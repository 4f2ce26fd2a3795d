// When to try again, and how often. Every repeat of a call is bounded by its deadline and by these numbers.
#pragma once

#include <cstdint>
#include <optional>

#include "base/backoff.h"
#include "base/random.h"
#include "client/deadline.h"

namespace tiercel::client {

// Look-ups of one key within one call: a replica's place may be out of date this often.
inline constexpr int kMaxLookUps = 64;
// Rounds over all of a key's replicas that all failed. Three pauses lie between: a store that restarts is not
// waited for here, the caller of a cache has better to do.
inline constexpr int kMaxRounds = 4;
// Reads whose bytes did not match (or are not wanted any more) because the lease had run out.
inline constexpr int kMaxExpired = 3;
// Times that one put is begun. Each place that a view still holds is set aside by the master, so that the next attempt
// is given another one.
inline constexpr int kMaxPutAttempts = 16;

// One key's pauses between attempts: none, then 20 ms, doubled, at most 500 ms.
class Pauses {
 public:
  bool due() const { return Deadline::MonotonicMillis() >= not_before_ms_; }
  int64_t not_before_ms() const { return not_before_ms_; }
  void Next(bool at_once) {
    if (at_once) return;
    if (!backoff_) backoff_.emplace(Backoff::Options{.first_ms = 20, .cap_ms = 500, .jitter = 0.2}, RandomId());
    not_before_ms_ = Deadline::MonotonicMillis() + backoff_->NextMs();
  }

 private:
  std::optional<Backoff> backoff_;
  int64_t not_before_ms_ = 0;
};

}  // namespace tiercel::client
