// The engine's inside: peers, paths, slots, operations and batches, and who drives them. Internal to transfer/.
//
//   Peer ── Path (one transport; views have one of their own) ── Slot (place of one rail)
//   Batch ── OpState ── Slice (posted to a slot's rail)
//
// One mutex guards all of it; it is held for bookkeeping only, never over a system call, a rail, an observer or a
// callback. What has to be done outside is collected as a Plan (rails to open, slices to post) and carried out by
// Pump on the thread that made it necessary, so that a caller's slice goes from Submit to the socket without a hop.
//
// Driving: one thread at a time is the leader and sits in epoll_wait; it is a thread that waits for its own batch,
// or, when none waits and something is under way, the background thread. A leader whose batch is done hands over
// to another waiter. Rejected: a permanent I/O thread, which costs two thread switches per synchronous operation.
//
// Files: engine.cc (interface, registration), submit.cc (batches, ends of operations), dispatch.cc (paths, cutting,
// posting), drive.cc (leader, timers, shutdown), events.cc (what rails report).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "base/fd.h"
#include "transfer/engine.h"
#include "transfer/rail_health.h"
#include "transfer/region_table.h"
#include "transfer/transport.h"

namespace tiercel::transfer {

class Core;
struct BatchState;
struct Path;
struct Peer;

// A thread that waits for something; it may become the leader.
struct Waiter {
  std::condition_variable cv;
  BatchState* batch = nullptr;  // null: waits for something else, and is woken by every change
  bool parked = false;
};

struct Range {
  uint64_t offset = 0;
  uint64_t length = 0;
};

struct OpState {
  Operation op;
  bool view = false;
  BatchState* batch = nullptr;
  Peer* peer = nullptr;
  Path* path = nullptr;
  uint64_t length = 0;
  uint64_t cursor = 0;       // [cursor, length) was never cut
  std::vector<Range> again;  // failed slices to be sent anew
  uint32_t outstanding = 0;  // posted slices
  Slice* posted = nullptr;   // list of them
  uint32_t round = 0;        // switches so far
  uint64_t bytes = 0;        // moved
  bool queued = false;       // in path->queue
  bool ended = false;
  bool cancelled = false;
  bool forgiven = false;         // a connection that had been left was found out with it
  std::optional<Error> failure;  // the first
  OpResult result;
  int figures = -1;  // index of the transport that was given it last
  std::unique_ptr<ViewPin> pin;
  std::vector<RegionTable::Entry*> regions;
  std::mutex observe;  // pieces of one operation are told one at a time
  OpState* queue_prev = nullptr;
  OpState* queue_next = nullptr;
};

struct BatchState {
  std::shared_ptr<Core> core;
  SubmitOptions options;
  std::unique_ptr<OpState[]> ops;
  size_t size = 0;
  size_t open = 0;  // operations that have not ended
  int64_t submitted_ms = 0;
  int64_t deadline_ms = 0;
  bool expired = false;
  bool background = false;  // has a callback: counted in Core::async_
  std::atomic<bool> terminal{false};
  std::vector<Slice*> work;  // deferred to the waiting thread
  uint32_t executors = 0;    // threads in Wait
  std::function<void()> callback;
  BatchState* prev = nullptr;
  BatchState* next = nullptr;
};

// First in, first out within a priority.
struct OpQueue {
  OpState* head = nullptr;
  OpState* tail = nullptr;
  void Push(OpState* op);
  void PushFront(OpState* op);
  void Remove(OpState* op);
};

struct Slot {
  enum class State : uint8_t { kIdle, kConnecting, kReady };
  Path* path = nullptr;
  State state = State::kIdle;
  std::shared_ptr<Rail> rail;
  uint64_t key = 0;                     // of this opening
  int64_t give_up_ms = 0;               // of the connecting phase
  int64_t first_answer_ms = INT64_MAX;  // a peer of another version must have answered by then
  std::optional<Error> odd_version;
  uint32_t inflight = 0;
  uint64_t inflight_bytes = 0;
  int64_t last_use_ms = 0;
  bool lost_slices = false;  // went down with slices on it
  RailHealth health;
  Slot(Path* p, const RailHealth& h) : path(p), health(h) {}
};

struct Path {
  Peer* peer = nullptr;
  size_t transport = 0;  // index in Core::transports_
  bool views = false;
  std::vector<std::unique_ptr<Slot>> slots;
  OpQueue queue;
  uint32_t queued = 0;
  Backoff backoff;
  int64_t retry_ms = INT64_MIN;       // not tried before
  int64_t down_since_ms = INT64_MAX;  // no rail that may be used since; INT64_MAX: up, or never tried
  bool was_up = false;
  std::optional<Error> last_error;
  bool refused = false;  // last_error will not go away by waiting: operations are not kept for it
  Path(Peer* p, size_t t, bool v, const Backoff& b) : peer(p), transport(t), views(v), backoff(b) {}
};

struct Peer {
  uint64_t id = 0;
  PeerAddress address;
  std::vector<std::unique_ptr<Path>> paths;  // in order of preference
  uint32_t queued = 0;
  uint32_t operations = 0;  // not ended
  bool dispatch = false;    // is in Core::to_dispatch_
  bool grant_clock_known = false;
  int64_t grant_clock_ahead_ms = 0;  // the peer's clock for grants less ours
};

// What is to be done without the lock.
struct Plan {
  struct Posts {
    std::shared_ptr<Rail> rail;
    std::vector<Slice*> slices;
  };
  struct Recall {
    std::shared_ptr<Rail> rail;
    const Slice* slice;
    uint64_t serial;
  };
  std::vector<Posts> posts;
  size_t used_posts = 0;
  std::vector<std::pair<Slot*, uint64_t>> opens;
  std::vector<Recall> withdraw;
  bool empty() const { return used_posts == 0 && opens.empty() && withdraw.empty(); }
  void Clear();
};

class Core final : public std::enable_shared_from_this<Core>, public RailHost {
 public:
  using Lock = std::unique_lock<std::mutex>;

