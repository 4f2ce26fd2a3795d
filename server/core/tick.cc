// What is done in steps.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

int64_t Master::Impl::Tick(Times now, uint32_t budget) {
  At(now);
  if (restored.loading) return now.boot_ms + 100;
  journal.BeginCommand();
  // Each kind of work gets its share, so that none waits for another.
  const uint32_t share = std::max<uint32_t>(budget / 4, 16);
  int64_t next = now.boot_ms + 1000;  // for what has no time of its own
  bool more = false;
  uint32_t left = share;

  for (; left > 0 && puts.oldest() != 0; --left) {
    const uint32_t slot = puts.oldest();
    const int64_t deadline = puts[slot].last_sign_ms + options.put_start_discard_timeout_ms;
    if (deadline > now.boot_ms) {
      next = std::min(next, deadline);
      break;
    }
    ++counters.puts_timed_out;
    VoidPut(slot, false, now);
  }
  more = more || left == 0;

  next = std::min(next, WatchStores(now));
  RotateKeys(now);

  left = share;
  RunQuarantine(now, &left);
  more = more || left == 0;
  if (!quarantine.empty()) next = std::min(next, quarantine.top_when());

  left = share;
  Expire(now, &left);
  more = more || left == 0;
  if (!ttl.empty()) next = std::min(next, now.boot_ms + std::max<int64_t>(ttl.top_when() - now.wall_ms, 1));

  left = share;
  EndSoftPins(now, &left);
  more = more || left == 0;
  if (!soft_pins.empty()) next = std::min(next, soft_pins.top_when());

  left = share;
  TakeApart(&left, now);
  Sweep(&left, now);
  more = more || left == 0;

  for (int i = 0; i < kTierCount; ++i) {
    const auto t = static_cast<Tier>(i);
    TierState& state = tier(t);
    // A round frees at least the ratio of the tier; a round that its share cut off goes on at the next call.
    if (state.evict_left == 0 && AboveWatermark(t)) {
      state.evict_left =
          std::max<uint64_t>(1, static_cast<uint64_t>(options.eviction_ratio * static_cast<double>(state.usable)));
    }
    if (state.evict_left == 0) continue;
    const Evicted run = Evict(t, state.evict_left, std::max(share, budget), 0, now);
    state.evict_left -= std::min(state.evict_left, run.bytes);
    if (run.victims == 0 && !run.cut_off) {
      ++counters.eviction_dry_runs;
      state.evict_left = 0;  // nothing to be had now: leases end, puts close
    } else {
      more = more || state.evict_left > 0 || AboveWatermark(t);
    }
  }
  return more ? now.boot_ms : std::max(next, now.boot_ms);
}

void Master::Impl::SetOptions(const Options& changed, Times now) {
  At(now);
  const uint32_t name_spaces_before = options.name_spaces;
  const bool journal_before = options.journal;
  options = changed;
  options.name_spaces = std::max(options.name_spaces, name_spaces_before);  // what is there stays reachable
  options.journal = journal_before;                                         // records exist from the start or never
  recency.SetLeaseMax(options.lease_max_ms, boot_ms);
}

}  // namespace tiercel::core
