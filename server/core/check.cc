// The rules that hold between the tables, checked by walking all of them. For tests.
#include <algorithm>
#include <map>
#include <vector>

#include "server/core/impl.h"

namespace tiercel::core {

// What the walk adds up, to be compared with what is kept.
struct Master::Impl::Tally {
  struct OfSegment {
    SpaceBytes bytes;
    uint64_t refs = 0, hard_pinned = 0;
    std::vector<Extent> used;
  };
  std::vector<OfSegment> segments;
  std::array<uint64_t, kTierCount> hard_pinned{}, soft_pinned{}, pin_reserved{}, leased{}, queued{};
  std::map<uint32_t, uint64_t> table_size, table_recorded, table_readable;
  uint64_t ttl = 0, soft_pins = 0, held_by_lease = 0, objects = 0;

  void Use(uint32_t segment, uint64_t SpaceBytes::* state, const ExtentList& extents) {
    OfSegment& s = segments[segment];
    ++s.refs;
    s.bytes.*state += extents.bytes();
    s.used.insert(s.used.end(), extents.begin(), extents.end());
  }
};

void Master::Impl::TallyObject(uint32_t slot, Tally* tally) const {
  const Object& o = objects[slot];
  ++tally->objects;
  const bool live = o.state == ObjectState::kLive;
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList* extents) {
    TIERCEL_CHECK(segments[s].life == Segment::Life::kServing || segments[s].life == Segment::Life::kGone);
    const ExtentList all = extents != nullptr ? *extents : ExtentsOf(o);
    TIERCEL_CHECK(all.bytes() == AllocatedBytes(o.size));
    tally->Use(s, live ? &SpaceBytes::live : &SpaceBytes::dying, all);
    if (live && o.Has(kHardPinned)) tally->segments[s].hard_pinned += all.bytes();
  });
  if (!live) {
    TIERCEL_CHECK(o.next == 0 && o.ttl_place == 0);
    return;
  }
  const size_t t = static_cast<size_t>(TierOf(o));
  TIERCEL_CHECK(tables[o.table] != nullptr);
  ++tally->table_size[o.table];
  if (o.Has(kRecorded)) ++tally->table_recorded[o.table];
  if (HasReadableReplica(o)) ++tally->table_readable[o.table];
  TIERCEL_CHECK(tables[o.table]->table.Find(o.hash, [&](uint32_t found) { return found == slot; }) == slot);
  TIERCEL_CHECK((o.expire_at_ms != 0) == (o.ttl_place != 0));
  if (o.ttl_place != 0) {
    ++tally->ttl;
    TIERCEL_CHECK(ttl.IdAt(o.ttl_place) == slot);
  }
  if (o.Has(kHardPinned)) tally->hard_pinned[t] += PinnedBytesOf(o);
  if (o.Has(kSoftPinned)) {
    tally->soft_pinned[t] += BytesOf(o);
    ++tally->soft_pins;
    TIERCEL_CHECK(extras[o.extra].owner == slot);
    TIERCEL_CHECK(soft_pins.IdAt(extras[o.extra].soft_place) == o.extra);
  }
  const Pin* pin = pins.Find(o.version);
  TIERCEL_CHECK(o.Has(kReadPinned) == (pin != nullptr));
  TIERCEL_CHECK(pin == nullptr || pin->object == slot);
  TIERCEL_CHECK(!o.Has(kAside) || o.Has(kReadPinned));
  TIERCEL_CHECK((o.next != 0) == (!o.Has(kHardPinned) && !o.Has(kAside)), "in a queue unless kept out of it");
  if (o.next != 0) ++tally->queued[t];
  if (recency.Counted(o.lease_until_ms)) tally->leased[t] += BytesOf(o);
}

void Master::Impl::TallyHeld(Tally* tally) const {
  constexpr uint64_t SpaceBytes::* kGauges[] = {
      nullptr, nullptr, nullptr, &SpaceBytes::fencing, &SpaceBytes::dying, &SpaceBytes::parked};
  for (uint32_t id = 1; id < held.end(); ++id) {
    const Held& h = held[id];
    if (h.extents.empty()) continue;
    TIERCEL_CHECK(h.waits != Held::Waits::kNothing, "what is held waits for something");
    TIERCEL_CHECK(h.bytes == h.extents.bytes());
    tally->Use(h.segment, kGauges[static_cast<size_t>(h.state)], h.extents);
    TIERCEL_CHECK((h.place != 0) == (h.waits == Held::Waits::kLease));
    if (h.place != 0) ++tally->held_by_lease;
    const Segment& s = segments[h.segment];
    if (s.life == Segment::Life::kGone) continue;
    const Store& store = stores[s.store];
    if (h.waits == Held::Waits::kClose) {
      TIERCEL_CHECK(store.open.Contains(h.put));
      TIERCEL_CHECK(store.open.Find(h.put)->held == id);
    }
    if (h.waits == Held::Waits::kReads) TIERCEL_CHECK(pins.Contains(h.put));
    const bool parked = std::find(s.parked.begin(), s.parked.end(), id) != s.parked.end();
    TIERCEL_CHECK(parked == (h.state == SpaceState::kParked));
  }
}

