// What the master orders of a store, and what it is told: closing puts, giving up segments, reports, figures.
#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "server/node/store_target.h"
#include "server/node/store_use.h"

namespace tiercel::node {

// ---- this process's own writes

Status StoreTarget::BeginLocalWrite(SegmentRef place, Version put, const ExtentList& extents) {
  Slot* slot = FindSlot(place.segment);
  if (slot == nullptr) {
    return Error(ErrorCode::kUnknownSegment, fmt::format("no segment {} at this store", place.segment));
  }
  if (std::optional<RangeTable::Conflict> conflict; !extents.empty()) {
    TIERCEL_TRY(LinkLocal(slot, place, put, extents, &conflict));
    if (conflict) {
      Error refusal = RefuseWrite(slot, put, extents, *conflict);
      CountRefusal(refusal.code());
      return refusal;
    }
  }
  Status begun = Ok();
  {
    std::lock_guard lock(puts_mu_);
    begun = puts_.Begin(put);
  }
  if (!begun.ok()) {
    UnlinkLocal(slot, place.epoch, extents);
    CountRefusal(begun.error().code());
  }
  return begun;
}

void StoreTarget::EndLocalWrite(SegmentRef place, Version put, const ExtentList& extents) {
  UnlinkLocal(FindSlot(place.segment), place.epoch, extents);
  EndPutOperation(put, /*for_good=*/true);
}

Status StoreTarget::LinkLocal(Slot* slot, SegmentRef place, Version put, const ExtentList& extents,
                              std::optional<RangeTable::Conflict>* conflict) {
  std::lock_guard lock(slot->mu);
  if (slot->place() != place) {
    return Error(ErrorCode::kOldEpoch,
                 fmt::format("segment {} is in epoch {}, not {}", place.segment, slot->place().epoch, place.epoch));
  }
  if (!slot->ranges.HasRoom(extents.size())) {
    return Error(ErrorCode::kRetry, fmt::format("too many uses of segment {} at a time", place.segment));
  }
  for (const Extent& extent : extents) {
    // The places come from the core of this very process, not from a wire.
    TIERCEL_CHECK(extent.length > 0);
    TIERCEL_CHECK(RangeWithin(extent.offset, extent.length, slot->local.size));
    *conflict = slot->ranges.Find(extent, Use::kIngest);
    if (*conflict) return Ok();
  }
  for (const Extent& extent : extents) slot->ranges.Add(extent, Use::kIngest, put);
  slot->Count(Use::kIngest, extents.bytes());
  return Ok();
}

void StoreTarget::UnlinkLocal(Slot* slot, uint32_t epoch, const ExtentList& extents) {
  std::lock_guard lock(slot->mu);
  if (epoch != slot->place().epoch) slot->old_uses -= extents.size();
  for (const Extent& extent : extents) slot->ranges.Remove(extent, Use::kIngest);
}

// ---- orders

void StoreTarget::SetKeys(Keys keys) {
  auto fresh = std::make_shared<const Keys>(std::move(keys));
  std::lock_guard lock(keys_mu_);
  keys_ = std::move(fresh);
}

void StoreTarget::SetMasterTime(int64_t master_ms, int64_t boot_ms) {
  master_offset_ms_.store(master_ms - boot_ms, std::memory_order_relaxed);
}

void StoreTarget::HeardMaster(int64_t boot_ms) { last_heard_ms_.store(boot_ms, std::memory_order_relaxed); }

void StoreTarget::ClosePuts(std::span<const Version> puts) {
  std::vector<Version> in_flight;
  bool closed = false;
  {
    std::lock_guard lock(puts_mu_);
    for (Version put : puts) {
      if (puts_.Close(put) == PutTable::CloseOutcome::kInFlight) {
        in_flight.push_back(put);
      } else {
        closed_.push_back(put);
        closed = true;
      }
    }
  }
  if (closed && wake_) wake_();
  if (in_flight.empty()) return;
  std::sort(in_flight.begin(), in_flight.end());
  RevokeWhere([&](const ActiveUse& use) {
    return use.kind() == Use::kIngest && std::binary_search(in_flight.begin(), in_flight.end(), use.version());
  });
}

void StoreTarget::RaiseFloor(Version floor) {
  size_t in_flight = 0;
  {
    std::lock_guard lock(puts_mu_);
    in_flight = puts_.RaiseFloor(floor);
  }
  if (in_flight == 0) return;
  RevokeWhere([floor](const ActiveUse& use) { return use.kind() == Use::kIngest && use.version() < floor; });
}

bool StoreTarget::AllClosedBelow(Version version) const {
  std::lock_guard lock(puts_mu_);
  return puts_.AllClosedBelow(version);
}

bool StoreTarget::DropSegment(SegmentRef place) {
  Slot* slot = FindSlot(place.segment);
  if (slot == nullptr) return false;
  {
    std::lock_guard lock(slot->mu);
    const uint32_t epoch = slot->place().epoch;
    if (epoch != place.epoch) return place.epoch < epoch;
    slot->ranges.ForgetRefused();
    slot->old_uses = slot->ranges.total_uses();
    if (const Status noted = slot->segment->NoteEpoch(place.epoch + 1); !noted.ok()) {
      Log(LogLevel::kWarning, "segment {}: its new epoch is lost if this process is: {}", slot->segment->name(),
          noted.error().message());
    }
    slot->epoch.store(place.epoch + 1, std::memory_order_release);
  }
  RevokeWhere([slot](const ActiveUse& use) { return use.slot() == slot; });
  return true;
}

bool StoreTarget::Drained(uint32_t segment) const {
  Slot* slot = FindSlot(segment);
  if (slot == nullptr) return true;
  std::lock_guard lock(slot->mu);
  return slot->old_uses == 0;
}

void StoreTarget::RefuseNewPuts() {
  std::lock_guard lock(puts_mu_);
  puts_.RefuseNew();
}

uint64_t StoreTarget::open_puts() const {
  std::lock_guard lock(puts_mu_);
  return puts_.open();
}

void StoreTarget::EndPutOperation(Version put, bool for_good) {
  PutTable::EndOutcome outcome;
  {
    std::lock_guard lock(puts_mu_);
    outcome = for_good ? puts_.EndForGood(put) : puts_.End(put);
    if (outcome == PutTable::EndOutcome::kClosedByOrder) closed_.push_back(put);
  }
  if (outcome != PutTable::EndOutcome::kNothing && wake_) wake_();
}

// The uses are collected under their segment's lock and revoked without it, because revoking may end them at once.
void StoreTarget::RevokeWhere(const std::function<bool(const ActiveUse&)>& which) {
  std::vector<std::shared_ptr<Revoker>> revokers;
  ForEachSlot([&](Slot* slot) {
    std::lock_guard lock(slot->mu);
    for (const ActiveUse* use = slot->first; use != nullptr; use = use->next) {
      if (use->revoker() && which(*use)) revokers.push_back(use->revoker());
    }
  });
  for (const auto& revoker : revokers) revoker->Fire();
}

bool StoreTarget::IsClosed(Version put) const {
  std::lock_guard lock(puts_mu_);
  const PutTable::Phase phase = puts_.PhaseOf(put);
  return phase == PutTable::Phase::kClosed || phase == PutTable::Phase::kClosing;
}

// ---- reports

std::vector<StoreTarget::SegmentOffer> StoreTarget::Offers() const {
  std::vector<SegmentOffer> offers;
  ForEachSlot([&](Slot* slot) {
    offers.push_back(
        {slot->segment->tier(), slot->place(), slot->segment->name(), slot->local.size, slot->segment->kept()});
  });
  return offers;
}

void StoreTarget::TakeUnpinned(std::vector<Unpinned>* out) {
  std::vector<Extent> ranges;
  const auto is_closed = [this](Version put) {
    std::lock_guard lock(puts_mu_);
    return puts_.PhaseOf(put) == PutTable::Phase::kClosed;
  };
  ForEachSlot([&](Slot* slot) {
    std::lock_guard lock(slot->mu);
    slot->ranges.TakeUnpinned(is_closed, &ranges);
    for (const Extent& range : ranges) out->push_back({slot->place(), range});
    ranges.clear();
  });
}

void StoreTarget::TakeClosed(std::vector<Version>* out) {
  std::lock_guard lock(puts_mu_);
  out->insert(out->end(), closed_.begin(), closed_.end());
  closed_.clear();
}

size_t StoreTarget::closed_pending() const {
  std::lock_guard lock(puts_mu_);
  return closed_.size();
}

void StoreTarget::TakeAlive(std::vector<Version>* out) {
  std::lock_guard lock(puts_mu_);
  puts_.TakeAlive(out);
}

StoreTargetFigures StoreTarget::Figures() const {
  StoreTargetFigures f;
  ForEachSlot([&](Slot* slot) {
    std::lock_guard lock(slot->mu);
    f.reads += slot->reads, f.writes += slot->writes, f.views += slot->views;
    f.read_bytes += slot->read_bytes, f.write_bytes += slot->write_bytes, f.view_bytes += slot->view_bytes;
    f.uses_now += slot->ranges.total_uses();
    f.views_now += slot->ranges.uses(Use::kView);
    f.view_bytes_now += slot->ranges.bytes(Use::kView);
    f.refused_places += slot->ranges.refused();
  });
  {
    std::lock_guard lock(puts_mu_);
    f.puts_open = puts_.open();
    f.closed_ranges = puts_.closed_ranges();
    f.closed_forgotten = puts_.forgotten_ranges();
  }
  f.in_use_by_view = in_use_by_view_.load(std::memory_order_relaxed);
  f.in_use_by_other = in_use_by_other_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < kErrorCount; ++i) f.refusals[i] = refusals_[i].load(std::memory_order_relaxed);
  return f;
}

}  // namespace tiercel::node
