// Looking up, leasing, reading.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

// ---- finding

NameTable* Master::Impl::TableOf(uint32_t name_space) const {
  if (name_space >= name_spaces.size() || name_spaces[name_space] == 0) return nullptr;
  return tables[name_spaces[name_space]].get();
}

NameTable* Master::Impl::MakeTable(uint32_t name_space) {
  TIERCEL_CHECK(name_space < options.name_spaces);
  if (name_space >= name_spaces.size()) name_spaces.resize(name_space + 1);
  uint32_t& id = name_spaces[name_space];
  if (id == 0) {
    if (free_tables.empty()) {
      id = static_cast<uint32_t>(tables.size());
      tables.emplace_back();
    } else {
      id = free_tables.back();
      free_tables.pop_back();
    }
    tables[id] = std::make_unique<NameTable>(&pages, name_space);
  }
  return tables[id].get();
}

uint32_t Master::Impl::FindAny(const KeyRef& key) const {
  const NameTable* table = TableOf(key.name_space);
  if (table == nullptr) return 0;
  if (key.hint != 0) {
    // A live record is in its table, and the only one of its key there.
    const Object& o = objects[key.hint];
    if (o.state == ObjectState::kLive && o.hash == key.hash && o.table == name_spaces[key.name_space] &&
        KeyOf(o) == key.key) {
      return key.hint;
    }
  }
  return table->table.Find(key.hash, [&](uint32_t slot) {
    const Object& o = objects[slot];
    return o.hash == key.hash && KeyOf(o) == key.key;
  });
}

uint32_t Master::Impl::FindReadable(const KeyRef& key, Times now) const {
  const uint32_t slot = FindAny(key);
  return slot != 0 && Readable(objects[slot], now) ? slot : 0;
}

bool Master::Impl::HasReadableReplica(const Object& o) const {
  if (o.places == 0) return segments[o.segment].readable;
  for (const Replica& replica : places[o.places].replicas) {
    if (segments[replica.segment].readable) return true;
  }
  return false;
}

bool Master::Impl::HasReplicaOf(const Object& o, Tier t) const {
  bool has = false;
  ForEachReplica(o, [&](uint32_t segment, bool, const ExtentList*) {
    has = has || (segments[segment].readable && segments[segment].tier == t);
  });
  return has;
}

bool Master::Impl::Readable(const Object& o, Times now) const {
  if (o.expire_at_ms != 0 && o.expire_at_ms <= now.wall_ms) return false;
  return HasReadableReplica(o);
}

ExtentList Master::Impl::ExtentsOf(const Object& o) const {
  const uint64_t bytes = AllocatedBytes(o.size);
  return bytes == 0 ? ExtentList() : ExtentList(Extent{o.offset, bytes});
}

// ---- what a look-up answers

void Master::Impl::FillInfo(const Object& o, std::optional<Tier> only, ObjectInfo* out) {
  out->version = Version{o.version};
  out->size = o.size;
  out->sum = o.sum;
  out->lease_ms = std::max<int64_t>(0, o.lease_until_ms - boot_ms);
  out->expire_at_ms = o.expire_at_ms;
  size_t n = 0;
  ForEachReplica(o, [&](uint32_t segment, bool suspect, const ExtentList* extents) {
    const Segment& s = segments[segment];
    if (!s.readable || (only.has_value() && s.tier != *only)) return;
    if (n == out->replicas.size()) out->replicas.emplace_back();
    ReplicaInfo& info = out->replicas[n++];
    info.tier = s.tier;
    info.suspect = suspect || stores[s.store].info.state == StoreInfo::State::kSuspect;
    info.store = s.store;
    info.place = s.place;
    info.extents.clear();
    if (extents != nullptr) {
      TrimExtents(*extents, o.size, &info.extents);
    } else if (o.size > 0) {
      info.extents.push_back({o.offset, StoredBytes(o.size)});
    }
  });
  out->replicas.resize(n);
  if (n < 2) return;
  // Equals take turns; suspect ones come last.
  std::rotate(out->replicas.begin(), out->replicas.begin() + spread++ % n, out->replicas.end());
  std::stable_partition(out->replicas.begin(), out->replicas.end(), [](const ReplicaInfo& r) { return !r.suspect; });
}

// ---- leases

// Bytes that may be leased: by the option, and always below the low watermark, so that eviction finds something.
uint64_t Master::Impl::LeaseCap(Tier t) const {
  const double low = options.eviction_high_watermark_ratio - options.eviction_ratio;
  const double ratio = std::min(options.lease_max_ratio, std::max(0.0, low - 0.01));
  return static_cast<uint64_t>(ratio * static_cast<double>(tier(t).usable));
}

void Master::Impl::Touch(uint32_t slot, Times now) {
  Object& o = objects[slot];
  o.used_ms = now.boot_ms;
  if (o.next == 0) return;
  const Tier t = TierOf(o);
  if (recency.Counted(o.lease_until_ms) || recency.IsHottest(t, ClassOf(o), slot)) return recency.Stamp(slot);
  recency.Remove(slot);
  recency.PushHot(t, ClassOf(o), slot);
}