  Core(const EngineOptions& options, std::vector<std::unique_ptr<Transport>> transports, Engine::TicketSource tickets);
  ~Core();
  Status Start();
  void Shutdown();

  // ---- interface (engine.cc, submit.cc)
  Result<std::vector<RegionTable::Entry*>> Register(std::span<const std::span<std::byte>> regions);
  void Unregister(std::span<RegionTable::Entry* const> entries);
  Result<std::span<std::byte>> Allocate(size_t bytes);
  void Free(std::span<std::byte> memory);
  PeerHandle AddPeer(const PeerAddress& address);
  Status Connect(PeerHandle handle, int64_t timeout_ms);
  // A view: its one operation pins view_bytes at its offset, and has no memory.
  Result<std::unique_ptr<BatchState>> Submit(std::vector<Operation>& operations, const SubmitOptions& options,
                                             uint64_t view_bytes = 0);
  Status Wait(BatchState& batch, int64_t timeout_ms);
  void Cancel(BatchState& batch);
  void Release(BatchState& batch);  // cancels, waits until terminal
  OpResult ResultOf(const BatchState& batch, size_t i) const;
  void OnTerminal(BatchState& batch, std::function<void()> callback);
  void AskForProgress(const BatchState& batch);
  std::vector<TransportFigures> Figures() const;
  void FlushSoon();  // within a few milliseconds

  // ---- RailHost (events.cc)
  void OnRailGreeting(Rail& rail) override;
  void OnRailUp(Rail& rail, const RailInfo& info) override;
  void OnRailDown(Rail& rail, const Error& error) override;
  void OnSliceDone(Slice& slice, SliceEnd end, const Error* error) override;
  void OnPiece(Slice& slice, uint64_t offset_in_slice, std::span<const std::byte> piece) override;
  void OnHashed(Slice& slice, uint64_t offset_in_slice, uint64_t length, uint64_t sum) override;
  void WantWrite(Rail& rail, bool want) override;
  void Defer(Rail& rail, Slice& slice) override;

 private:
  int64_t NowMs() const { return clock_->Now().boot_ms; }
  Transport& transport(const Path& path) const { return *transports_[path.transport]; }
  TransportFigures& figures(const Path& path) { return figures_[path.transport]; }

  // ---- submit.cc
  bool StartOpLocked(OpState& op);  // false: it has ended (failed) already
  bool QueueFullLocked(const OpState& op) const;
  void FailLocked(OpState& op, const Error& error);
  void MaybeEndLocked(OpState& op);
  void EndBatchLocked(BatchState& batch);
  void ExpireLocked(BatchState& batch, const Error& error, std::vector<Plan::Recall>* recalls);
  void SliceFailedLocked(OpState& op, Slot& slot, Range range, uint32_t round, const Error& error);
  Error DeadlineErrorLocked(const BatchState& batch, const OpState& op) const;
  void FailIfStuckLocked(BatchState& batch, int64_t now);

