// What waits to become free.
//
// The conditions of a Held are looked at one after the other, and it waits for the first that does not hold, in the
// structure that belongs to it: the lease in a heap, reads in the version's Pin, the closing in the store's OpenPut,
// a silent store in the store's chain, a pinned range in the segment's list. Whatever happens wakes what waits for
// it, so nothing is polled.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

void Master::Impl::Move(uint32_t segment, SpaceState from, SpaceState to, uint64_t bytes) {
  Segment& s = segments[segment];
  if (s.life == Segment::Life::kGone) return;  // lost: there is nothing to account for
  s.Move(from, to, bytes);
}

void Master::Impl::Unref(uint32_t segment) {
  Segment& s = segments[segment];
  TIERCEL_CHECK(s.refs > 0);
  if (--s.refs == 0 && s.life == Segment::Life::kGone) ForgetSegment(segment);
}

void Master::Impl::FreeNow(uint32_t segment, const ExtentList& extents, SpaceState from, uint64_t bytes) {
  Segment& s = segments[segment];
  s.Move(from, SpaceState::kFree, bytes);
  for (const Extent& extent : extents) s.allocator->Free(extent);
  freed_bytes += bytes;
  signals.space = true;
  Unref(segment);
}

namespace {

// Space comes back only from a store that speaks with us.
bool MayFree(const Store& store) {
  return store.info.state == StoreInfo::State::kServing || store.info.state == StoreInfo::State::kLeaving;
}

}  // namespace

void Master::Impl::Release(uint32_t segment, ExtentList extents, uint64_t put, SpaceState state, int64_t until_ms) {
  Segment& s = segments[segment];
  const uint64_t bytes = extents.bytes();
  if (s.life == Segment::Life::kGone || bytes == 0) return Unref(segment);
  const Store& store = stores[s.store];
  if (state != SpaceState::kParked && until_ms <= boot_ms && MayFree(store) && !pins.Contains(put) &&
      !store.open.Contains(put)) {
    return FreeNow(segment, extents, state, bytes);
  }
  const uint32_t id = held.Allocate();
  Held& h = held[id];
  h = Held{.segment = segment, .put = put, .until_ms = until_ms, .state = state, .extents = std::move(extents)};
  h.bytes = bytes;
  if (state == SpaceState::kParked) s.parked.push_back(id);
  Settle(id);
}

void Master::Impl::Settle(uint32_t id) {
  Held& h = held[id];
  h.waits = Held::Waits::kNothing;
  Segment& s = segments[h.segment];
  if (s.life == Segment::Life::kGone) return DropHeld(id);
  if (h.until_ms > boot_ms) {
    h.waits = Held::Waits::kLease;
    return quarantine.Push(h.until_ms, id);
  }
  if (Pin* pin = pins.Find(h.put)) {
    h.waits = Held::Waits::kReads;
    h.next = pin->held;
    pin->held = id;
    return;
  }
  Store& store = stores[s.store];
  if (OpenPut* open = store.open.Find(h.put)) {
    TIERCEL_CHECK(open->held == 0, "a put has one place at a store");
    h.waits = Held::Waits::kClose;
    open->held = id;
    return;
  }
  if (h.state == SpaceState::kParked) {
    h.waits = Held::Waits::kUnpin;
    return;
  }
  if (!MayFree(store)) {
    h.waits = Held::Waits::kStore;
    h.next = store.waiting;
    store.waiting = id;
    return;
  }
  const uint32_t segment = h.segment;
  const ExtentList extents = std::move(h.extents);
  const SpaceState state = h.state;
  const uint64_t bytes = h.bytes;
  held.Free(id);
  FreeNow(segment, extents, state, bytes);
}

// Of a segment that is gone.
void Master::Impl::DropHeld(uint32_t id) {
  const uint32_t segment = held[id].segment;
  held[id].extents = ExtentList();
  held.Free(id);
  Unref(segment);
}

void Master::Impl::CloseSeen(Store* store, uint64_t put) {
  const OpenPut* open = store->open.Find(put);
  if (open == nullptr) return;
  const uint32_t waiting = open->held;
  store->open.Erase(put);
  if (waiting != 0) Settle(waiting);
}

void Master::Impl::RunQuarantine(Times now, uint32_t* budget) {
  while (*budget > 0 && !quarantine.empty() && quarantine.top_when() <= now.boot_ms) {
    --*budget;
    const uint32_t id = quarantine.top_id();
    quarantine.Remove(1);
    Settle(id);
  }
  while (*budget > 0 && !returning.empty()) {
    --*budget;
    const uint32_t id = returning.front();
    const uint32_t next = held[id].next;
    held[id].next = 0;
    if (next == 0) {
      returning.pop_front();
    } else {
      returning.front() = next;
    }
    Settle(id);
  }
  while (*budget > 0 && !orphaned_opens.empty()) {
    --*budget;
    uint64_t put = 0;
    OpenPut open;
    if (!orphaned_opens.front().TakeNext(&orphaned_at, &put, &open)) {
      orphaned_opens.pop_front();
      orphaned_at = 0;
    } else if (open.held != 0) {
      Settle(open.held);
    }
  }
}

}  // namespace tiercel::core
