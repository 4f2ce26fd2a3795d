// Stores: who is there, since when silent, and what that means for their objects.
//
//   joining -READY-> serving <-> suspect -> away -> gone
//                       \-> leaving (notice given) -> gone
//
// Suspect: nothing is placed there, its replicas are offered last. Away: not offered. Both end when the same
// incarnation is heard again, and nothing was lost. Gone: its segments' epochs are over; the objects disappear at once
// and are taken apart by a sweep. Another incarnation under the name means that the former is gone.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

using State = StoreInfo::State;

uint32_t Master::Impl::HostOf(const StoreInfo& info) {
  // Stores that do not say where they are count as a host each.
  const std::string name = info.host.empty() ? "store:" + info.name : "host:" + info.host;
  if (hosts.size() > 2 * kMaxStores) {  // names of former hosts: keeps those in use
    std::erase_if(hosts, [&](const auto& entry) {
      return std::none_of(stores.begin(), stores.end(), [&](const Store& s) { return s.host == entry.second; });
    });
  }
  return hosts.try_emplace(name, next_host++).first->second;
}

Version Master::Impl::Floor(Store* store) const {
  while (!store->open_order.empty() && !store->open.Contains(store->open_order.front())) store->open_order.pop_front();
  // One put that stays open keeps those behind it in the queue: not more than a multiple of what is open.
  if (store->open_order.size() > 2 * store->open.size() + 1024) {
    std::erase_if(store->open_order, [&](uint64_t put) { return !store->open.Contains(put); });
  }
  return Version{store->open_order.empty() ? next_version : store->open_order.front()};
}

// ---- states

void Master::Impl::SetStoreState(Store* store, State state) {
  if (store->info.state == state) return;
  store->info.state = state;
  switch (state) {
    case State::kSuspect: ++counters.stores_suspect; break;
    case State::kAway: ++counters.stores_away; break;
    case State::kGone: ++counters.stores_gone; break;
    case State::kServing: WakeWaiting(store); break;
    case State::kJoining:
    case State::kLeaving: break;
  }
  for (const uint32_t id : store->segments) UpdateReadable(id);
  if (state == State::kServing) signals.space = true;
}

void Master::Impl::WakeWaiting(Store* store) {
  if (store->waiting == 0) return;
  returning.push_back(store->waiting);
  store->waiting = 0;
}

void Master::Impl::StoreGone(Store* store) {
  DropStaged(store);
  while (!store->segments.empty()) SegmentGone(store->segments.back());
  if (!store->open.empty()) orphaned_opens.push_back(std::move(store->open));
  store->open = FlatMap<OpenPut>();
  store->open_order.clear();
  store->to_close.clear();
  WakeWaiting(store);
  EndTasks(static_cast<StoreSlot>(store->slot));
  store->connected = store->ready = store->must_rejoin = false;
  store->leave_at_ms.reset();
  SetStoreState(store, State::kGone);
  UpdateTicketKey();
}

Result<Store*> Master::Impl::Heard(StoreSlot slot, Incarnation incarnation, Times now) {
  At(now);
  if (slot >= stores.size()) return Error(ErrorCode::kNoStore, "no such store");
  Store& store = stores[slot];
  if (store.info.incarnation != incarnation || store.info.state == State::kGone) {
    return Error(ErrorCode::kStaleIncarnation, "store " + store.info.name + ": this incarnation is over; join again");
  }
  if (store.must_rejoin) {
    return Error(ErrorCode::kStaleIncarnation,
                 "store " + store.info.name + " has not closed a put in time; join again");
  }
  store.connected = true;
  store.info.last_heard_ms = now.boot_ms;
  if (store.ready && (store.info.state == State::kSuspect || store.info.state == State::kAway)) {
    SetStoreState(&store, State::kServing);
  }
  return &store;
}

// ---- joining

// Another process on the same storage: what lies in the segments that it will name again has not changed. Its
// predecessor is dead (storage has one process at a time), so nothing that it was told to close is written any more.
void Master::Impl::Reincarnate(Store* store) {
  store->ready = store->must_rejoin = false;
  store->must_announce = true;
  SetStoreState(store, State::kAway);
  std::vector<uint64_t> ordered;
  store->open.ForEach([&](uint64_t put, OpenPut& open) {
    if (open.state != OpenPut::State::kOpen) ordered.push_back(put);
  });
  for (const uint64_t put : ordered) CloseSeen(store, put);
}

