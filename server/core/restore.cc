// Starting with what the index held.
//
// The index alone says what exists. Stores that it names are away until they join; their segments are `expected` until
// their store has named them, and closed to allocation until it has closed the puts of former masters. So a restored
// object is there at once (a put of its key takes its place, a flush removes it) and is seen when its bytes are.
//
// Records are taken in the order of their versions, so that the newest of a key stays and eviction finds the oldest
// first.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

namespace {

// A store that was noted, or is to be: what it may be called.
bool GoodStore(const Record& r) {
  return r.store < kMaxStores && !r.name.empty() && r.name.size() <= kMaxNameBytes && r.host.size() <= kMaxNameBytes &&
         r.storage_id.size() <= kMaxNameBytes;
}

}  // namespace

Restored Master::Impl::Restore(Record&& record, Times now) {
  At(now);
  ++restored.records;
  switch (record.kind) {
    case Record::Kind::kStore: return RestoreStore(std::move(record), now);
    case Record::Kind::kSegment: return RestoreSegment(std::move(record));
    case Record::Kind::kNamespace:
      if (record.name_space >= options.name_spaces) return Restored::kInvalid;
      if (record.name_space >= flush_floors.size()) flush_floors.resize(record.name_space + 1);
      flush_floors[record.name_space] = std::max(flush_floors[record.name_space], record.number);
      return TakeVersion(record.number) ? Restored::kRestored : Restored::kInvalid;
    case Record::Kind::kPut: {
      const Version version = record.version;
      const Restored outcome = RestoreObject(std::move(record), now);
      ++restored.outcomes[static_cast<size_t>(outcome)];
      if (outcome != Restored::kRestored) DropRecord(version);
      return outcome;
    }
    case Record::Kind::kDelete:
    case Record::Kind::kGeneration: return Restored::kRestored;
  }
  return Restored::kInvalid;
}

// What was given out is not given out again, also if the generation's file is behind the index. False: out of range.
bool Master::Impl::TakeVersion(uint64_t version) {
  if (version < next_version) return true;
  const uint64_t next = (version >> kCounterBits) + 1;
  if (next >= kMaxGeneration) return false;
  generation = next;
  next_version = (generation << kCounterBits) + 1;
  for (Store& store : stores) store.closed_below = generation << kCounterBits;
  return true;
}

Restored Master::Impl::RestoreStore(Record&& r, Times now) {
  if (r.gone) return Restored::kRestored;
  if (!GoodStore(r) || store_names.contains(r.name)) return Restored::kInvalid;
  while (stores.size() <= r.store) {
    stores.emplace_back();
    stores.back().slot = static_cast<StoreSlot>(stores.size() - 1);
    stores.back().info.state = StoreInfo::State::kGone;
  }
  Store& store = stores[r.store];
  if (store.info.state != StoreInfo::State::kGone) return Restored::kInvalid;
  store_names.emplace(r.name, r.store);
  store.info.name = std::move(r.name);
  store.info.storage_id = std::move(r.storage_id);
  store.info.host = std::move(r.host);
  store.info.incarnation = r.incarnation;
  store.info.last_heard_ms = now.boot_ms;
  store.info.state = StoreInfo::State::kAway;
  store.noted = store.info;
  store.host = HostOf(store.info);
  store.must_announce = true;
  store.closed_below = generation << kCounterBits;
  return Restored::kRestored;
}

Restored Master::Impl::RestoreSegment(Record&& r) {
  if (r.gone) return Restored::kRestored;
  if (r.store >= stores.size() || stores[r.store].info.state != StoreInfo::State::kAway) return Restored::kNoSegment;
  SegmentJoin join;
  join.tier = r.tier;
  join.id = r.place.segment;
  join.epoch = r.place.epoch;
  join.name = std::move(r.name);
  join.size = r.size;
  Store& store = stores[r.store];
  if (!CheckSegment(store, join).ok()) return Restored::kInvalid;
  const auto same_number = [&](uint32_t id) { return segments[id].place.segment == join.id; };
  if (std::any_of(store.segments.begin(), store.segments.end(), same_number)) return Restored::kInvalid;
  Stage(&store, join);
  const uint32_t id = store.staged.back();
  store.staged.pop_back();
  segments[id].noted = true;
  segments[id].expected = true;
  PublishSegment(&store, id);
  segments[id].announced = false;
  return Restored::kRestored;
}

// ---- objects

// Takes the replica's bytes out of its segment's free space; extents as the record has them are cut to the value's
// length, as the allocator has them they are whole granules.
bool Master::Impl::ClaimReplica(const ReplicaInfo& from, uint64_t size, Replica* out, Restored* why) {
  const uint32_t id = from.store < stores.size() ? FindSegment(stores[from.store], from.place) : 0;
  if (id == 0 || segments[id].tier != from.tier) {
    *why = Restored::kNoSegment;
    return false;
  }
  Segment& s = segments[id];
  const uint64_t granule = GranuleOf(size);
  ExtentList whole;
  uint64_t stored = 0;
  for (const Extent& extent : from.extents) {
    const uint64_t length = (extent.length + granule - 1) / granule * granule;
    const bool last = &extent + 1 == from.extents.end();
    if (extent.length == 0 || extent.length > s.size || extent.offset > s.size - extent.length ||
        length > s.size - extent.offset || extent.offset % granule != 0 || (!last && length != extent.length)) {
      *why = Restored::kInvalid;
      return false;
    }
    stored += extent.length;
    whole.push_back({extent.offset, length});
  }
  if (stored != StoredBytes(size)) {
    *why = Restored::kInvalid;
    return false;
  }
  uint32_t claimed = 0;
  while (claimed < whole.size() && s.allocator->Claim(whole[claimed])) ++claimed;
  if (claimed < whole.size()) {
    while (claimed > 0) s.allocator->Free(whole[--claimed]);
    *why = Restored::kOverlap;
    return false;
  }
  s.Move(SpaceState::kFree, SpaceState::kReserved, whole.bytes());
  s.Move(SpaceState::kReserved, SpaceState::kLive, whole.bytes());
  ++s.refs;
  *out = Replica{id, false, std::move(whole)};
  return true;
}

