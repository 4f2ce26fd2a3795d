// Which path and rail an operation takes, and the posting of its slices.
//
// An operation waits in the queue of one path at a time. It is cut only as rails have room, so that an operation
// of many gigabytes takes one place in a queue, and operations that wait side by side take turns.
#include <fmt/core.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/check.h"
#include "transfer/engine_core.h"
#include "transfer/slicing.h"

namespace tiercel::transfer {
namespace {

// A connection that was idle for so long may have been closed by the peer without anybody here having seen it.
constexpr int64_t kColdMs = 1000;

}  // namespace

void Plan::Clear() {
  for (size_t i = 0; i < used_posts; ++i) {
    posts[i].rail.reset();
    posts[i].slices.clear();
  }
  used_posts = 0;
  opens.clear();
  withdraw.clear();
}

void OpQueue::Push(OpState* op) {
  OpState* after = tail;
  while (after != nullptr && after->op.priority < op->op.priority) after = after->queue_prev;
  op->queue_prev = after;
  op->queue_next = after != nullptr ? after->queue_next : head;
  (op->queue_prev != nullptr ? op->queue_prev->queue_next : head) = op;
  (op->queue_next != nullptr ? op->queue_next->queue_prev : tail) = op;
}

void OpQueue::PushFront(OpState* op) {
  op->queue_prev = nullptr;
  op->queue_next = head;
  (head != nullptr ? head->queue_prev : tail) = op;
  head = op;
}

void OpQueue::Remove(OpState* op) {
  (op->queue_prev != nullptr ? op->queue_prev->queue_next : head) = op->queue_next;
  (op->queue_next != nullptr ? op->queue_next->queue_prev : tail) = op->queue_prev;
  op->queue_prev = op->queue_next = nullptr;
}

void Core::NeedDispatchLocked(Peer& peer) {
  if (peer.dispatch) return;
  peer.dispatch = true;
  to_dispatch_.push_back(&peer);
}

void Core::EnqueueLocked(OpState& op, bool front) {
  TIERCEL_CHECK(!op.queued && !op.ended && op.path != nullptr);
  front ? op.path->queue.PushFront(&op) : op.path->queue.Push(&op);
  op.queued = true;
  op.figures = static_cast<int>(op.path->transport);
  ++op.path->queued;
  ++op.peer->queued;
  NeedDispatchLocked(*op.peer);
}

void Core::DequeueLocked(OpState& op) {
  if (!op.queued) return;
  op.path->queue.Remove(&op);
  op.queued = false;
  --op.path->queued;
  --op.peer->queued;
  NotifyWaitersLocked(nullptr);
}

// First choice: the most preferred path that is up or may be tried now. Second: one that will be tried again.
// A path that the peer has refused is no choice until its pause is over.
Path* Core::PickPathLocked(const OpState& op, const Path* avoid, int64_t now, std::optional<Error>* why) const {
  Path* later = nullptr;
  Path* avoided = nullptr;
  for (const auto& path : op.peer->paths) {
    if (path->views != op.view) continue;
    if ((op.batch->options.transports & MaskOf(transports_[path->transport]->kind())) == 0) continue;
    const bool up = std::any_of(path->slots.begin(), path->slots.end(), [&](const auto& slot) {
      return slot->state != Slot::State::kIdle && slot->health.Usable(now);
    });
    const bool may_open = now >= path->retry_ms && std::any_of(path->slots.begin(), path->slots.end(), [&](auto& slot) {
                            return slot->state == Slot::State::kIdle && slot->health.Usable(now);
                          });
    if (path->refused && now < path->retry_ms) {
      if (!*why) *why = path->last_error;
      continue;
    }
    if (path.get() == avoid) {
      avoided = path.get();
      continue;
    }
    if (up || may_open) return path.get();
    if (later == nullptr) later = path.get();
  }
  if (avoided != nullptr && later != nullptr && avoided->down_since_ms == INT64_MAX) return avoided;
  if (later != nullptr) return later;
  if (avoided != nullptr) return avoided;
  if (!*why) {
    *why = Error(ErrorCode::kNoDevice, fmt::format("no transport that may be used reaches {}", op.peer->address.name));
  }
  return nullptr;
}

// Moves an operation whose path failed to where it goes on.
void Core::RouteLocked(OpState& op, const Path* avoid) {
  if (op.ended) return;
  DequeueLocked(op);
  std::optional<Error> why;
  Path* path = PickPathLocked(op, avoid, NowMs(), &why);
  if (path == nullptr) {
    FailLocked(op, *why);
    return;
  }
  op.path = path;
  EnqueueLocked(op, /*front=*/true);
}

// A path has gone down: what waits there goes elsewhere when there is somewhere, and stays otherwise.
void Core::RerouteAllLocked(Path& path) {
  std::vector<OpState*> waiting;
  for (OpState* op = path.queue.tail; op != nullptr; op = op->queue_prev) waiting.push_back(op);
  for (OpState* op : waiting) {
    std::optional<Error> why;
    Path* other = PickPathLocked(*op, &path, NowMs(), &why);
    if (other == &path) continue;
    // Moving on is a switch like any other, so that "no switches" means what it says.
    if (other != nullptr && op->round >= static_cast<uint32_t>(std::max(0, op->batch->options.max_switches))) {
      if (path.refused) FailLocked(*op, *path.last_error);
      continue;
    }
    if (other != nullptr) ++op->round;
    RouteLocked(*op, &path);
  }
}

// Counts an error against a rail. When that pauses it, what waits for it goes elsewhere; a path whose rails all pause
// is down like one without a connection.
void Core::RailErrorLocked(Slot& slot) {
  Path& path = *slot.path;
  const int64_t now = NowMs();
  slot.health.Error(now);
  if (slot.health.Usable(now)) return;
  if (!RailStandsLocked(path, now)) DownLocked(path, now);
  RerouteAllLocked(path);
}

bool Core::RailStandsLocked(const Path& path, int64_t now) const {
  return std::any_of(path.slots.begin(), path.slots.end(),
                     [&](const auto& slot) { return slot->state == Slot::State::kReady && slot->health.Usable(now); });
}

void Core::DownLocked(Path& path, int64_t now) {
  path.down_since_ms = std::min(path.down_since_ms, now);
  for (BatchState* batch = active_; batch != nullptr; batch = batch->next) {
    const SubmitOptions& options = batch->options;
    if (options.unreachable_after_ms < 0) continue;
    ArmLocked(std::max(now, (options.elsewhere ? path.down_since_ms : now) + options.unreachable_after_ms));
  }
}

bool Core::GrantRanOutLocked(const OpState& op, int64_t now) const {
  return op.op.grant != nullptr && op.peer->grant_clock_known &&
         op.op.grant->expiry_ms < now + op.peer->grant_clock_ahead_ms;
}

Slot* Core::PickSlotLocked(Path& path, int64_t now) {
  Slot* best = nullptr;
  for (const auto& slot : path.slots) {
    if (slot->state != Slot::State::kReady || !slot->health.Usable(now)) continue;
    if (slot->inflight >= options_.inflight_per_rail) continue;
    if (slot->inflight > 0 && slot->inflight_bytes >= options_.inflight_bytes_per_rail) continue;
    if (best == nullptr || slot->inflight_bytes < best->inflight_bytes) best = slot.get();
  }
  return best;
}

Slice* Core::NewSliceLocked() {
  if (free_slices_ == nullptr) return &slice_pool_.emplace_back();
  Slice* slice = free_slices_;
  free_slices_ = slice->next;
  return slice;
}

void Core::FreeSliceLocked(Slice* slice) {
  slice->rail.reset();
  slice->pin.reset();
  slice->op = nullptr;
  slice->slot = nullptr;
  slice->serial = 0;
  slice->next = free_slices_;
  free_slices_ = slice;
}

Slice* Core::CutLocked(OpState& op, Slot& slot) {
  const Range range = op.again.empty() ? Range{op.cursor, op.length - op.cursor} : op.again.back();
  Slice* s = NewSliceLocked();
  s->kind = op.op.kind;
  s->view = op.view;
  s->place = op.op.place;
  s->op_offset = range.offset;
  s->offset = op.op.offset + range.offset;  // may wrap round: the owner of the segment refuses it then
  s->memory = op.view ? nullptr : op.op.memory.data() + range.offset;
  s->grant = op.op.grant.get();
  s->region = nullptr;
  s->length = range.length;
  if (!op.view) {
    const RegionTable::Part part = RegionTable::PartAt(op.regions, slot.path->transport, s->memory);
    s->region = part.region;
    s->length = SliceLength(range.offset, range.length, options_.slice_bytes, s->offset,
                            transport(*slot.path).limits().remote_seam_bytes, part.left);
  }
  if (op.again.empty()) {
    op.cursor += s->length;
  } else if (op.again.back().length == s->length) {
    op.again.pop_back();
  } else {
    op.again.back() = {range.offset + s->length, range.length - s->length};
  }
  s->serial = next_serial_++;
  s->op = &op;
  s->slot = &slot;
  s->rail = slot.rail;
  s->round = op.round;
  s->observed = false;
  s->finishing = false;
  s->prev = nullptr;
  s->next = op.posted;
  if (op.posted != nullptr) op.posted->prev = s;
  op.posted = s;
  s->cold = slot.inflight == 0 && NowMs() - slot.last_use_ms > kColdMs;
  ++op.outstanding;
  ++slot.inflight;
  slot.inflight_bytes += s->length;
  ++figures(*slot.path).attempts;
  return s;
}

void Core::DispatchPathLocked(Path& path, int64_t now, Plan* plan) {
  while (OpState* op = path.queue.head) {
    if (op->round > 0 && GrantRanOutLocked(*op, now)) {
      FailLocked(*op, Error(ErrorCode::kGrantExpired, "the grant ran out before the operation could be sent again"));
      continue;
    }
    Slot* slot = PickSlotLocked(path, now);
    if (slot == nullptr) break;
    path.down_since_ms = INT64_MAX;
    Slice* slice = CutLocked(*op, *slot);
    if (slot->odd_version && slot->first_answer_ms == INT64_MAX) {
      slot->first_answer_ms = now + options_.status_timeout_ms;
      ArmLocked(slot->first_answer_ms);
    }
    size_t i = 0;
    while (i < plan->used_posts && plan->posts[i].rail != slot->rail) ++i;
    if (i == plan->posts.size()) plan->posts.emplace_back();
    if (i == plan->used_posts) plan->posts[plan->used_posts++].rail = slot->rail;
    plan->posts[i].slices.push_back(slice);
    if (op->cursor == op->length && op->again.empty()) {
      DequeueLocked(*op);
    } else if (op->queue_next != nullptr) {
      path.queue.Remove(op);
      path.queue.Push(op);
    }
  }
  MaybeOpenLocked(path, now, plan);
}

// One attempt at a time while nothing stands, so that a dead peer costs one probe a round; one more connection
// when those that stand are loaded.
void Core::MaybeOpenLocked(Path& path, int64_t now, Plan* plan) {
  if (path.queue.head == nullptr && path.slots.size() == 1) return;
  Slot* idle = nullptr;
  bool standing = false;
  bool loaded = true;
  int64_t paused_until = INT64_MAX;
  for (const auto& slot : path.slots) {
    if (slot->state == Slot::State::kConnecting) return;
    if (!slot->health.Usable(now)) {
      paused_until = std::min(paused_until, slot->health.paused_until_ms());
    } else if (slot->state == Slot::State::kIdle) {
      if (idle == nullptr) idle = slot.get();
    } else {
      standing = true;
      loaded = loaded && slot->inflight_bytes >= options_.stripe_bytes;
    }
  }
  if (standing ? !loaded : path.queue.head == nullptr) return;
  if (idle == nullptr) {
    if (!standing && paused_until != INT64_MAX) ArmLocked(paused_until);
    return;
  }
  if (now < path.retry_ms) {
    ArmLocked(path.retry_ms);
    return;
  }
  idle->state = Slot::State::kConnecting;
  idle->key = next_key_++;
  idle->give_up_ms = now + options_.connect_timeout_ms;
  plan->opens.emplace_back(idle, idle->key);
  TransportFigures& f = figures(path);
  path.was_up ? ++f.reconnects : ++f.connects;
}

void Core::DispatchLocked(Plan* plan) {
  const int64_t now = NowMs();
  while (!to_dispatch_.empty()) {
    Peer* peer = to_dispatch_.back();
    to_dispatch_.pop_back();
    peer->dispatch = false;
    for (const auto& path : peer->paths) DispatchPathLocked(*path, now, plan);
  }
  std::swap(plan->withdraw, to_withdraw_);
}

// Carries out what has become possible, until nothing more is. Rails may give slices back while this posts; what
// that makes possible is done here as well, not by recursion.
void Core::Pump(bool leading) {
  static thread_local Plan plan;
  static thread_local bool pumping = false;
  TIERCEL_CHECK(!pumping, "observers and targets must not call the engine");
  pumping = true;
  for (;;) {
    plan.Clear();
    {
      Lock lock(mu_);
      if (!stopping_) DispatchLocked(&plan);
    }
    if (plan.empty()) break;
    for (const Plan::Recall& r : plan.withdraw) (void)r.rail->Withdraw(r.slice, r.serial);
    for (const auto& [slot, key] : plan.opens) OpenSlot(slot, key);
    for (size_t i = 0; i < plan.used_posts; ++i) plan.posts[i].rail->Post(plan.posts[i].slices);
  }
  pumping = false;
  if (leading) return;  // callbacks run when the lead has been given up: they may wait for something
  Lock lock(mu_);
  RunCallbacks(lock);
}

void Core::OpenSlot(Slot* slot, uint64_t key) {
  Result<Ticket> ticket = tickets_ ? tickets_() : Result<Ticket>(Ticket{});
  Result<std::shared_ptr<Rail>> rail =
      ticket.ok() ? transport(*slot->path).Open({.address = slot->path->peer->address, .ticket = *ticket}, this)
                  : Result<std::shared_ptr<Rail>>(std::move(ticket).error());
  {
    Lock lock(mu_);
    TIERCEL_CHECK(slot->key == key && slot->state == Slot::State::kConnecting);
    if (!rail.ok() || stopping_) {
      OpenFailedLocked(*slot, rail.ok() ? Error(ErrorCode::kShutdown, "the engine is shutting down") : rail.error());
    } else {
      slot->rail = *rail;
      slot->rail->cookie = key;
      open_slots_[key] = slot;
      if (slot->rail->fd() >= 0) {
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT;
        event.data.u64 = key;
        TIERCEL_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, slot->rail->fd(), &event) == 0);
      }
      ArmLocked(slot->give_up_ms);
    }
  }
  if (rail.ok() && (*rail)->cookie == key) {
    (*rail)->Start();
  } else if (rail.ok()) {
    (*rail)->Close(Error(ErrorCode::kShutdown, "the engine is shutting down"));
  }
}

void Core::OpenFailedLocked(Slot& slot, const Error& error) {
  Path& path = *slot.path;
  Peer& peer = *path.peer;
  const int64_t now = NowMs();
  slot.state = Slot::State::kIdle;
  path.last_error = error;
  path.retry_ms = now + path.backoff.NextMs();
  switch (error.code()) {
    case ErrorCode::kStaleIncarnation:
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kNoAuth:
    case ErrorCode::kNoPerm:
    case ErrorCode::kPeerProtocol:
    case ErrorCode::kInvalid:
    case ErrorCode::kNoDevice: path.refused = true; break;
    default: path.refused = false; break;
  }
  if (!RailStandsLocked(path, now)) {
    DownLocked(path, now);
    RerouteAllLocked(path);
  }
  NeedDispatchLocked(peer);
  NotifyWaitersLocked(nullptr);
}

}  // namespace tiercel::transfer
