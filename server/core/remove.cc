// Taking objects out of sight, and back; dropping replicas.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

void Master::Impl::Publish(Event::Kind kind, uint32_t name_space, std::string_view key) {
  if (!options.events) return;
  ++event_number;
  if (events.size() >= kMaxEvents) {
    events.pop_front();
    ++counters.events_dropped;
  }
  events.push_back({event_number, kind, name_space, std::string(key)});
  signals.events = true;
}

// ---- side tables

Extra& Master::Impl::ExtraOf(uint32_t slot) {
  Object& o = objects[slot];
  if (o.extra == 0) {
    o.extra = extras.Allocate();
    Extra& extra = extras[o.extra];
    extra.next = 0;
    extra.owner = slot;
    extra.soft_pin_until_ms = 0;
    extra.soft_place = 0;
    extra.parent_hash = 0;
    extra.priority = 0;
    extra.group.clear();
  }
  return extras[o.extra];
}

void Master::Impl::FreeExtra(Object* o) {
  if (o->extra == 0) return;
  TIERCEL_CHECK(extras[o->extra].soft_place == 0);
  side_bytes -= extras[o->extra].group.capacity();
  extras[o->extra].group = std::string();
  extras.Free(o->extra);
  o->extra = 0;
}

void Master::Impl::FreePlaces(Object* o) {
  if (o->places == 0) return;
  std::vector<Replica>& replicas = places[o->places].replicas;
  side_bytes -= replicas.capacity() * sizeof(Replica);
  for (const Replica& r : replicas) side_bytes -= r.extents.size() > 1 ? r.extents.size() * sizeof(Extent) : 0;
  replicas = {};
  places.Free(o->places);
  o->places = 0;
}

void Master::Impl::SetPlacement(Object* o) {
  if (o->places == 0) {
    o->placement = segments[o->segment].placement;
    return;
  }
  set_scratch.clear();
  for (const Replica& replica : places[o->places].replicas) set_scratch.push_back(replica.segment);
  std::sort(set_scratch.begin(), set_scratch.end());
  set_scratch.erase(std::unique(set_scratch.begin(), set_scratch.end()), set_scratch.end());
  const auto readable = std::count_if(set_scratch.begin(), set_scratch.end(),
                                      [&](uint32_t segment) { return segments[segment].readable; });
  o->placement = placements.Find(set_scratch, segments[o->segment].tier, static_cast<uint32_t>(readable));
}

uint64_t Master::Impl::BytesOf(const Object& o) const { return AllocatedBytes(o.size) * ReplicaCount(o); }
uint64_t Master::Impl::PinnedBytesOf(const Object& o) const { return PinnedBytes(o.size) * ReplicaCount(o); }

// ---- unlinking

void Master::Impl::Detach(uint32_t slot) {
  Object& o = objects[slot];
  TierState& t = tier(TierOf(o));
  Dequeue(slot);
  if (o.ttl_place != 0) ttl.Remove(o.ttl_place);
  if (o.Has(kSoftPinned)) {
    soft_pins.Remove(extras[o.extra].soft_place);
    t.soft_pinned_bytes -= BytesOf(o);
    --t.soft_pinned_objects;
  }
  if (o.Has(kHardPinned)) {
    t.hard_pinned_bytes -= PinnedBytesOf(o);
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) { segments[s].hard_pinned -= AllocatedBytes(o.size); });
  }
  if (o.Has(kRecorded)) --tables[o.table]->recorded;
  placements.Remove(o.placement, o.table);
}

void Master::Impl::Reattach(uint32_t slot, Times now) {
  Object& o = objects[slot];
  TierState& t = tier(TierOf(o));
  SetPlacement(&o);
  placements.Add(o.placement, o.table);
  if (o.Has(kRecorded)) ++tables[o.table]->recorded;
  if (o.expire_at_ms != 0) ttl.Push(o.expire_at_ms, slot);
  if (o.Has(kSoftPinned) && extras[o.extra].soft_pin_until_ms <= now.boot_ms) o.Set(kSoftPinned, false);
  if (o.Has(kSoftPinned)) {
    soft_pins.Push(extras[o.extra].soft_pin_until_ms, o.extra);
    t.soft_pinned_bytes += BytesOf(o);
    ++t.soft_pinned_objects;
  }
  if (o.Has(kHardPinned)) {
    t.hard_pinned_bytes += PinnedBytesOf(o);
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) { segments[s].hard_pinned += AllocatedBytes(o.size); });
  }
  o.Set(kAside, false);
  Enqueue(slot, true);
}

