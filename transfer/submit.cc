// The life of a batch: its operations start, end once each, and it becomes terminal with the last of them.
#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "transfer/engine_core.h"

namespace tiercel::transfer {
namespace {

std::unique_ptr<BatchState> MakeBatch(std::vector<Operation>& operations, const SubmitOptions& options,
                                      uint64_t view_bytes) {
  auto batch = std::make_unique<BatchState>();
  batch->options = options;
  batch->size = batch->open = operations.size();
  batch->ops = std::make_unique<OpState[]>(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) {
    OpState& op = batch->ops[i];
    op.op = std::move(operations[i]);
    op.view = view_bytes != 0;
    op.length = op.view ? view_bytes : op.op.memory.size();
    op.batch = batch.get();
  }
  return batch;
}

}  // namespace

Result<std::unique_ptr<BatchState>> Core::Submit(std::vector<Operation>& operations, const SubmitOptions& options,
                                                 uint64_t view_bytes) {
  if (operations.empty()) return Error(ErrorCode::kInvalid, "a batch without operations");
  if (operations.size() > options_.max_ops_per_batch) {
    return Error(ErrorCode::kTooManyOps,
                 fmt::format("{} operations in a batch, at most {}", operations.size(), options_.max_ops_per_batch));
  }
  for (size_t i = 0; i < operations.size(); ++i) {
    if (view_bytes == 0 && operations[i].memory.empty()) {
      return Error(ErrorCode::kInvalid, fmt::format("operation {} has a length of 0", i));
    }
  }
  std::unique_ptr<BatchState> batch = MakeBatch(operations, options, view_bytes);
  batch->core = shared_from_this();
  const int64_t now = NowMs();
  batch->submitted_ms = now;
  batch->deadline_ms = options.timeout_ms < 0 ? INT64_MAX : now + options.timeout_ms;

  Lock lock(mu_);
  if (stopping_) return Error(ErrorCode::kShutdown, "the engine is shutting down");
  for (size_t i = 0; i < batch->size; ++i) {
    const auto peer = peers_.find(batch->ops[i].op.peer.id);
    if (peer == peers_.end()) return Error(ErrorCode::kInvalid, fmt::format("operation {} names an unknown peer", i));
    batch->ops[i].peer = peer->second.get();
  }
  batch->next = active_;
  if (active_ != nullptr) active_->prev = batch.get();
  active_ = batch.get();
  ++active_count_;
  for (size_t i = 0; i < batch->size; ++i) ++batch->ops[i].peer->operations;
  ArmLocked(batch->deadline_ms);
  if (options.unreachable_after_ms >= 0) ArmLocked(options.elsewhere ? now : now + options.unreachable_after_ms);
  if (!watching_) WakeBackgroundLocked();

  for (size_t i = 0; i < batch->size; ++i) {
    OpState& op = batch->ops[i];
    if (op.ended) continue;  // while an earlier one waited for admission
    if (!StartOpLocked(op)) continue;
    if (!QueueFullLocked(op)) {
      EnqueueLocked(op, /*front=*/false);
      continue;
    }
    // What is queued may find a place at once; only then is there a reason to wait.
    lock.unlock();
    Pump();
    lock.lock();
    const bool admitted =
        DriveUntil(lock, nullptr, options_.admission_timeout_ms, [&] { return op.ended || !QueueFullLocked(op); });
    if (op.ended) continue;
    if (admitted) {
      EnqueueLocked(op, /*front=*/false);
      continue;
    }
    TransportFigures& f = figures(*op.path);
    options_.admission_timeout_ms > 0 ? ++f.admission_timeouts : ++f.queue_full;
    FailLocked(op, Error(ErrorCode::kAdmissionTimeout,
                         fmt::format("{} operations wait for {} already, no place came free in {} ms", op.peer->queued,
                                     op.peer->address.name, options_.admission_timeout_ms)));
  }
  lock.unlock();
  Pump();
  return batch;
}

bool Core::StartOpLocked(OpState& op) {
  if (!op.view) {
    if (regions_.size() != 0) regions_.Cover(op.op.memory.data(), op.length, &op.regions);
    if (op.op.registered && op.regions.empty()) {
      FailLocked(op, Error(ErrorCode::kNotRegistered,
                           fmt::format("memory of {} bytes is not registered as a whole", op.length)));
      return false;
    }
    for (RegionTable::Entry* entry : op.regions) ++entry->uses;
  }
  std::optional<Error> why;
  op.path = PickPathLocked(op, nullptr, NowMs(), &why);
  if (op.path == nullptr) {
    FailLocked(op, *why);
    return false;
  }
  return true;
}

bool Core::QueueFullLocked(const OpState& op) const {
  // While no rail stands, what will be on it first waits here as well.
  uint32_t bound = options_.queue_per_peer + options_.inflight_per_rail;
  for (const auto& slot : op.path->slots) {
    if (slot->state == Slot::State::kReady) bound = options_.queue_per_peer;
  }
  return op.peer->queued >= bound;
}

void Core::FailLocked(OpState& op, const Error& error) {
  if (op.ended) return;
  if (!op.failure) {
    op.failure = error;
    // What was posted but not begun need not travel.
    for (Slice* s = op.posted; s != nullptr; s = s->next) to_withdraw_.push_back({s->rail, s, s->serial});
  }
  DequeueLocked(op);
  MaybeEndLocked(op);
}

void Core::MaybeEndLocked(OpState& op) {
  if (op.ended || op.outstanding != 0) return;
  const bool moved_all = op.bytes == op.length;
  if (!op.failure && !moved_all && !op.cancelled) return;
  OpResult& r = op.result;
  r.bytes = op.bytes;
  if (op.failure) {
    r.state = OpResult::State::kFailed;
    r.code = op.failure->code();
    r.message = op.failure->message();
  } else {
    r.state = moved_all ? OpResult::State::kOk : OpResult::State::kCancelled;
    if (!moved_all) r.code = ErrorCode::kCancelled;
  }
  DequeueLocked(op);
  op.ended = true;
  op.path = nullptr;
  if (op.figures >= 0) {
    TransportFigures& f = figures_[static_cast<size_t>(op.figures)];
    r.transport = f.kind;
    if (r.state == OpResult::State::kOk) {
      ++f.operations_ok;
      if (!op.view) (op.op.kind == OpKind::kRead ? f.bytes_read : f.bytes_written) += op.bytes;
    } else {
      ++f.operations_failed;
    }
  }
  for (RegionTable::Entry* entry : op.regions) --entry->uses;
  op.regions.clear();
  --op.peer->operations;
  if (--op.batch->open == 0) {
    EndBatchLocked(*op.batch);
  } else {
    NotifyWaitersLocked(nullptr);
  }
}

void Core::EndBatchLocked(BatchState& batch) {
  (batch.prev != nullptr ? batch.prev->next : active_) = batch.next;
  if (batch.next != nullptr) batch.next->prev = batch.prev;
  --active_count_;
  if (batch.background) --async_;
  if (batch.callback) {
    callbacks_.push_back(std::move(batch.callback));
    WakeLeaderLocked();  // no effect when it is the leader that is here
    background_cv_.notify_one();
  }
  batch.callback = nullptr;
  batch.terminal.store(true, std::memory_order_release);
  NotifyWaitersLocked(&batch);
  NotifyWaitersLocked(nullptr);
  if (stopping_) stop_cv_.notify_all();
}

Status Core::Wait(BatchState& batch, int64_t timeout_ms) {
  if (batch.terminal.load(std::memory_order_acquire)) return Ok();
  Lock lock(mu_);
  if (DriveUntil(lock, &batch, timeout_ms, [&] { return batch.terminal.load(std::memory_order_relaxed); })) return Ok();
  return Error(ErrorCode::kDeadline, fmt::format("the batch is still under way after {} ms", timeout_ms));
}

void Core::Cancel(BatchState& batch) {
  {
    Lock lock(mu_);
    if (batch.terminal.load(std::memory_order_relaxed)) return;
    for (size_t i = 0; i < batch.size; ++i) {
      OpState& op = batch.ops[i];
      if (op.ended || op.cancelled) continue;
      op.cancelled = true;
      for (Slice* s = op.posted; s != nullptr; s = s->next) to_withdraw_.push_back({s->rail, s, s->serial});
      DequeueLocked(op);
      MaybeEndLocked(op);
    }
  }
  Pump();
}

// A posted slice ends when its peer answers. A peer that does not is given the time of a status, then cut off: the
// caller is waiting in a destructor.
void Core::Release(BatchState& batch) {
  if (!batch.terminal.load(std::memory_order_acquire)) {
    Cancel(batch);
    if (!Wait(batch, options_.status_timeout_ms).ok()) {
      Lock lock(mu_);
      if (!batch.terminal.load(std::memory_order_relaxed)) {
        batch.deadline_ms = NowMs();
        batch.expired = false;
        ArmLocked(batch.deadline_ms);
      }
      lock.unlock();
      (void)Wait(batch, -1);
    }
  }
  Lock lock(mu_);  // whoever made it terminal has left it by now
}

Error Core::DeadlineErrorLocked(const BatchState& batch, const OpState& op) const {
  std::string text = fmt::format("{} of {} bytes moved within {} ms, peer {}", op.bytes, op.length,
                                 batch.options.timeout_ms, op.peer->address.name);
  if (op.path != nullptr && op.path->last_error && op.path->down_since_ms != INT64_MAX) {
    text += ": " + op.path->last_error->message();
  }
  return Error(ErrorCode::kDeadline, std::move(text));
}

void Core::ExpireLocked(BatchState& batch, const Error& error, std::vector<Plan::Recall>* recalls) {
  batch.expired = true;
  for (size_t i = 0; i < batch.size; ++i) {
    OpState& op = batch.ops[i];
    if (op.ended) continue;
    for (Slice* s = op.posted; s != nullptr; s = s->next) {
      if (!s->finishing) recalls->push_back({s->rail, s, s->serial});
    }
    std::erase_if(batch.work, [&](const Slice* s) { return s->op == &op; });
    std::erase_if(orphan_work_, [&](const Slice* s) { return s->op == &op; });
    if (!op.failure) {
      op.failure = error.code() == ErrorCode::kDeadline ? DeadlineErrorLocked(batch, op) : error;
    }
    DequeueLocked(op);
    MaybeEndLocked(op);
  }
}

void Core::FailIfStuckLocked(BatchState& batch, int64_t now) {
  const int64_t after = batch.options.unreachable_after_ms;
  for (size_t i = 0; i < batch.size; ++i) {
    OpState& op = batch.ops[i];
    if (op.ended || op.outstanding != 0 || op.path == nullptr) continue;
    if (op.path->down_since_ms == INT64_MAX) continue;
    // An attempt that is due or under way gets its chance: so a peer that has come back is found out.
    const bool trying = std::any_of(op.path->slots.begin(), op.path->slots.end(), [&](const auto& slot) {
      const bool due = slot->state == Slot::State::kIdle && slot->health.Usable(now) && now >= op.path->retry_ms;
      return due || slot->state == Slot::State::kConnecting;
    });
    const bool known = batch.options.elsewhere && !trying;
    const int64_t down_since = known ? op.path->down_since_ms : std::max(op.path->down_since_ms, batch.submitted_ms);
    if (now - down_since < after) {
      ArmLocked(down_since + after);
      continue;
    }
    FailLocked(op, Error(ErrorCode::kUnreachable,
                         fmt::format("{} cannot be reached: {}", op.peer->address.name,
                                     op.path->last_error ? op.path->last_error->message() : "no connection")));
  }
}

OpResult Core::ResultOf(const BatchState& batch, size_t i) const {
  TIERCEL_CHECK(i < batch.size);
  Lock lock(mu_);
  return batch.ops[i].result;
}

void Core::OnTerminal(BatchState& batch, std::function<void()> callback) {
  {
    Lock lock(mu_);
    if (!batch.terminal.load(std::memory_order_relaxed)) {
      TIERCEL_CHECK(!batch.callback, "a batch has one callback");
      batch.callback = std::move(callback);
      if (!batch.background) ++async_;
      batch.background = true;
      WakeBackgroundLocked();
      return;
    }
  }
  callback();
}

void Core::AskForProgress(const BatchState& batch) {
  if (batch.terminal.load(std::memory_order_acquire)) return;
  Lock lock(mu_);
  if (!leader_ && !watching_) WakeBackgroundLocked();
}

}  // namespace tiercel::transfer
