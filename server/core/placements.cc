#include "server/core/placements.h"

#include <algorithm>

#include "base/check.h"

namespace tiercel::core {

uint32_t Placements::Find(const std::vector<uint32_t>& segments, Tier tier, uint32_t readable) {
  TIERCEL_CHECK(!segments.empty());
  const auto [it, is_new] = by_segments_.try_emplace(segments, 0);
  if (!is_new) return it->second;
  uint32_t id;
  if (unused_.empty()) {
    id = static_cast<uint32_t>(all_.size());
    all_.emplace_back();
  } else {
    id = unused_.back();
    unused_.pop_back();
  }
  it->second = id;
  all_[id] = Placement{.segments = segments, .tier = tier, .readable_segments = readable};
  for (uint32_t segment : segments) {
    if (segment >= of_segment_.size()) of_segment_.resize(segment + 1);
    of_segment_[segment].push_back(id);
  }
  return id;
}

void Placements::Add(uint32_t placement, uint32_t table) {
  Placement& p = all_[placement];
  if (table >= p.per_table.size()) p.per_table.resize(table + 1);
  if (table >= readable_.size()) readable_.resize(table + 1);
  ++p.per_table[table];
  ++p.objects;
  if (p.readable_segments == 0) return;
  ++readable_[table];
  ++per_tier_[static_cast<size_t>(p.tier)];
}

void Placements::Remove(uint32_t placement, uint32_t table) {
  Placement& p = all_[placement];
  TIERCEL_CHECK(table < p.per_table.size());
  TIERCEL_CHECK(p.per_table[table] > 0);
  --p.per_table[table];
  --p.objects;
  if (p.readable_segments > 0) {
    --readable_[table];
    --per_tier_[static_cast<size_t>(p.tier)];
  }
  if (p.objects == 0 && p.segments.size() > 1 && by_segments_.size() > kIdleSets) Drop(placement);
}

void Placements::Shift(const Placement& placement, bool up) {
  for (size_t table = 0; table < placement.per_table.size(); ++table) {
    uint64_t& count = readable_[table];
    TIERCEL_CHECK(up || count >= placement.per_table[table]);
    count = up ? count + placement.per_table[table] : count - placement.per_table[table];
  }
  uint64_t& tier = per_tier_[static_cast<size_t>(placement.tier)];
  tier = up ? tier + placement.objects : tier - placement.objects;
}

void Placements::SetReadable(uint32_t segment, bool readable) {
  if (segment >= of_segment_.size()) return;
  for (uint32_t id : of_segment_[segment]) {
    Placement& p = all_[id];
    if (readable) {
      if (p.readable_segments++ == 0) Shift(p, true);
    } else {
      TIERCEL_CHECK(p.readable_segments > 0);
      if (--p.readable_segments == 0) Shift(p, false);
    }
  }
}

void Placements::Drop(uint32_t placement) {
  Placement& p = all_[placement];
  TIERCEL_CHECK(p.objects == 0);
  for (uint32_t segment : p.segments) std::erase(of_segment_[segment], placement);
  by_segments_.erase(p.segments);
  p = Placement();
  unused_.push_back(placement);
}

void Placements::Forget(uint32_t segment) {
  if (segment >= of_segment_.size()) return;
  while (!of_segment_[segment].empty()) Drop(of_segment_[segment].back());
}

uint64_t Placements::memory_bytes() const {
  constexpr uint64_t kNodeBytes = 96;
  uint64_t bytes = all_.capacity() * sizeof(Placement) + by_segments_.size() * kNodeBytes;
  for (const Placement& p : all_) bytes += p.per_table.capacity() * sizeof(uint32_t);
  for (const auto& ids : of_segment_) bytes += ids.capacity() * sizeof(uint32_t) + sizeof(ids);
  return bytes;
}

}  // namespace tiercel::core
