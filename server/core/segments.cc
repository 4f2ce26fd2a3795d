// Segments: announced, published together, given up.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

// ---- announcing

bool Master::Impl::SameSegment(const Segment& s, const SegmentJoin& join) const {
  return s.tier == join.tier && s.place == SegmentRef{join.id, join.epoch} && s.name == join.name &&
         s.size == join.size / kSmallGranule * kSmallGranule;
}

Status Master::Impl::CheckSegment(const Store& store, const SegmentJoin& join) const {
  if (join.name.empty() || join.name.size() > kMaxNameBytes) {
    return Error(ErrorCode::kInvalid, "segment name: must have 1 to " + std::to_string(kMaxNameBytes) + " bytes");
  }
  if (join.size < kLargeGranule || join.size >= uint64_t{1} << 44) {
    return Error(ErrorCode::kInvalid, "size of segment " + join.name + ": must be 4096 to 2^44 bytes");
  }
  if (static_cast<int>(join.tier) >= kTierCount) return Error(ErrorCode::kInvalid, "no such tier");
  if (store.segments.size() + store.staged.size() >= kMaxSegmentsPerStore) {
    return Error(ErrorCode::kInvalid, "at most " + std::to_string(kMaxSegmentsPerStore) + " segments a store");
  }
  const auto gone = store.gone_epochs.find(join.id);
  if (gone == store.gone_epochs.end() && store.gone_epochs.size() >= kMaxSegmentNumbers) {
    return Error(ErrorCode::kInvalid, "the store has used up its segment numbers");
  }
  if (gone != store.gone_epochs.end() && join.epoch <= gone->second) {
    return Error(ErrorCode::kOldEpoch, "segment " + join.name + ": epoch " + std::to_string(gone->second) +
                                           " was given up, the next must be greater");
  }
  const auto taken = segment_names.find(join.name);
  if (taken != segment_names.end()) {
    const Segment& s = segments[taken->second];
    if (s.store != store.slot) {
      const StoreInfo& owner = stores[s.store].info;
      return Error(ErrorCode::kNameInUse,
                   "segment " + join.name + " belongs to store " + owner.name + " at " + owner.data_address);
    }
    if (s.place.segment != join.id) {
      return Error(ErrorCode::kInvalid, "segment " + join.name + " has another number");
    }
  }
  for (const std::vector<uint32_t>* list : {&store.segments, &store.staged}) {
    for (const uint32_t id : *list) {
      const Segment& s = segments[id];
      if (s.place.segment != join.id) continue;
      if (s.name != join.name) return Error(ErrorCode::kInvalid, "segment number taken by " + s.name);
      if (join.epoch < s.place.epoch) return Error(ErrorCode::kOldEpoch, "segment " + join.name + ": epoch is old");
      if (join.epoch == s.place.epoch && !SameSegment(s, join)) {
        return Error(ErrorCode::kInvalid, "segment " + join.name +
                                              ": size or tier changed under the same epoch, from " +
                                              std::to_string(s.size) + " bytes");
      }
    }
  }
  return Ok();
}

void Master::Impl::Stage(Store* store, const SegmentJoin& join) {
  for (const std::vector<uint32_t>* list : {&store->segments, &store->staged}) {
    for (const uint32_t id : *list) {
      Segment& same = segments[id];
      if (!SameSegment(same, join)) continue;
      same.announced = true;
      same.in_process = join.in_process;
      return;  // a repeat
    }
  }
  uint32_t id;
  if (free_segments.empty()) {
    id = static_cast<uint32_t>(segments.size());
    segments.emplace_back();
  } else {
    id = free_segments.back();
    free_segments.pop_back();
  }
  Segment& s = segments[id];
  s = Segment();
  s.life = Segment::Life::kStaged;
  s.tier = join.tier;
  s.store = store->slot;
  s.place = {join.id, join.epoch};
  s.name = join.name;
  s.size = join.size / kSmallGranule * kSmallGranule;
  s.outlives_master = join.outlives_master;
  s.in_process = join.in_process;
  store->staged.push_back(id);
  segment_names.try_emplace(s.name, id);  // an older epoch keeps the name until this one is published
}

