// What StoreTarget keeps of one segment and of one admitted use of it. Only store_*.cc include this.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "server/node/store_target.h"

namespace tiercel::node {

// Calls a server's revoke function at most once, and never after Disarm has returned.
//
// The closer and the use's own end race. Disarm waits for a call under way (which never blocks), except when the
// call itself ends the use on the same thread: hence the recursive mutex, and hence a lock held over a callback.
struct StoreTarget::Revoker {
  explicit Revoker(std::function<void()> f) : revoke(std::move(f)) {}
  void Fire() {
    std::lock_guard lock(mu);
    if (auto f = std::exchange(revoke, nullptr)) f();
  }
  void Disarm() {
    std::lock_guard lock(mu);
    revoke = nullptr;
  }

  std::recursive_mutex mu;
  std::function<void()> revoke;
};

struct StoreTarget::Slot {
  Slot(std::unique_ptr<tiers::Segment> s, RangeTable::Limits limits)
      : segment(std::move(s)),
        local{segment->base(), segment->size(), segment->file()},
        id(segment->ref().segment),
        epoch(segment->ref().epoch),
        ranges(limits) {}
  SegmentRef place() const { return {id, epoch.load(std::memory_order_acquire)}; }

  const std::unique_ptr<tiers::Segment> segment;
  const core::LocalSegment local;
  const uint32_t id;
  std::atomic<uint32_t> epoch;  // raised under mu

  // REQUIRES: mu is held.
  void Count(Use use, uint64_t bytes) {
    switch (use) {
      case Use::kIngest: ++writes, write_bytes += bytes; break;
      case Use::kView: ++views, view_bytes += bytes; break;
      default: ++reads, read_bytes += bytes; break;
    }
  }

  std::mutex mu;
  RangeTable ranges;
  size_t old_uses = 0;         // of ranges' uses, those admitted under an earlier epoch
  ActiveUse* first = nullptr;  // every admitted use, linked through ActiveUse::next
  uint64_t reads = 0, writes = 0, views = 0;
  uint64_t read_bytes = 0, write_bytes = 0, view_bytes = 0;
};

class StoreTarget::ActiveUse final : public transfer::Access {
 public:
  ActiveUse(StoreTarget* target, Slot* slot, uint32_t epoch, Extent range, Use kind, Version version,
            std::shared_ptr<Revoker> revoker)
      : target_(target),
        slot_(slot),
        epoch_(epoch),
        range_(range),
        kind_(kind),
        version_(version),
        revoker_(std::move(revoker)) {
    memory = {slot->segment->base() + range.offset, static_cast<size_t>(range.length)};
    file = slot->segment->file();
    file_offset = range.offset;
  }
  ~ActiveUse() override {
    if (revoker_) revoker_->Disarm();
    if (linked) target_->Unlink(this);
    if (counted) target_->EndPutOperation(version_, /*for_good=*/false);
  }

  Slot* slot() const { return slot_; }
  uint32_t epoch() const { return epoch_; }
  Extent range() const { return range_; }
  Use kind() const { return kind_; }
  Version version() const { return version_; }
  const std::shared_ptr<Revoker>& revoker() const { return revoker_; }

  bool linked = false;   // in its segment's table and list
  bool counted = false;  // an operation in flight of its put
  ActiveUse* previous = nullptr;
  ActiveUse* next = nullptr;  // both guarded by the segment's lock

 private:
  StoreTarget* const target_;
  Slot* const slot_;
  const uint32_t epoch_;
  const Extent range_;
  const Use kind_;
  const Version version_;
  const std::shared_ptr<Revoker> revoker_;
};

template <typename Visit>
void StoreTarget::ForEachSlot(const Visit& visit) const {
  std::lock_guard lock(slot_owners_mu_);
  for (const auto& slot : slot_owners_) visit(slot.get());
}

}  // namespace tiercel::node
