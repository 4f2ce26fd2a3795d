// What rails report: slices that end, pieces for observers, connections that come and go.
#include <fmt/core.h>
#include <sys/epoll.h>

#include <algorithm>

#include "base/check.h"
#include "transfer/engine_core.h"

namespace tiercel::transfer {

void Core::OnRailGreeting(Rail& rail) {
  Lock lock(mu_);
  const auto found = open_slots_.find(rail.cookie);
  if (found == open_slots_.end()) return;
  found->second->give_up_ms = NowMs() + options_.status_timeout_ms;
  ArmLocked(found->second->give_up_ms);
}

void Core::OnRailUp(Rail& rail, const RailInfo& info) {
  Lock lock(mu_);
  const auto found = open_slots_.find(rail.cookie);
  if (found == open_slots_.end()) return;
  Slot& slot = *found->second;
  Path& path = *slot.path;
  slot.state = Slot::State::kReady;
  slot.first_answer_ms = INT64_MAX;
  slot.odd_version = info.odd_version;
  path.backoff.Succeeded();
  path.retry_ms = INT64_MIN;
  path.down_since_ms = INT64_MAX;
  path.was_up = true;
  path.refused = false;
  if (info.grant_time_ms != 0) {
    path.peer->grant_clock_known = true;
    path.peer->grant_clock_ahead_ms = info.grant_time_ms - NowMs();
  }
  NeedDispatchLocked(*path.peer);
  NotifyWaitersLocked(nullptr);
}

void Core::OnRailDown(Rail& rail, const Error& error) {
  std::shared_ptr<Rail> last;  // released without the lock
  Lock lock(mu_);
  const auto found = open_slots_.find(rail.cookie);
  if (found == open_slots_.end()) return;
  Slot& slot = *found->second;
  open_slots_.erase(found);
  last = std::move(slot.rail);
  // Slices that another thread is about to post, or is copying, come back later: the slot outlives them.
  Path& path = *slot.path;
  const bool silent = slot.first_answer_ms != INT64_MAX;
  slot.first_answer_ms = INT64_MAX;
  if (slot.state == Slot::State::kConnecting || silent) {
    OpenFailedLocked(slot, error);
    return;
  }
  // A connection that stood: made anew at once. If that fails, the pauses begin.
  slot.state = Slot::State::kIdle;
  path.last_error = error;
  if (std::exchange(slot.lost_slices, false)) RailErrorLocked(slot);
  NeedDispatchLocked(*path.peer);
  NotifyWaitersLocked(nullptr);
}

void Core::OnSliceDone(Slice& slice, SliceEnd end, const Error* error) {
  OpState& op = *slice.op;
  if ((end == SliceEnd::kFailed || end == SliceEnd::kLost) && slice.observed) {
    const std::lock_guard<std::mutex> observing(op.observe);
    op.op.observer->OnRestart(slice.op_offset, slice.length);
  }
  std::shared_ptr<Rail> rail;  // released without the lock
  Lock lock(mu_);
  rail = std::move(slice.rail);
  Slot& slot = *slice.slot;
  Path& path = *slot.path;
  --slot.inflight;
  slot.inflight_bytes -= slice.length;
  (slice.prev != nullptr ? slice.prev->next : op.posted) = slice.next;
  if (slice.next != nullptr) slice.next->prev = slice.prev;
  --op.outstanding;
  op.figures = static_cast<int>(path.transport);
  Peer& peer = *path.peer;
  NeedDispatchLocked(peer);

  const Range range{slice.op_offset, slice.length};
  const uint32_t round = slice.round;
  const bool cold = slice.cold;
  if (end == SliceEnd::kOk || end == SliceEnd::kRefused) slot.last_use_ms = NowMs();
  if (slice.view && end == SliceEnd::kOk) op.pin = std::move(slice.pin);
  FreeSliceLocked(&slice);
  if (end == SliceEnd::kOk || end == SliceEnd::kRefused) slot.first_answer_ms = INT64_MAX;

  switch (end) {
    case SliceEnd::kOk: op.bytes += range.length; break;
    case SliceEnd::kWithdrawn:
      --figures(path).attempts;
      op.again.push_back(range);
      break;
    case SliceEnd::kRefused:
      ++figures(path).attempts_failed;
      // An earlier attempt may still be in the store's hands: that is the path's fault, not the peer's answer.
      if (round > 0 && (error->code() == ErrorCode::kInUse || error->code() == ErrorCode::kRetry)) {
        SliceFailedLocked(op, slot, range, round, *error);
      } else {
        FailLocked(op, *error);
      }
      break;
    case SliceEnd::kFailed:
      ++figures(path).attempts_failed;
      RailErrorLocked(slot);
      SliceFailedLocked(op, slot, range, round, *error);
      break;
    case SliceEnd::kLost:
      ++figures(path).attempts_failed;
      slot.lost_slices = true;
      // The peer had left this connection while nobody looked; that is found out at no cost to the operation.
      if (cold && !op.failure && !op.cancelled && !std::exchange(op.forgiven, true)) {
        op.again.push_back(range);
        RouteLocked(op, nullptr);
        break;
      }
      SliceFailedLocked(op, slot, range, round, *error);
      break;
  }
  MaybeEndLocked(op);
  // On the leader's thread this does nothing: it looks at the queues when it is done. Others may come from anywhere.
  if (peer.queued > 0) WakeLeaderLocked();
}

// All slices of an operation that fail with one path are one switch.
void Core::SliceFailedLocked(OpState& op, Slot& slot, Range range, uint32_t round, const Error& error) {
  op.again.push_back(range);
  if (op.failure || op.cancelled) return;
  if (round == op.round) {
    if (op.round >= static_cast<uint32_t>(std::max(0, op.batch->options.max_switches))) {
      FailLocked(op, error);
      return;
    }
    ++op.round;
    RouteLocked(op, slot.path);
  } else if (!op.queued && !op.ended) {
    RouteLocked(op, nullptr);
  }
}

void Core::OnPiece(Slice& slice, uint64_t offset_in_slice, std::span<const std::byte> piece) {
  OpState& op = *slice.op;
  if (op.op.observer == nullptr) return;
  const std::lock_guard<std::mutex> observing(op.observe);
  slice.observed = true;
  op.op.observer->OnPiece(slice.op_offset + offset_in_slice, piece);
}

void Core::OnHashed(Slice& slice, uint64_t offset_in_slice, uint64_t length, uint64_t sum) {
  OpState& op = *slice.op;
  if (op.op.observer == nullptr) return;
  const std::lock_guard<std::mutex> observing(op.observe);
  slice.observed = true;
  op.op.observer->OnHashed(slice.op_offset + offset_in_slice, length, sum);
}

void Core::WantWrite(Rail& rail, bool want) {
  epoll_event event{};
  event.events = EPOLLIN | (want ? EPOLLOUT : 0U);
  event.data.u64 = rail.cookie;
  // The rail is open: only its driver closes it, and it calls this before.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, rail.fd(), &event);
}

void Core::Defer(Rail& rail, Slice& slice) {
  {
    Lock lock(mu_);
    BatchState& batch = *slice.op->batch;
    for (Waiter* waiter : waiters_) {
      if (waiter->batch != &batch || waiter == leading_) continue;
      batch.work.push_back(&slice);
      waiter->cv.notify_one();
      return;
    }
  }
  rail.Finish(slice);
}

}  // namespace tiercel::transfer
