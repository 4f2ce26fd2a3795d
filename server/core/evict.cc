// Victims. See Recency for where they come from.
//
// An object that turns out not to be evictable leaves the queue instead of being passed over: a leased one waits with
// its bucket, one that is being read waits for the end of the read. So a run looks at little more than it evicts,
// beside the objects whose leases were renewed: each of those is met once a lease at most, and a bounded number of them
// in a run.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

void Master::Impl::Enqueue(uint32_t slot, bool hot) {
  const Object& o = objects[slot];
  if (o.Has(kHardPinned) || o.Has(kAside)) return;
  const Tier t = TierOf(o);
  if (recency.Counted(o.lease_until_ms)) {
    recency.PushLeased(t, ClassOf(o), slot, o.lease_until_ms, hot);
  } else if (hot) {
    recency.PushHot(t, ClassOf(o), slot);
  } else {
    recency.PushCold(t, ClassOf(o), slot);
  }
}

void Master::Impl::Dequeue(uint32_t slot) {
  if (objects[slot].next != 0) recency.Remove(slot);
}

Evicted Master::Impl::Evict(Tier t, uint64_t bytes, uint32_t max_victims, uint32_t spare_slot, Times now) {
  constexpr uint32_t kReturnAtOnce = 1024;
  Evicted result;
  bool spared = false;
  recency.ReturnEnded(t, QueueClass::kOrdinary, now.boot_ms, kReturnAtOnce);
  recency.ReturnEnded(t, QueueClass::kSoftPinned, now.boot_ms, kReturnAtOnce);
  const uint32_t max_looks = 2 * max_victims + 16;
  const auto coldest = [&](QueueClass queue) {
    result.renewed += recency.RequeueRenewed(t, queue, now.boot_ms, kRenewedPerCall - result.renewed);
    return recency.Coldest(t, queue);
  };
  while (result.bytes < bytes && result.victims < max_victims && result.looked_at < max_looks) {
    uint32_t slot = coldest(QueueClass::kOrdinary);
    if (slot == 0) slot = coldest(QueueClass::kSoftPinned);
    if (slot == 0) break;
    ++result.looked_at;
    Object& o = objects[slot];
    const NameTable& table = *tables[o.table];
    if (table.gated || (!HasReadableReplica(o) && !IsLost(o))) {
      // Flushed, but that may still be undone; or on stores that are away, whose space cannot be had now.
      recency.Remove(slot);
      recency.PushHot(t, ClassOf(o), slot);
    } else if (o.lease_until_ms > now.boot_ms) {
      recency.Remove(slot);
      recency.PushLeased(t, ClassOf(o), slot, o.lease_until_ms, false);
    } else if (o.Has(kReadPinned)) {
      recency.Remove(slot);
      o.Set(kAside, true);
    } else if (slot == spare_slot) {
      recency.Remove(slot);
      spared = true;
    } else {
      const bool lost = IsLost(o);
      if (!lost) result.bytes += BytesOf(o);
      ++result.victims;
      Unlink(slot, !table.attached ? Why::kFlushed : lost ? Why::kLost : Why::kEvicted, now);
    }
  }
  result.cut_off = result.renewed == kRenewedPerCall;
  if (spared) Enqueue(spare_slot, false);
  counters.evict_looked_at += result.looked_at;
  return result;
}

// All its segments are gone for good: only its record is left.
bool Master::Impl::IsLost(const Object& o) const {
  bool lost = true;
  ForEachReplica(o, [&](uint32_t segment, bool, const ExtentList*) {
    lost = lost && segments[segment].life == Segment::Life::kGone;
  });
  return lost;
}

// Bytes that count against the watermark. What is DYING comes back by itself; what is FENCING or PARKED may not.
uint64_t Master::Impl::UsedForWatermark(Tier t) const {
  uint64_t used = 0;
  for (const uint32_t id : tier(t).segments) {
    const Segment& s = segments[id];
    if (s.readable) used += s.size - s.bytes.free - s.bytes.dying;
  }
  return used;
}

bool Master::Impl::AboveWatermark(Tier t) const {
  const auto high = options.eviction_high_watermark_ratio * static_cast<double>(tier(t).usable);
  return tier(t).usable > 0 && static_cast<double>(UsedForWatermark(t)) > high;
}

}  // namespace tiercel::core
