// Numbers for people and for metadata-max.
#include "server/core/impl.h"

namespace tiercel::core {

TierFigures Master::Impl::Figures(Tier t) const {
  const TierState& state = tier(t);
  TierFigures f;
  f.tier = t;
  f.configured = state.configured;
  f.usable = state.usable;
  for (const uint32_t id : state.segments) f.bytes += segments[id].bytes;
  f.leased = recency.leased_bytes(t);
  f.lease_cap = LeaseCap(t);
  f.soft_pinned = state.soft_pinned_bytes;
  f.hard_pinned = state.hard_pinned_bytes;
  f.hard_pin_budget = HardPinBudget(t);
  f.objects = placements.readable_of(t);
  const auto usable = static_cast<double>(state.usable);
  f.high_watermark = static_cast<uint64_t>(options.eviction_high_watermark_ratio * usable);
  f.low_watermark = static_cast<uint64_t>((options.eviction_high_watermark_ratio - options.eviction_ratio) * usable);
  return f;
}

uint64_t Master::Impl::MetadataBytes() const {
  constexpr uint64_t kTreeNodeBytes = 96;
  uint64_t bytes = objects.memory_bytes() + keys.memory_bytes() + pages.memory_bytes() + places.memory_bytes() +
                   extras.memory_bytes() + held.memory_bytes() + side_bytes + recency.memory_bytes() +
                   placements.memory_bytes() + ttl.memory_bytes() + soft_pins.memory_bytes() +
                   quarantine.memory_bytes() + pins.memory_bytes() + puts.memory_bytes() + journal.memory_bytes();
  for (const auto& table : tables) bytes += table == nullptr ? 0 : sizeof(NameTable) + table->table.memory_bytes();
  for (const Segment& s : segments) bytes += sizeof(s) + (s.allocator.has_value() ? s.allocator->memory_bytes() : 0);
  for (const Store& s : stores) {
    bytes += sizeof(s) + s.open.memory_bytes() + (s.open_order.size() + s.to_close.size() + s.work.size()) * 8;
  }
  return bytes + tasks.size() * (sizeof(Task) + kTreeNodeBytes) + events.size() * sizeof(Event);
}

}  // namespace tiercel::core
