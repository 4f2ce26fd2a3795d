#include "transfer/rail_health.h"

#include <algorithm>

namespace tiercel::transfer {

RailHealth::RailHealth(const Options& options, uint64_t seed) : options_(options), pauses_(options.pause, seed) {
  options_.error_limit = std::clamp<uint32_t>(options_.error_limit, 1, kMaxLimit);
}

void RailHealth::Error(int64_t now_ms, bool pause_at_once) {
  if (probation_ && now_ms - quiet_since_ms_ >= options_.window_ms) {
    probation_ = false;
    pauses_.Succeeded();
  }
  // What was under way when the pause began may still fail: it is the same trouble.
  if (!Usable(now_ms)) return;
  quiet_since_ms_ = now_ms;
  times_[next_] = now_ms;
  next_ = (next_ + 1) % options_.error_limit;
  count_ = std::min(count_ + 1, options_.error_limit);
  // The ring holds exactly the last `error_limit` errors, so its oldest entry decides.
  const bool full = count_ == options_.error_limit && now_ms - times_[next_] < options_.window_ms;
  if (!pause_at_once && !full && !probation_) return;
  paused_until_ms_ = now_ms + pauses_.NextMs();
  quiet_since_ms_ = paused_until_ms_;
  probation_ = true;
  count_ = 0;
  next_ = 0;
}

}  // namespace tiercel::transfer