Status Master::Impl::StoreSegments(StoreSlot slot, Incarnation incarnation, std::span<const SegmentJoin> joined,
                                   Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  for (const SegmentJoin& join : joined) {
    if (Status good = CheckSegment(*store, join); !good.ok()) {
      if (!store->staging_error.has_value()) store->staging_error = good.error();
      return good;
    }
    Stage(store, join);
  }
  return Ok();
}

void Master::Impl::DropStaged(Store* store) {
  for (const uint32_t id : store->staged) {
    const auto name = segment_names.find(segments[id].name);
    if (name != segment_names.end() && name->second == id) segment_names.erase(name);
    segments[id] = Segment();
    free_segments.push_back(id);
  }
  store->staged.clear();
  store->staging_error.reset();
}

// ---- serving

void Master::Impl::PublishSegment(Store* store, uint32_t id) {
  const uint32_t number = segments[id].place.segment;
  const auto older = std::find_if(store->segments.begin(), store->segments.end(),
                                  [&](uint32_t other) { return segments[other].place.segment == number; });
  if (older != store->segments.end()) SegmentGone(*older);
  Segment& s = segments[id];
  segment_names[s.name] = id;
  s.life = Segment::Life::kServing;
  s.allocator.emplace(s.size);
  s.bytes.free = s.size;
  s.placement = placements.Find({id}, s.tier, 0);
  s.closed = true;  // until StoreClosedBelow
  s.announced = true;
  store->segments.push_back(id);
  tier(s.tier).segments.push_back(id);
  NoteSegment(id);
  UpdateReadable(id);
}

void Master::Impl::UpdateReadable(uint32_t id) {
  Segment& s = segments[id];
  const StoreInfo::State state = stores[s.store].info.state;
  const bool readable = s.life == Segment::Life::kServing && !s.expected &&
                        (state == StoreInfo::State::kServing || state == StoreInfo::State::kSuspect ||
                         state == StoreInfo::State::kLeaving);
  if (readable != s.readable) {
    s.readable = readable;
    placements.SetReadable(id, readable);
  }
  TierState& t = tier(s.tier);
  t.configured = t.usable = 0;
  for (const uint32_t other : t.segments) {
    t.configured += segments[other].size;
    if (segments[other].readable) t.usable += segments[other].size;
  }
}

uint32_t Master::Impl::FindSegment(const Store& store, SegmentRef place) const {
  for (const uint32_t id : store.segments) {
    if (segments[id].place == place) return id;
  }
  return 0;
}

// ---- the end of an epoch

void Master::Impl::SegmentGone(uint32_t id) {
  Segment& s = segments[id];
  TIERCEL_CHECK(s.life == Segment::Life::kServing);
  Store& store = stores[s.store];
  const auto is_gone = [&](uint32_t other) { return segments[other].life == Segment::Life::kGone; };
  const uint64_t lost_before = s.expected ? placements.CountWhere(is_gone) : 0;
  NoteSegmentGone(id);
  std::erase(store.segments, id);
  std::erase(tier(s.tier).segments, id);
  segment_names.erase(s.name);
  uint32_t& last_epoch = store.gone_epochs[s.place.segment];
  last_epoch = std::max(last_epoch, s.place.epoch);
  s.life = Segment::Life::kGone;
  if (s.expected) restored.lost += placements.CountWhere(is_gone) - lost_before;
  s.expected = false;
  UpdateReadable(id);
  s.leave_at_ms.reset();
  s.allocator.reset();
  s.bytes = SpaceBytes();
  sweep_wanted = true;
  ++s.refs;  // stays until the end of this function
  const std::vector<uint32_t> parked = std::move(s.parked);
  s.parked.clear();
  for (const uint32_t waiting : parked) {
    if (held[waiting].waits == Held::Waits::kUnpin) DropHeld(waiting);
  }
  Unref(id);
}

void Master::Impl::ForgetSegment(uint32_t id) {
  placements.Forget(id);
  segments[id] = Segment();
  free_segments.push_back(id);
}

}  // namespace tiercel::core