// Which slot the store gets; the predecessor under its name, if there is one to be replaced, is gone then.
Result<StoreSlot> Master::Impl::SlotFor(const StoreInfo& info, Times now) {
  const auto it = store_names.find(info.name);
  if (it != store_names.end()) {
    Store& before = stores[it->second];
    const bool same_storage = before.info.storage_id == info.storage_id;
    if (before.info.state == State::kGone) return it->second;
    if (before.info.incarnation == info.incarnation && same_storage) return it->second;
    const bool alive = before.connected && before.info.state != State::kSuspect && before.info.state != State::kAway &&
                       now.boot_ms - before.info.last_heard_ms < options.store_suspect_after_ms;
    if (alive) {
      return Error(ErrorCode::kNameInUse, "store " + info.name + " is here already, at " + before.info.data_address);
    }
    if (same_storage && !info.storage_id.empty()) {
      Reincarnate(&before);
    } else {
      StoreGone(&before);
    }
    return it->second;
  }
  StoreSlot slot = static_cast<StoreSlot>(stores.size());
  if (stores.size() < kMaxStores) {
    stores.emplace_back();
  } else {
    const auto gone = std::find_if(stores.begin(), stores.end(), [](const Store& s) {
      return s.info.state == State::kGone && s.waiting == 0 && s.segments.empty();
    });
    if (gone == stores.end()) {
      return Error(ErrorCode::kRetry, "there are " + std::to_string(kMaxStores) + " stores already");
    }
    slot = static_cast<StoreSlot>(gone - stores.begin());
    store_names.erase(gone->info.name);
    *gone = Store();
  }
  stores[slot].info.state = State::kGone;
  stores[slot].slot = slot;
  store_names.emplace(info.name, slot);
  return slot;
}

Result<StoreJoinReply> Master::Impl::StoreJoin(const StoreJoinRequest& request, Times now) {
  At(now);
  const StoreInfo& info = request.store;
  if (info.name.empty() || info.name.size() > kMaxNameBytes || info.host.size() > kMaxNameBytes ||
      info.storage_id.size() > kMaxNameBytes) {
    return Error(ErrorCode::kInvalid,
                 "store and host names, storage ids: at most " + std::to_string(kMaxNameBytes) + " bytes");
  }
  if (!info.incarnation) return Error(ErrorCode::kInvalid, "incarnation: must not be 0");
  if (request.generation_seen >= kMaxGeneration) return Error(ErrorCode::kInvalid, "generation: out of range");
  TIERCEL_ASSIGN(const StoreSlot slot, SlotFor(info, now));
  // A store that another life of the master has told this very generation: its versions are taken as well.
  const bool known_here = stores[slot].info.incarnation == info.incarnation && !stores[slot].must_announce;
  if (request.generation_seen > generation || (request.generation_seen == generation && !known_here)) {
    generation = request.generation_seen + 1;
    next_version = (generation << kCounterBits) + 1;
  }
  Store& store = stores[slot];
  const bool rejoin = store.info.state != State::kGone;
  const State state = rejoin ? store.info.state : State::kJoining;
  if (!rejoin) {
    // Another process on other storage begins its own count; what was given up on this one may not come again.
    const bool same_storage = store.info.storage_id == info.storage_id && !info.storage_id.empty();
    if (store.info.incarnation != info.incarnation && !same_storage) store.gone_epochs.clear();
    ++counters.stores_joined;
  }
  if (!rejoin || store.must_announce) store.closed_below = generation << kCounterBits;
  if (store.must_announce) {
    for (const uint32_t id : store.segments) segments[id].announced = false;
  }
  DropStaged(&store);
  store.info = info;
  store.info.state = state;
  store.info.last_heard_ms = now.boot_ms;
  store.host = HostOf(info);
  store.connected = true;
  store.must_rejoin = store.paused = false;
  store.sealing_key = newest_key;
  store.seal = DeriveStoreKey(store, newest_key);
  UpdateTicketKey();
  if (rejoin) {
    ResendCloses(&store);
    ResendTasks(slot);
    // What was reported as unpinned while nobody listened is not known: the store refuses what is still in use.
    for (const uint32_t id : store.segments) UnpinAll(id);
    if (store.ready && (state == State::kSuspect || state == State::kAway)) SetStoreState(&store, State::kServing);
  }
  StoreJoinReply reply;
  reply.slot = slot;
  reply.generation = generation;
  FillKeys(&reply.keys, &reply.ticket_keys, store, newest_key);
  reply.floor = Floor(&store);
  reply.time_ms = now.boot_ms;
  reply.ping_ms = options.ping_interval_ms;
  return reply;
}

Status Master::Impl::StoreReady(StoreSlot slot, Incarnation incarnation, Version closed_below, Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  if (store->staging_error.has_value()) {
    const Error refused = *store->staging_error;
    DropStaged(store);
    return refused;
  }
  if (store->info.state == State::kLeaving) {
    DropStaged(store);
    return Error(ErrorCode::kInvalid, "store " + store->info.name + " is leaving");
  }
  const std::vector<uint32_t> staged = std::move(store->staged);
  store->staged.clear();
  if (store->must_announce) {
    const std::vector<uint32_t> known = store->segments;
    for (const uint32_t id : known) {
      if (!segments[id].announced) SegmentGone(id);
      segments[id].expected = false;
    }
    store->must_announce = false;
    const auto noted = [&](uint32_t id) { return segments[id].noted; };
    if (std::any_of(store->segments.begin(), store->segments.end(), noted)) NoteStore(store);
  }
  for (const uint32_t id : staged) PublishSegment(store, id);
  store->ready = true;
  SetStoreState(store, State::kServing);
  return StoreClosedBelow(slot, incarnation, closed_below, now);
}