Restored Master::Impl::RestoreObject(Record&& r, Times now) {
  if (r.key.empty() || r.key.size() > kMaxKeyBytes || r.size > kMaxValueBytes || r.name_space >= options.name_spaces ||
      r.replicas.size() > kMaxReplicas || !r.version) {
    return Restored::kInvalid;
  }
  if (r.name_space < flush_floors.size()) {
    const uint64_t floor = flush_floors[r.name_space];
    if (r.version.value < floor && r.number < floor) return Restored::kFlushed;
  }
  const KeyRef key = MakeKey(r.name_space, r.key);
  const uint32_t previous = FindAny(key);
  if (previous != 0 && objects[previous].version >= r.version.value) return Restored::kOlder;
  if (!TakeVersion(r.version.value)) return Restored::kInvalid;
  Restored why = Restored::kNoSegment;
  std::vector<Replica> kept;
  for (const ReplicaInfo& replica : r.replicas) {
    Replica claimed;
    if (ClaimReplica(replica, r.size, &claimed, &why)) kept.push_back(std::move(claimed));
  }
  if (kept.empty()) return why;

  const uint32_t slot = objects.Allocate();
  Object& o = objects[slot];
  o = Object();
  o.hash = key.hash;
  o.version = r.version.value;
  o.size = r.size;
  o.sum = r.sum;
  o.expire_at_ms = r.expire_at_ms;
  o.key = keys.Store(r.key);
  o.key_size = static_cast<uint16_t>(r.key.size());
  o.state = ObjectState::kLive;
  o.created_ms = o.used_ms = now.boot_ms;
  o.Set(kHardPinned, (r.flags & 1u) != 0);
  o.Set(kRecorded, true);
  o.segment = kept[0].segment;
  const bool complete = kept.size() == r.replicas.size();
  if (kept.size() == 1 && kept[0].extents.size() <= 1) {
    if (!kept[0].extents.empty()) o.offset = kept[0].extents[0].offset;
  } else {
    o.places = places.Allocate();
    for (const Replica& replica : kept) {
      side_bytes += replica.extents.size() > 1 ? replica.extents.size() * sizeof(Extent) : 0;
    }
    places[o.places].replicas = std::move(kept);
    side_bytes += places[o.places].replicas.capacity() * sizeof(Replica);
  }
  const int64_t pinned_ms = std::min(r.soft_pin_until_ms - now.wall_ms, options.soft_pin_max_ms);
  const bool soft_pinned = r.soft_pin_until_ms != 0 && pinned_ms > 0;
  if (soft_pinned || r.parent_hash != 0) {
    Extra& extra = ExtraOf(slot);
    extra.parent_hash = r.parent_hash;
    if (soft_pinned) extra.soft_pin_until_ms = now.boot_ms + pinned_ms;
    o.Set(kSoftPinned, soft_pinned);
  }
  NameTable* table = MakeTable(r.name_space);
  o.table = name_spaces[r.name_space];
  if (previous == 0) {
    table->table.Insert(o.hash, slot);
  } else {
    table->table.Replace(o.hash, previous, slot);
    ++restored.outcomes[static_cast<size_t>(Restored::kOlder)];
    DropRecord(Version{objects[previous].version});
    Unlink(previous, Why::kReplaced, now);
    Retire(previous, SpaceState::kDying);
    --restored.objects;
  }
  Reattach(slot, now);
  ++restored.objects;
  if (!complete) {
    o.seq = journal.Number(true);
    AddRecord(o.seq, PutRecord(o, true));
  }
  return Restored::kRestored;
}

// Repeating it does no harm: should the write fail, the next start drops the record again.
void Master::Impl::DropRecord(Version version) {
  if (!options.journal) return;
  Record record;
  record.kind = Record::Kind::kDelete;
  record.version = version;
  journal.BeginCommand();
  AddRecord(journal.Number(true), std::move(record));
}

void Master::Impl::RestoreDone(Times now) {
  At(now);
  journal.BeginCommand();
  restored.loading = false;
  for (Store& store : stores) store.info.last_heard_ms = now.boot_ms;
  UpdateTicketKey();
}

RestoreFigures Master::Impl::RestoreState() const {
  RestoreFigures figures = restored;
  const auto gone = [&](uint32_t id) { return segments[id].life == Segment::Life::kGone; };
  figures.waiting = placements.CountWhere([&](uint32_t id) { return segments[id].expected || gone(id); }) -
                    placements.CountWhere(gone);
  const uint64_t open = figures.waiting + figures.lost;
  figures.confirmed = figures.objects > open ? figures.objects - open : 0;
  return figures;
}

}  // namespace tiercel::core
