// StoreTarget: the owner's side of every data request: segments, grants, puts and ranges in use, together.
//
// Threads: everything is thread-safe. Locks, in the order in which they may be taken: a segment's (its ranges and
// the uses linked to it), then the puts' (leaf). Neither is held over a system call, a hash or a callback; MACs are
// checked before either. A use is linked to its segment first and counted for its put second, and closing a put
// goes the other way (the put is marked, then the segments are searched): so either the operation finds its put
// closing, or the closing finds the operation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/core/payload_port.h"
#include "server/node/grant_checker.h"
#include "server/node/put_table.h"
#include "server/node/range_table.h"
#include "tiers/segment.h"
#include "transfer/target.h"

namespace tiercel::node {

struct StoreTargetOptions {
  Incarnation incarnation;
  uint64_t view_max_bytes = UINT64_MAX;  // of all pinned views together
  int64_t store_timeout_ms = 10'000;     // without a word from the master: no ingest
  const Clock* clock = nullptr;          // nullptr: the machine's
  PutTable::Limits puts;
  RangeTable::Limits ranges;  // per segment
};

struct StoreTargetFigures {
  uint64_t reads = 0, writes = 0, views = 0;  // admitted since the start
  uint64_t read_bytes = 0, write_bytes = 0, view_bytes = 0;
  uint64_t uses_now = 0, views_now = 0, view_bytes_now = 0;
  uint64_t puts_open = 0, closed_ranges = 0, closed_forgotten = 0;
  uint64_t refused_places = 0;                   // waiting to be reported as unpinned
  uint64_t in_use_by_view = 0;                   // writes refused because of a view
  uint64_t in_use_by_other = 0;                  // because of anything else: stays 0 while everybody keeps to the rules
  std::array<uint64_t, kErrorCount> refusals{};  // by cause
};

class StoreTarget final : public transfer::Target {
 public:
  static constexpr uint32_t kMaxSegments = 1024;  // ids are below it

  explicit StoreTarget(const StoreTargetOptions& options);
  ~StoreTarget() override;  // REQUIRES: no Access is left

  // kInvalid: id too large or taken. Segments live until the target is destroyed.
  Status AddSegment(std::unique_ptr<tiers::Segment> segment);

  // ---- transfer::Target
  Incarnation incarnation() const override { return options_.incarnation; }
  int64_t GrantTimeMs() const override { return MasterMs(NowMs()); }
  Result<transfer::PeerIdentity> Authenticate(const Ticket& ticket, const std::string& address) override;
  // Besides the order of the contract: a write is refused with kRetry while the master is silent or a table is
  // full; a read that meets the ingest of another version gets kStaleVersion; a write that meets another one of its
  // own put ends that one and gets kRetry (a slice sent again before its cut connection was noticed).
  Result<std::unique_ptr<transfer::Access>> Admit(const transfer::AccessRequest& request,
                                                  const transfer::PeerIdentity& peer,
                                                  std::function<void()> revoke) override;
  Result<Share> ShareSegment(SegmentRef place, const transfer::PeerIdentity& peer) override;
  void CountRefusal(ErrorCode cause) override;

  // ---- this process's own readers and writers
  const core::LocalSegment* FindLocal(SegmentRef place) const;
  Status BeginLocalWrite(SegmentRef place, Version put, const ExtentList& extents);
  void EndLocalWrite(SegmentRef place, Version put, const ExtentList& extents);
  // A read use without a grant and without end from outside: for the store's own short checks.
  Result<std::unique_ptr<transfer::Access>> AdmitOwnRead(SegmentRef place, Extent range, Version version);

  // ---- what the master says
  void SetKeys(Keys keys);
  void SetMasterTime(int64_t master_ms, int64_t boot_ms);
  void HeardMaster(int64_t boot_ms);
  int64_t last_heard_ms() const { return last_heard_ms_.load(std::memory_order_relaxed); }
  // Operations in flight of these puts are revoked; each put is found in TakeClosed when it has none (any more).
  void ClosePuts(std::span<const Version> puts);
  void RaiseFloor(Version floor);
  bool AllClosedBelow(Version version) const;
  // The contents are given up: the epoch rises, what is in flight is revoked (views end by themselves).
  // True also when this epoch was given up before; false: no such segment, or not that far yet.
  bool DropSegment(SegmentRef place);
  // True when no use of the segment from before its last drop is left.
  bool Drained(uint32_t segment) const;
  // No put begins from now on; those that are open go on.
  void RefuseNewPuts();
  uint64_t open_puts() const;