// ---- leaving

Status Master::Impl::StoreLeave(std::string_view name, std::string_view segment, int64_t grace_ms, Times now) {
  At(now);
  const auto it = store_names.find(name);
  if (it == store_names.end()) return Error(ErrorCode::kNoStore, "no store " + std::string(name));
  Store& store = stores[it->second];
  const int64_t at_ms = now.boot_ms + std::clamp<int64_t>(grace_ms, 0, options.store_forget_ms);
  // An earlier order for the same thing stands unless this one ends sooner.
  const auto sooner = [&](std::optional<int64_t>* leave_at) {
    if (!leave_at->has_value() || **leave_at > at_ms) *leave_at = at_ms;
  };
  if (segment.empty()) {
    if (store.info.state == State::kGone) return Ok();
    sooner(&store.leave_at_ms);
    for (const uint32_t id : store.segments) sooner(&segments[id].leave_at_ms);
    SetStoreState(&store, State::kLeaving);
    for (const uint32_t id : store.segments) UpdateReadable(id);
  } else {
    const auto found = segment_names.find(segment);
    if (found == segment_names.end() || segments[found->second].store != it->second ||
        segments[found->second].life != Segment::Life::kServing) {
      return Error(ErrorCode::kNoSegment, "store " + store.info.name + " has no segment " + std::string(segment));
    }
    sooner(&segments[found->second].leave_at_ms);
  }
  LeaveDue(&store, now);
  return Ok();
}

Status Master::Impl::StorePause(std::string_view name, Times now) {
  At(now);
  const auto it = store_names.find(name);
  if (it == store_names.end()) return Error(ErrorCode::kNoStore, "no store " + std::string(name));
  stores[it->second].paused = true;
  return Ok();
}

// Lets go of what has had its grace; when the next thing is due.
int64_t Master::Impl::LeaveDue(Store* store, Times now) {
  int64_t next = INT64_MAX;
  if (store->leave_at_ms.has_value()) {
    if (*store->leave_at_ms <= now.boot_ms) {
      StoreGone(store);
      return next;
    }
    next = *store->leave_at_ms;
  }
  const std::vector<uint32_t> all = store->segments;
  for (const uint32_t id : all) {
    const Segment& s = segments[id];
    if (!s.leave_at_ms.has_value()) continue;
    if (*s.leave_at_ms > now.boot_ms) {
      next = std::min(next, *s.leave_at_ms);
      continue;
    }
    Task drop;
    drop.kind = WorkItem::Kind::kDrop;
    drop.place = s.place;
    AddTask(store->slot, std::move(drop));
    SegmentGone(id);
  }
  return next;
}

// ---- silence

void Master::Impl::StoreDisconnected(StoreSlot slot, Incarnation incarnation, Times now) {
  At(now);
  if (slot >= stores.size() || stores[slot].info.incarnation != incarnation) return;
  Store& store = stores[slot];
  if (store.info.state == State::kGone) return;
  store.connected = false;
  StoreWorkLost(slot, incarnation);
  if (store.info.state == State::kServing) SetStoreState(&store, store.paused ? State::kAway : State::kSuspect);
}

int64_t Master::Impl::WatchStores(Times now) {
  int64_t next = INT64_MAX;
  for (Store& store : stores) {
    if (store.info.state == State::kGone) continue;
    next = std::min(next, LeaveDue(&store, now));
    if (store.info.state == State::kGone) continue;
    const int64_t silent_ms = now.boot_ms - store.info.last_heard_ms;
    const auto at = [&](int64_t limit_ms) { next = std::min(next, store.info.last_heard_ms + limit_ms); };
    switch (store.info.state) {
      case State::kJoining:
        if (silent_ms >= options.store_timeout_ms) StoreGone(&store);
        break;
      case State::kServing:
        if (silent_ms >= options.store_suspect_after_ms) SetStoreState(&store, State::kSuspect);
        [[fallthrough]];
      case State::kSuspect:
        if (silent_ms >= options.store_timeout_ms) SetStoreState(&store, State::kAway);
        [[fallthrough]];
      case State::kAway:
        if (silent_ms >= options.store_forget_ms) StoreGone(&store);
        break;
      case State::kLeaving:
      case State::kGone: break;
    }
    if (store.info.state == State::kServing) at(options.store_suspect_after_ms);
    if (store.info.state == State::kSuspect || store.info.state == State::kJoining) at(options.store_timeout_ms);
    if (store.info.state == State::kAway) at(options.store_forget_ms);
    if (store.info.state != State::kGone) CheckReleaseTimeout(&store, now);
  }
  UpdateTicketKey();
  return next;
}

}  // namespace tiercel::core
