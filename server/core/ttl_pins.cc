// Times to live (wall clock) and pins (boot clock).
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

// ---- time to live

void Master::Impl::SetExpiry(uint32_t slot, int64_t wall_ms_in) {
  Object& o = objects[slot];
  o.expire_at_ms = wall_ms_in;
  if (wall_ms_in == 0) {
    if (o.ttl_place != 0) ttl.Remove(o.ttl_place);
  } else if (o.ttl_place != 0) {
    ttl.Update(o.ttl_place, wall_ms_in);
  } else {
    ttl.Push(wall_ms_in, slot);
  }
}

bool Master::Impl::ExpireAt(const KeyRef& key, int64_t at_wall_ms, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return false;
  if (at_wall_ms <= now.wall_ms) {
    Unlink(slot, Why::kDeleted, now);
    return true;
  }
  const Object& o = objects[slot];
  const int64_t old_ms = o.expire_at_ms;
  SetExpiry(slot, at_wall_ms);
  Publish(Event::Kind::kExpire, key.name_space, key.key);
  JournalChange(slot, o.flags, old_ms, SoftPinEnd(o));
  return true;
}

bool Master::Impl::Persist(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return false;
  const Object& o = objects[slot];
  NoteSeq(o);
  const int64_t old_ms = o.expire_at_ms;
  if (old_ms == 0) return false;
  SetExpiry(slot, 0);
  Publish(Event::Kind::kPersist, key.name_space, key.key);
  JournalChange(slot, o.flags, old_ms, SoftPinEnd(o));
  return true;
}

std::optional<int64_t> Master::Impl::Expiry(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return std::nullopt;
  NoteSeq(objects[slot]);
  return objects[slot].expire_at_ms;
}

void Master::Impl::Expire(Times now, uint32_t* budget) {
  constexpr int64_t kLaterMs = 1000;
  while (*budget > 0 && !ttl.empty() && ttl.top_when() <= now.wall_ms) {
    --*budget;
    const uint32_t slot = ttl.top_id();
    const NameTable& table = *tables[objects[slot].table];
    if (table.gated) {
      ttl.Update(1, now.wall_ms + kLaterMs);  // flushed, which may still be undone
    } else {
      Unlink(slot, table.attached ? Why::kExpired : Why::kFlushed, now);
    }
  }
}

// ---- pins

int64_t Master::Impl::SoftPinEnd(const Object& o) const {
  return o.Has(kSoftPinned) ? extras[o.extra].soft_pin_until_ms : 0;
}

// until 0: no pin.
void Master::Impl::SetSoftPin(uint32_t slot, int64_t until_ms) {
  Object& o = objects[slot];
  TierState& t = tier(TierOf(o));
  const bool queued = o.next != 0;
  const bool was = o.Has(kSoftPinned), will = until_ms > boot_ms;
  if (will) ExtraOf(slot).soft_pin_until_ms = until_ms;
  if (was && will) return soft_pins.Update(extras[o.extra].soft_place, until_ms);
  if (was == will) return;
  if (queued) recency.Remove(slot);
  o.Set(kSoftPinned, will);
  if (will) {
    soft_pins.Push(until_ms, o.extra);
    t.soft_pinned_bytes += BytesOf(o);
    ++t.soft_pinned_objects;
  } else {
    soft_pins.Remove(extras[o.extra].soft_place);
    t.soft_pinned_bytes -= BytesOf(o);
    --t.soft_pinned_objects;
  }
  if (!queued) return;
  // An object whose pin ends is as cold among the ordinary ones as its last use: the coldest, unless others are older.
  recency.RequeueRenewed(TierOf(o), ClassOf(o), boot_ms, kRenewedPerCall);
  const uint32_t coldest = recency.Coldest(TierOf(o), ClassOf(o));
  Enqueue(slot, will || (coldest != 0 && objects[coldest].used_ms <= o.used_ms));
}

void Master::Impl::SetHardPin(uint32_t slot, bool on) {
  Object& o = objects[slot];
  if (o.Has(kHardPinned) == on) return;
  TierState& t = tier(TierOf(o));
  const uint64_t each = AllocatedBytes(o.size);
  o.Set(kHardPinned, on);
  if (on) {
    Dequeue(slot);
    t.hard_pinned_bytes += PinnedBytesOf(o);
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) { segments[s].hard_pinned += each; });
  } else {
    t.hard_pinned_bytes -= PinnedBytesOf(o);
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) { segments[s].hard_pinned -= each; });
    Enqueue(slot, true);
  }
}

uint64_t Master::Impl::HardPinBudget(Tier t) const {
  return static_cast<uint64_t>(options.hard_pin_max_ratio * static_cast<double>(tier(t).configured));
}

Status Master::Impl::CheckPinBudget(Tier t, uint64_t bytes) const {
  const uint64_t budget = HardPinBudget(t), used = tier(t).hard_pinned_bytes + tier(t).hard_pin_reserved;
  if (used <= budget && bytes <= budget - used) return Ok();
  return Error(ErrorCode::kPinBudget, "hard pins use " + std::to_string(used) + " of " + std::to_string(budget) +
                                          " bytes, " + std::to_string(bytes) + " more were asked for");
}

Status Master::Impl::PinHard(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return Error(ErrorCode::kNotFound, "no such key");
  const Object& o = objects[slot];
  NoteSeq(o);
  if (o.Has(kHardPinned)) return Ok();
  TIERCEL_TRY(CheckPinBudget(TierOf(o), PinnedBytesOf(o)));
  const uint8_t old_flags = o.flags;
  SetHardPin(slot, true);
  JournalChange(slot, old_flags, o.expire_at_ms, SoftPinEnd(o));
  return Ok();
}

Status Master::Impl::PinSoft(const KeyRef& key, int64_t ms, Times now) {
  At(now);
  if (ms < 0 || ms > options.soft_pin_max_ms) {
    return Error(ErrorCode::kInvalid, "soft pin: must be 0 to " + std::to_string(options.soft_pin_max_ms) + " ms");
  }
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return Error(ErrorCode::kNotFound, "no such key");
  const Object& o = objects[slot];
  const uint8_t old_flags = o.flags;
  const int64_t old_end = SoftPinEnd(o);
  SetSoftPin(slot, ms == 0 ? 0 : now.boot_ms + ms);
  JournalChange(slot, old_flags, o.expire_at_ms, old_end);
  return Ok();
}

Status Master::Impl::Unpin(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return Error(ErrorCode::kNotFound, "no such key");
  const Object& o = objects[slot];
  const uint8_t old_flags = o.flags;
  const int64_t old_end = SoftPinEnd(o);
  SetHardPin(slot, false);
  SetSoftPin(slot, 0);
  JournalChange(slot, old_flags, o.expire_at_ms, old_end);
  return Ok();
}

void Master::Impl::EndSoftPins(Times now, uint32_t* budget) {
  while (*budget > 0 && !soft_pins.empty() && soft_pins.top_when() <= now.boot_ms) {
    --*budget;
    SetSoftPin(extras[soft_pins.top_id()].owner, 0);
  }
}

}  // namespace tiercel::core
