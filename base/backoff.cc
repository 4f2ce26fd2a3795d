#include "base/backoff.h"

#include <algorithm>

namespace tiercel {

int64_t Backoff::NextMs() {
  const int64_t pause_ms = std::min(options_.cap_ms, next_ms_ == 0 ? options_.first_ms : next_ms_);
  next_ms_ = pause_ms > options_.cap_ms / 2 ? options_.cap_ms : pause_ms * 2;
  return pause_ms - static_cast<int64_t>(static_cast<double>(pause_ms) * options_.jitter * random_.Unit());
}

}  // namespace tiercel
