// Admission: from a request to a use. What the master orders is in store_orders.cc.
#include "server/node/store_target.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "server/node/store_use.h"

namespace tiercel::node {

namespace {

using Kind = transfer::AccessRequest::Kind;

Use UseOf(Kind kind) {
  switch (kind) {
    case Kind::kRead: return Use::kSend;
    case Kind::kWrite: return Use::kIngest;
    case Kind::kView: return Use::kView;
  }
  return Use::kSend;
}

std::string_view UseName(Use use) {
  switch (use) {
    case Use::kSend: return "a read";
    case Use::kDiskWrite: return "a write to disk";
    case Use::kView: return "a view";
    case Use::kIngest: return "the bytes of a put";
  }
  return "?";
}

}  // namespace

StoreTarget::StoreTarget(const StoreTargetOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : SystemClock::Get()),
      keys_(std::make_shared<const Keys>()),
      puts_(options.puts) {
  TIERCEL_CHECK(static_cast<bool>(options.incarnation));
}

StoreTarget::~StoreTarget() {
  ForEachSlot([](Slot* slot) { TIERCEL_CHECK(slot->first == nullptr, "servers are stopped before their target"); });
}

Status StoreTarget::AddSegment(std::unique_ptr<tiers::Segment> segment) {
  const uint32_t id = segment->ref().segment;
  if (id >= kMaxSegments) {
    return Error(ErrorCode::kInvalid, fmt::format("segment id {}: ids are below {}", id, kMaxSegments));
  }
  std::lock_guard lock(slot_owners_mu_);
  if (slots_[id].load(std::memory_order_relaxed) != nullptr) {
    return Error(ErrorCode::kInvalid, fmt::format("segment id {} twice", id));
  }
  slot_owners_.push_back(std::make_unique<Slot>(std::move(segment), options_.ranges));
  slots_[id].store(slot_owners_.back().get(), std::memory_order_release);
  return Ok();
}

Result<transfer::PeerIdentity> StoreTarget::Authenticate(const Ticket& ticket, const std::string& address) {
  const std::shared_ptr<const Keys> keys = CurrentKeys();
  auto peer = CheckTicket(ticket, keys->tickets, MasterMs(NowMs()), address);
  if (!peer.ok()) CountRefusal(peer.error().code());
  return peer;
}

Result<std::unique_ptr<transfer::Access>> StoreTarget::Admit(const transfer::AccessRequest& request,
                                                             const transfer::PeerIdentity& peer,
                                                             std::function<void()> revoke) {
  auto access = AdmitChecked(request, peer, std::move(revoke));
  if (!access.ok()) CountRefusal(access.error().code());
  return access;
}

Result<std::unique_ptr<transfer::Access>> StoreTarget::AdmitChecked(const transfer::AccessRequest& request,
                                                                    const transfer::PeerIdentity& peer,
                                                                    std::function<void()> revoke) {
  Slot* slot = FindSlot(request.place.segment);
  SegmentState state;
  if (slot != nullptr) state = {slot->place().epoch, slot->local.size};
  TIERCEL_TRY(CheckPlace(request, slot != nullptr ? &state : nullptr));
  const int64_t now_ms = NowMs();
  const std::shared_ptr<const Keys> keys = CurrentKeys();
  TIERCEL_TRY(CheckGrant(request, peer, keys->grants, options_.incarnation, MasterMs(now_ms)));
  const Use kind = UseOf(request.kind);
  if (kind == Use::kIngest) TIERCEL_TRY(CheckMasterHeard(now_ms));

  std::shared_ptr<Revoker> revoker;
  if (revoke && kind != Use::kView) revoker = std::make_shared<Revoker>(std::move(revoke));
  auto use = std::make_unique<ActiveUse>(this, slot, request.place.epoch, Extent{request.offset, request.length}, kind,
                                         request.grant->version, std::move(revoker));
  std::optional<RangeTable::Conflict> conflict;
  TIERCEL_TRY(Link(use.get(), &conflict));
  if (conflict) return RefuseForConflict(*use, request.grant->extents, *conflict);
  if (kind == Use::kIngest) {
    std::lock_guard lock(puts_mu_);
    TIERCEL_TRY(puts_.Begin(use->version()));
    use->counted = true;
  }
  return std::unique_ptr<transfer::Access>(std::move(use));
}

Result<std::unique_ptr<transfer::Access>> StoreTarget::AdmitOwnRead(SegmentRef place, Extent range, Version version) {
  Slot* slot = FindSlot(place.segment);
  SegmentState state;
  if (slot != nullptr) state = {slot->place().epoch, slot->local.size};
  const transfer::AccessRequest request{Kind::kRead, place, range.offset, range.length, nullptr};
  TIERCEL_TRY(CheckPlace(request, slot != nullptr ? &state : nullptr));
  auto use = std::make_unique<ActiveUse>(this, slot, place.epoch, range, Use::kSend, version, nullptr);
  std::optional<RangeTable::Conflict> conflict;
  TIERCEL_TRY(Link(use.get(), &conflict));
  if (conflict) return RefuseForConflict(*use, {}, *conflict);
  return std::unique_ptr<transfer::Access>(std::move(use));
}

// Enters the use into its segment's table, or says what is in the way.
Status StoreTarget::Link(ActiveUse* use, std::optional<RangeTable::Conflict>* conflict) {
  Slot* slot = use->slot();
  std::lock_guard lock(slot->mu);
  const uint32_t now_epoch = slot->place().epoch;
  if (now_epoch != use->epoch()) {  // raised since it was looked at
    return Error(ErrorCode::kOldEpoch,
                 fmt::format("segment {} is in epoch {}, not {}", slot->place().segment, now_epoch, use->epoch()));
  }
  *conflict = slot->ranges.Find(use->range(), use->kind());
  if (*conflict) return Ok();
  if (!slot->ranges.HasRoom(1)) {
    return Error(ErrorCode::kRetry, fmt::format("{} uses of segment {} at a time, no more are taken",
                                                slot->ranges.total_uses(), slot->place().segment));
  }
  if (use->kind() == Use::kView) TIERCEL_TRY(TakeViewBytes(use->range().length));
  slot->ranges.Add(use->range(), use->kind(), use->version());
  use->next = slot->first;
  if (slot->first != nullptr) slot->first->previous = use;
  slot->first = use;
  use->linked = true;
  slot->Count(use->kind(), use->range().length);
  return Ok();
}

void StoreTarget::Unlink(ActiveUse* use) {
  Slot* slot = use->slot();
  {
    std::lock_guard lock(slot->mu);
    slot->ranges.Remove(use->range(), use->kind());
    if (use->epoch() != slot->place().epoch) --slot->old_uses;
    (use->previous != nullptr ? use->previous->next : slot->first) = use->next;
    if (use->next != nullptr) use->next->previous = use->previous;
  }
  if (use->kind() == Use::kView) view_bytes_.fetch_sub(use->range().length, std::memory_order_relaxed);
}

Status StoreTarget::TakeViewBytes(uint64_t bytes) {
  uint64_t now = view_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > options_.view_max_bytes || now > options_.view_max_bytes - bytes) {
      return Error(ErrorCode::kRetry, fmt::format("{} bytes are pinned by views, {} more would pass {}", now, bytes,
                                                  options_.view_max_bytes));
    }
  } while (!view_bytes_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  return Ok();
}