  // ---- what the master is told
  struct SegmentOffer {
    Tier tier = Tier::kDram;
    SegmentRef place;
    std::string name;
    uint64_t size = 0;
    bool kept = false;  // its bytes survive this process
  };
  std::vector<SegmentOffer> Offers() const;
  struct Unpinned {
    SegmentRef place;
    Extent range;
  };
  // Taken in this order, a put whose refused place is told as unpinned was told as closed, or is in `closed`.
  void TakeUnpinned(std::vector<Unpinned>* out);
  void TakeClosed(std::vector<Version>* out);  // appends
  size_t closed_pending() const;
  void TakeAlive(std::vector<Version>* out);
  // Called (without locks held, on any thread) when a put was closed. REQUIRES: set before anything is admitted.
  void OnClosed(std::function<void()> wake) { wake_ = std::move(wake); }

  StoreTargetFigures Figures() const;

 private:
  class ActiveUse;
  struct Revoker;
  struct Slot;
  static constexpr int64_t kNever = -1;

  Result<std::unique_ptr<transfer::Access>> AdmitChecked(const transfer::AccessRequest& request,
                                                         const transfer::PeerIdentity& peer,
                                                         std::function<void()> revoke);
  Status Link(ActiveUse* use, std::optional<RangeTable::Conflict>* conflict);
  void Unlink(ActiveUse* use);
  Status LinkLocal(Slot* slot, SegmentRef place, Version put, const ExtentList& extents,
                   std::optional<RangeTable::Conflict>* conflict);
  void UnlinkLocal(Slot* slot, uint32_t epoch, const ExtentList& extents);
  Status TakeViewBytes(uint64_t bytes);
  Error RefuseForConflict(const ActiveUse& use, const ExtentList& place, const RangeTable::Conflict& conflict);
  // `place`: all of the put's replica, which is what the master keeps out of use.
  Error RefuseWrite(Slot* slot, Version put, const ExtentList& place, const RangeTable::Conflict& conflict);
  void EndPutOperation(Version put, bool for_good);
  void RevokeWhere(const std::function<bool(const ActiveUse&)>& which);
  bool IsClosed(Version put) const;  // or closing

  Slot* FindSlot(uint32_t id) const;
  template <typename Visit>
  void ForEachSlot(const Visit& visit) const;
  std::shared_ptr<const Keys> CurrentKeys() const;
  int64_t NowMs() const;
  int64_t MasterMs(int64_t boot_ms) const { return boot_ms + master_offset_ms_.load(std::memory_order_relaxed); }
  Status CheckMasterHeard(int64_t now_ms) const;

  const StoreTargetOptions options_;
  const Clock& clock_;
  std::function<void()> wake_;

  std::array<std::atomic<Slot*>, kMaxSegments> slots_{};  // set once each; owned by slot_owners_
  mutable std::mutex slot_owners_mu_;
  std::vector<std::unique_ptr<Slot>> slot_owners_;

  mutable std::mutex keys_mu_;
  std::shared_ptr<const Keys> keys_;

  std::atomic<int64_t> master_offset_ms_{0};  // master's boot clock less ours
  std::atomic<int64_t> last_heard_ms_{kNever};
  std::atomic<uint64_t> view_bytes_{0};

  mutable std::mutex puts_mu_;
  PutTable puts_;
  // Puts to be answered as closed. Bounded by whoever fetches orders: it stops while closed_pending() is high.
  std::vector<Version> closed_;

  std::atomic<uint64_t> in_use_by_view_{0}, in_use_by_other_{0};
  std::array<std::atomic<uint64_t>, kErrorCount> refusals_{};
};

}  // namespace tiercel::node