void Master::Impl::TallyPuts(Tally* tally) const {
  uint64_t count = 0;
  for (uint32_t slot = puts.oldest(); slot != 0; slot = puts[slot].newer) {
    const Put& put = puts[slot];
    ++count;
    TIERCEL_CHECK(puts.FindVersion(put.version) == slot);
    TIERCEL_CHECK(put.newer == 0 || puts[put.newer].last_sign_ms >= put.last_sign_ms);
    tally->pin_reserved[static_cast<size_t>(put.tier)] += put.pin_budget_bytes;
    std::vector<uint32_t> host_list;
    for (const PutReplica& replica : put.replicas) {
      tally->Use(replica.segment, &SpaceBytes::reserved, replica.extents);
      const Segment& s = segments[replica.segment];
      if (s.life == Segment::Life::kGone) continue;
      TIERCEL_CHECK(stores[s.store].open.Contains(put.version), "an open put is open at its store");
      host_list.push_back(stores[s.store].host);
    }
    std::sort(host_list.begin(), host_list.end());
    TIERCEL_CHECK(std::adjacent_find(host_list.begin(), host_list.end()) == host_list.end(), "one replica a host");
  }
  TIERCEL_CHECK(count == puts.size());
}

void Master::Impl::CheckSegments(Tally* tally) const {
  for (uint32_t id = 1; id < segments.size(); ++id) {
    const Segment& s = segments[id];
    Tally::OfSegment& sum = tally->segments[id];
    TIERCEL_CHECK(s.refs == sum.refs, "who refers to a segment is counted");
    if (s.life != Segment::Life::kServing) continue;
    s.CheckSum();
    TIERCEL_CHECK(s.bytes.reserved == sum.bytes.reserved);
    TIERCEL_CHECK(s.bytes.live == sum.bytes.live);
    TIERCEL_CHECK(s.bytes.fencing == sum.bytes.fencing);
    TIERCEL_CHECK(s.bytes.dying == sum.bytes.dying);
    TIERCEL_CHECK(s.bytes.parked == sum.bytes.parked);
    TIERCEL_CHECK(s.hard_pinned == sum.hard_pinned);
    std::sort(sum.used.begin(), sum.used.end());
    uint64_t end = 0;
    for (const Extent& extent : sum.used) {
      TIERCEL_CHECK(extent.offset >= end, "no byte has two owners");
      end = extent.offset + extent.length;
    }
    TIERCEL_CHECK(end <= s.size);
  }
}

void Master::Impl::CheckQueues(const Tally& tally) const {
  std::array<uint64_t, kTierCount> queued{};
  for (size_t i = 0; i < kTierCount; ++i) {
    const auto t = static_cast<Tier>(i);
    for (const QueueClass queue : {QueueClass::kOrdinary, QueueClass::kSoftPinned}) {
      const auto belongs = [&](uint32_t slot) {
        const Object& o = objects[slot];
        TIERCEL_CHECK(o.state == ObjectState::kLive);
        TIERCEL_CHECK(TierOf(o) == t && ClassOf(o) == queue);
        ++queued[i];
      };
      recency.ForEachQueued(t, queue, belongs);
      recency.ForEachLeased(t, queue, [&](int64_t bucket, uint32_t slot) {
        belongs(slot);
        TIERCEL_CHECK(Recency::BucketOf(objects[slot].lease_until_ms) >= bucket, "a lease is only renewed");
      });
    }
    TIERCEL_CHECK(queued[i] == tally.queued[i]);
    TIERCEL_CHECK(tally.leased[i] <= recency.leased_bytes(t), "all live leases are counted");
    TIERCEL_CHECK(tiers[i].hard_pinned_bytes == tally.hard_pinned[i]);
    TIERCEL_CHECK(tiers[i].soft_pinned_bytes == tally.soft_pinned[i]);
    TIERCEL_CHECK(tiers[i].hard_pin_reserved == tally.pin_reserved[i]);
  }
  TIERCEL_CHECK(ttl.size() == tally.ttl);
  TIERCEL_CHECK(soft_pins.size() == tally.soft_pins);
  TIERCEL_CHECK(quarantine.size() == tally.held_by_lease);
}

void Master::Impl::CheckInvariants(Times /*now*/) const {
  Tally tally;
  tally.segments.resize(segments.size());
  for (uint32_t slot = 1; slot < objects.end(); ++slot) {
    if (objects[slot].state != ObjectState::kFree) TallyObject(slot, &tally);
  }
  TIERCEL_CHECK(tally.objects == objects.used());
  TallyHeld(&tally);
  TallyPuts(&tally);
  CheckSegments(&tally);
  CheckQueues(tally);
  for (uint32_t id = 1; id < tables.size(); ++id) {
    if (tables[id] == nullptr) continue;
    const NameTable& table = *tables[id];
    table.table.Check();
    TIERCEL_CHECK(table.table.size() == tally.table_size[id]);
    TIERCEL_CHECK(table.recorded == tally.table_recorded[id]);
    TIERCEL_CHECK(placements.readable(id) == tally.table_readable[id], "counts are right at once");
    TIERCEL_CHECK(table.attached == (name_spaces[table.name_space] == id));
  }
}

}  // namespace tiercel::core