void Master::Impl::Unlink(uint32_t slot, Why why, Times now) {
  At(now);
  Object& o = objects[slot];
  TIERCEL_CHECK(o.state == ObjectState::kLive);
  NameTable& table = *tables[o.table];
  TIERCEL_CHECK(!table.gated, "a flush that may be undone keeps its objects");
  const bool journaled = Journaled(o);
  if (why != Why::kReplaced) table.table.Erase(o.hash, slot);
  Detach(slot);
  o.state = ObjectState::kUnlinked;
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
    Move(s, SpaceState::kLive, SpaceState::kDying, AllocatedBytes(o.size));
  });
  switch (why) {
    case Why::kDeleted:
      ++counters.deleted_objects;
      Publish(Event::Kind::kDel, table.name_space, KeyOf(o));
      break;
    case Why::kReplaced: return;  // the caller journals both as one change
    case Why::kEvicted:
      ++counters.evicted_objects;
      counters.evicted_bytes += BytesOf(o);
      if (o.Has(kSoftPinned)) ++counters.evicted_soft_pinned;
      Publish(Event::Kind::kEvicted, table.name_space, KeyOf(o));
      break;
    case Why::kExpired:
      ++counters.expired_objects;
      Publish(Event::Kind::kExpired, table.name_space, KeyOf(o));
      break;
    case Why::kLost:
      ++counters.lost_objects;
      Publish(Event::Kind::kReplicaLost, table.name_space, KeyOf(o));
      break;
    case Why::kFlushed: break;
  }
  if (journaled) {
    JournalUnlink(slot, why == Why::kDeleted);
  } else {
    Retire(slot, SpaceState::kDying);
  }
}

void Master::Impl::Relink(uint32_t slot, Times now) {
  Object& o = objects[slot];
  TIERCEL_CHECK(o.state == ObjectState::kUnlinked);
  tables[o.table]->table.Insert(o.hash, slot);
  o.state = ObjectState::kLive;
  o.seq = 0;
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
    Move(s, SpaceState::kDying, SpaceState::kLive, AllocatedBytes(o.size));
  });
  Reattach(slot, now);
}

void Master::Impl::Retire(uint32_t slot, SpaceState state) {
  Object& o = objects[slot];
  TIERCEL_CHECK(o.state == ObjectState::kUnlinked);
  if (o.Has(kReadPinned)) pins.Find(o.version)->object = 0;
  if (o.places == 0) {
    Release(o.segment, ExtentsOf(o), o.version, state, o.lease_until_ms);
  } else {
    for (Replica& r : places[o.places].replicas) {
      side_bytes -= r.extents.size() > 1 ? r.extents.size() * sizeof(Extent) : 0;
      Release(r.segment, std::move(r.extents), o.version, state, o.lease_until_ms);
    }
    FreePlaces(&o);
  }
  FreeExtra(&o);
  keys.Free(o.key);
  o.state = ObjectState::kFree;
  objects.Free(slot);
}

// ---- single replicas