Error StoreTarget::RefuseForConflict(const ActiveUse& use, const ExtentList& place,
                                     const RangeTable::Conflict& conflict) {
  if (use.kind() == Use::kIngest) return RefuseWrite(use.slot(), use.version(), place, conflict);
  if (conflict.put != use.version()) {
    return {ErrorCode::kStaleVersion, fmt::format("the place of version {} is being written for put {}",
                                                  use.version().value, conflict.put.value)};
  }
  return {ErrorCode::kInUse, fmt::format("put {} is still being written", conflict.put.value)};
}

Error StoreTarget::RefuseWrite(Slot* slot, Version put, const ExtentList& place, const RangeTable::Conflict& conflict) {
  if (IsClosed(put)) return {ErrorCode::kStalePut, fmt::format("put {} is closed at this store", put.value)};
  if (conflict.use == Use::kIngest && conflict.put == put) {
    RevokeWhere([&](const ActiveUse& other) {
      return other.slot() == slot && other.kind() == Use::kIngest && other.version() == put &&
             other.range().offset < conflict.range.offset + conflict.range.length &&
             conflict.range.offset < other.range().offset + other.range().length;
    });
    return {ErrorCode::kRetry, fmt::format("an earlier write of put {} to the same place is being ended", put.value)};
  }
  (conflict.use == Use::kView ? in_use_by_view_ : in_use_by_other_).fetch_add(1, std::memory_order_relaxed);
  {
    std::lock_guard lock(slot->mu);
    slot->ranges.NoteRefused(put, place);
  }
  return {ErrorCode::kInUse, fmt::format("{}+{} of segment {} is in use by {}", conflict.range.offset,
                                         conflict.range.length, slot->place().segment, UseName(conflict.use))};
}

Result<transfer::Target::Share> StoreTarget::ShareSegment(SegmentRef place, const transfer::PeerIdentity& /*peer*/) {
  Slot* slot = FindSlot(place.segment);
  SegmentState state;
  if (slot != nullptr) state = {slot->place().epoch, slot->local.size};
  // The whole segment is asked for; what may be read of it is checked with each read and view.
  const transfer::AccessRequest request{Kind::kRead, place, 0, std::max<uint64_t>(1, state.size), nullptr};
  if (auto placed = CheckPlace(request, slot != nullptr ? &state : nullptr); !placed.ok()) {
    CountRefusal(placed.error().code());
    return std::move(placed).error();
  }
  auto memory = slot->segment->ShareReadOnly();
  if (!memory.ok()) {
    CountRefusal(memory.error().code());
    return std::move(memory).error();
  }
  return Share{std::move(memory).value(), slot->local.size};
}

void StoreTarget::CountRefusal(ErrorCode cause) {
  refusals_[static_cast<size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
}

const core::LocalSegment* StoreTarget::FindLocal(SegmentRef place) const {
  Slot* slot = FindSlot(place.segment);
  if (slot == nullptr || slot->place().epoch != place.epoch) return nullptr;
  return &slot->local;
}

StoreTarget::Slot* StoreTarget::FindSlot(uint32_t id) const {
  return id < kMaxSegments ? slots_[id].load(std::memory_order_acquire) : nullptr;
}

std::shared_ptr<const Keys> StoreTarget::CurrentKeys() const {
  std::lock_guard lock(keys_mu_);
  return keys_;
}

int64_t StoreTarget::NowMs() const { return clock_.Now().boot_ms; }

Status StoreTarget::CheckMasterHeard(int64_t now_ms) const {
  const int64_t heard_ms = last_heard_ms();
  if (heard_ms == kNever) return Error(ErrorCode::kRetry, "this store has not joined its master yet");
  if (now_ms - heard_ms >= options_.store_timeout_ms) {
    return Error(ErrorCode::kRetry,
                 fmt::format("no word from the master for {} ms: nothing new is written here", now_ms - heard_ms));
  }
  return Ok();
}

}  // namespace tiercel::node