void Master::Impl::GrantLease(uint32_t slot, const LookupOptions& how, Times now) {
  Object& o = objects[slot];
  const int64_t wanted_ms = std::clamp<int64_t>(how.lease_ms.value_or(options.lease_ttl_ms), 0, options.lease_max_ms);
  const int64_t until_ms = now.boot_ms + wanted_ms;
  const bool counted = recency.Counted(o.lease_until_ms);
  if (wanted_ms == 0 || (how.from_exists && !options.exists_grants_lease) || until_ms <= o.lease_until_ms) {
    if (how.touch) Touch(slot, now);
    return;
  }
  const Tier t = TierOf(o);
  const uint64_t bytes = BytesOf(o);
  if (!counted) {
    const uint64_t cap = how.from_exists ? LeaseCap(t) / 2 : LeaseCap(t);
    if (bytes > cap || recency.leased_bytes(t) > cap - bytes) {
      ++counters.leases_refused;
      if (how.touch) Touch(slot, now);
      return;
    }
  }
  ++counters.leases_granted;
  o.used_ms = now.boot_ms;
  if (!counted) {
    recency.Count(t, until_ms, bytes);
  } else if (Recency::BucketOf(o.lease_until_ms) != Recency::BucketOf(until_ms)) {
    recency.Uncount(t, o.lease_until_ms, bytes);
    recency.Count(t, until_ms, bytes);
  }
  o.lease_until_ms = until_ms;
  if (counted) return recency.Stamp(slot);  // where it is queued is put right when eviction comes upon it
  if (o.next == 0) return;                  // hard-pinned, or aside
  recency.Remove(slot);
  recency.PushLeased(t, ClassOf(o), slot, until_ms, true);
}

bool Master::Impl::Look(const KeyRef& key, const LookupOptions& how, Times now, ObjectInfo* out, int64_t* lease_ms) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0 || (how.tier.has_value() && !HasReplicaOf(objects[slot], *how.tier))) {
    ++counters.lookups_miss;
    return false;
  }
  ++counters.lookups_hit;
  const Object& o = objects[slot];
  NoteSeq(o);
  if (how.lease) {
    GrantLease(slot, how, now);
  } else if (how.touch) {
    Touch(slot, now);
  }
  if (lease_ms != nullptr) *lease_ms = std::max<int64_t>(0, o.lease_until_ms - boot_ms);
  if (out != nullptr) FillInfo(o, how.tier, out);
  return true;
}

Master::PrefixAnswer Master::Impl::PrefixMatch(std::span<const KeyRef> asked, const LookupOptions& how, Times now) {
  PrefixAnswer answer;
  bool all_leased = true;
  for (const KeyRef& key : asked) {
    int64_t lease_ms = 0;
    if (!Look(key, how, now, nullptr, &lease_ms)) break;
    ++answer.matched;
    all_leased = all_leased && lease_ms > 0;
    if (!all_leased) continue;
    answer.lease_ms = answer.leased == 0 ? lease_ms : std::min(answer.lease_ms, lease_ms);
    ++answer.leased;
  }
  return answer;
}

// ---- reads in this process

bool Master::Impl::BeginRead(const KeyRef& key, Times now, ObjectInfo* out) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) {
    ++counters.lookups_miss;
    return false;
  }
  ++counters.lookups_hit;
  Object& o = objects[slot];
  NoteSeq(o);
  Touch(slot, now);
  Pin& pin = pins[o.version];
  ++pin.count;
  pin.object = slot;
  o.Set(kReadPinned, true);
  FillInfo(o, std::nullopt, out);
  return true;
}

void Master::Impl::EndRead(Version version, Times now) {
  At(now);
  Pin* pin = pins.Find(version.value);
  TIERCEL_CHECK(pin != nullptr, "a read ends once for each time that it began");
  if (--pin->count > 0) return;
  const Pin ended = *pin;
  pins.Erase(version.value);
  if (ended.object != 0) {
    Object& o = objects[ended.object];
    o.Set(kReadPinned, false);
    if (o.Has(kAside)) {
      o.Set(kAside, false);
      if (o.state == ObjectState::kLive) Enqueue(ended.object, true);
    }
  }
  for (uint32_t id = ended.held; id != 0;) {
    const uint32_t next = held[id].next;
    held[id].next = 0;
    Settle(id);
    id = next;
  }
}

// ---- for people, and for the cache

bool Master::Impl::Describe(const KeyRef& key, Times now, ObjectDetail* out) {
  At(now);
  const uint32_t slot = FindReadable(key, now);
  if (slot == 0) return false;
  const Object& o = objects[slot];
  NoteSeq(o);
  FillInfo(o, std::nullopt, &out->info);
  out->state = "live";
  out->age_ms = now.boot_ms - o.created_ms;
  out->idle_ms = now.boot_ms - o.used_ms;
  out->lease_left_ms = out->info.lease_ms;
  out->hard_pin = o.Has(kHardPinned);
  out->soft_pin_left_ms = 0;
  out->group.clear();
  if (o.extra != 0) {
    const Extra& extra = extras[o.extra];
    if (o.Has(kSoftPinned)) out->soft_pin_left_ms = std::max<int64_t>(0, extra.soft_pin_until_ms - boot_ms);
    out->group = extra.group;
  }
  return true;
}

// Three rounds, each of which touches what the one before has asked for: lines of the table, records, keys.
void Master::Impl::Prefetch(std::span<KeyRef> asked) const {
  for (const KeyRef& key : asked) {
    if (const NameTable* table = TableOf(key.name_space)) table->table.Prefetch(key.hash);
  }
  for (KeyRef& key : asked) {
    const NameTable* table = TableOf(key.name_space);
    key.hint = table == nullptr ? 0 : table->table.Peek(key.hash);
    if (key.hint == 0) continue;
    const auto* record = reinterpret_cast<const std::byte*>(&objects[key.hint]);
    __builtin_prefetch(record, 1);
    __builtin_prefetch(record + 64, 1);
  }
  for (const KeyRef& key : asked) {
    if (key.hint == 0) continue;
    const Object& o = objects[key.hint];
    __builtin_prefetch(keys.At(o.key));
    // Nearly every use of an object without a lease moves it in its queue.
    if (!recency.Counted(o.lease_until_ms)) recency.PrefetchNeighbours(key.hint);
  }
}

}  // namespace tiercel::core