// Takes the replica on this segment away. The object must keep another one, or be unlinked by the caller.
bool Master::Impl::DropReplica(uint32_t slot, uint32_t segment, Times now) {
  Object& o = objects[slot];
  if (ReplicaCount(o) == 1) {
    Unlink(slot, Why::kLost, now);
    return false;
  }
  Detach(slot);
  std::vector<Replica>& replicas = places[o.places].replicas;
  const auto it =
      std::find_if(replicas.begin(), replicas.end(), [&](const Replica& r) { return r.segment == segment; });
  TIERCEL_CHECK(it != replicas.end());
  ExtentList extents = std::move(it->extents);
  side_bytes -= extents.size() > 1 ? extents.size() * sizeof(Extent) : 0;
  replicas.erase(it);
  o.segment = replicas.front().segment;
  Reattach(slot, now);
  Publish(Event::Kind::kReplicaLost, tables[o.table]->name_space, KeyOf(o));
  if (segments[segment].life == Segment::Life::kGone) {
    Unref(segment);
    return true;
  }
  Move(segment, SpaceState::kLive, SpaceState::kDying, AllocatedBytes(o.size));
  if (!Journaled(o)) {
    Release(segment, std::move(extents), o.version, SpaceState::kDying, o.lease_until_ms);
    return true;
  }
  // The record still names the place: it stays until the record without it is durable.
  const uint32_t id = held.Allocate();
  Held& h = held[id];
  h = Held{.segment = segment, .put = o.version, .until_ms = o.lease_until_ms, .extents = std::move(extents)};
  h.bytes = AllocatedBytes(o.size);
  h.waits = Held::Waits::kJournal;
  o.seq = journal.Number(o.Has(kRecorded));
  journal.Append({.seq = o.seq,
                  .kind = JournalEntry::Kind::kRelease,
                  .recorded = o.Has(kRecorded),
                  .slot = slot,
                  .held = id,
                  .version = o.version});
  if (o.Has(kRecorded)) AddRecord(o.seq, PutRecord(o, true));
  return true;
}

bool Master::Impl::DropReplicas(uint32_t slot, Times now) {
  for (;;) {
    const Object& o = objects[slot];
    uint32_t gone = 0;
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
      if (segments[s].life == Segment::Life::kGone) gone = s;
    });
    if (gone == 0) return true;
    if (!DropReplica(slot, gone, now)) return false;
  }
}

// ---- commands

bool Master::Impl::Delete(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindAny(key);
  if (slot == 0) return false;
  const Object& o = objects[slot];
  const bool readable = Readable(o, now);
  // What cannot be read because its store is away goes too: it would come back with its store, after the key was
  // deleted. What has expired or is lost never does, and the sweep has it.
  const bool expired = o.expire_at_ms != 0 && o.expire_at_ms <= now.wall_ms;
  if (!readable && (expired || IsLost(o))) return false;
  Unlink(slot, Why::kDeleted, now);
  return readable;
}

Status Master::Impl::Report(const KeyRef& key, Version version, Incarnation store, SegmentRef place, ErrorCode what,
                            Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return Error(ErrorCode::kNotFound, "no such key");
  const Object& o = objects[slot];
  NoteSeq(o);
  if (o.version != version.value) {
    return Error(ErrorCode::kStaleVersion, "the key's version is " + std::to_string(o.version) + " now");
  }
  uint32_t found = 0;
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
    if (segments[s].place == place && stores[segments[s].store].info.incarnation == store) found = s;
  });
  if (found == 0) return Error(ErrorCode::kNoReplica, "the object has no replica there");
  switch (what) {
    case ErrorCode::kChecksum:
    case ErrorCode::kLength: break;
    case ErrorCode::kLeaseExpired: return Ok();  // bytes may have changed after the lease: nobody is to blame
    default: ++counters.replicas_reported_unreachable;
  }
  AddVerify(slot, found);
  return Ok();
}

Result<uint32_t> Master::Impl::Verify(const KeyRef& key, Times now) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return Error(ErrorCode::kNotFound, "no such key");
  NoteSeq(objects[slot]);
  set_scratch.clear();
  ForEachReplica(objects[slot], [&](uint32_t s, bool, const ExtentList*) {
    if (segments[s].readable) set_scratch.push_back(s);
  });
  const std::vector<uint32_t> asked = set_scratch;
  uint32_t ordered = 0;
  for (uint32_t segment : asked) ordered += AddVerify(slot, segment) ? 1 : 0;
  if (ordered == 0) return Error(ErrorCode::kRetry, "the stores' queues of work are full");
  return ordered;
}

}  // namespace tiercel::core