  // ---- dispatch.cc
  void Pump(bool leading = false);
  void DispatchLocked(Plan* plan);
  void DispatchPathLocked(Path& path, int64_t now, Plan* plan);
  void MaybeOpenLocked(Path& path, int64_t now, Plan* plan);
  Slot* PickSlotLocked(Path& path, int64_t now);
  Path* PickPathLocked(const OpState& op, const Path* avoid, int64_t now, std::optional<Error>* why) const;
  Slice* CutLocked(OpState& op, Slot& slot);
  void RouteLocked(OpState& op, const Path* avoid);  // picks a path and queues it there, or fails it
  void EnqueueLocked(OpState& op, bool front);
  void DequeueLocked(OpState& op);
  void NeedDispatchLocked(Peer& peer);
  void RerouteAllLocked(Path& path);
  void RailErrorLocked(Slot& slot);
  void DownLocked(Path& path, int64_t now);
  bool RailStandsLocked(const Path& path, int64_t now) const;
  void OpenSlot(Slot* slot, uint64_t key);
  void OpenFailedLocked(Slot& slot, const Error& error);
  bool GrantRanOutLocked(const OpState& op, int64_t now) const;
  Slice* NewSliceLocked();
  void FreeSliceLocked(Slice* slice);
  void ForgetPeersLocked();

  // ---- drive.cc
  // Waits, and leads when nobody else does, until done() under the lock (true) or the time is over. -1: no limit.
  bool DriveUntil(Lock& lock, BatchState* batch, int64_t timeout_ms, const std::function<bool()>& done);
  void RunWork(Lock& lock, BatchState& batch);
  void DriveOnce(int64_t timeout_ms);  // the caller is the leader; no lock held
  void RunTimers(int64_t now);
  void ArmLocked(int64_t at_ms);
  void WakeLeaderLocked();
  void HandOverLocked();
  void NotifyWaitersLocked(const BatchState* batch);
  void RunCallbacks(Lock& lock);
  void Background();
  void WakeBackgroundLocked();
  void FlushAll(Lock& lock);

  const EngineOptions options_;
  const std::vector<std::unique_ptr<Transport>> transports_;  // in order of preference
  const Engine::TicketSource tickets_;
  const Clock* const clock_;
  const bool clock_is_substitute_;
  UniqueFd epoll_, wake_;

  mutable std::mutex mu_;
  bool stopping_ = false;
  struct Allocation {
    RegionTable::Entry* entry = nullptr;
    bool shared = false;  // a transport's memory, freed with its region
  };
  RegionTable regions_;
  std::unordered_map<const std::byte*, Allocation> allocations_;
  std::unordered_map<uint64_t, std::unique_ptr<Peer>> peers_;
  std::unordered_multimap<uint64_t, Peer*> peers_by_incarnation_;
  uint64_t next_peer_ = 1;
  std::unordered_map<uint64_t, Slot*> open_slots_;  // by key
  uint64_t next_key_ = 1;
  uint64_t next_serial_ = 1;
  std::vector<Peer*> to_dispatch_;
  std::vector<Plan::Recall> to_withdraw_;
  std::deque<Slice> slice_pool_;
  Slice* free_slices_ = nullptr;
  BatchState* active_ = nullptr;  // list of batches that are not terminal
  uint64_t active_count_ = 0;
  uint64_t async_ = 0;  // of these, with a callback
  std::vector<std::function<void()>> callbacks_;
  std::vector<TransportFigures> figures_;

  bool leader_ = false;
  bool leader_sleeps_ = false;
  const Waiter* leading_ = nullptr;  // when the leader is a waiting thread
  uint64_t leads_ = 0;               // turns of any leader: the background thread sees whether somebody drives
  std::vector<Waiter*> waiters_;
  std::vector<Slice*> orphan_work_;
  int64_t next_timer_ms_ = INT64_MAX;
  int64_t sleep_until_ms_ = INT64_MAX;
  std::condition_variable stop_cv_;

  std::thread background_;
  std::condition_variable background_cv_;
  bool flush_soon_ = false;
  bool watching_ = false;  // the background thread looks by itself every few milliseconds
};

}  // namespace tiercel::transfer
