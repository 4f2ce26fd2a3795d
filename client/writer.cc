#include "client/writer.h"

#include <algorithm>

namespace tiercel::client {
namespace {

// A store that cannot be connected to is given up after this, and the put goes on without it.
constexpr int64_t kUnreachableMs = 1000;

std::vector<WriteTask*> Ready(std::span<WriteTask> tasks, WriteTask::Phase phase) {
  std::vector<WriteTask*> ready;
  for (WriteTask& task : tasks) {
    if (task.Ready(phase)) ready.push_back(&task);
  }
  return ready;
}

}  // namespace

Writer::Writer(Parts* parts, const PutOptions& options)
    : parts_(parts),
      options_(options),
      transports_(MaskFor(*parts, options.transport)),
      deadline_(Deadline::After(options.timeout_ms > 0 ? options.timeout_ms : parts->options.timeout_ms)) {}

void Writer::Run(std::span<WriteTask> tasks) {
  const size_t chunk = std::max<size_t>(parts_->options.batch_parallel, 1);
  for (size_t i = 0; i < tasks.size(); i += chunk) RunChunk(tasks.subspan(i, std::min(chunk, tasks.size() - i)));
}

void Writer::RunChunk(std::span<WriteTask> tasks) {
  // Ends: every turn moves a task on, counts a bounded failure, or sleeps towards the deadline.
  auto done = [](const WriteTask& task) { return task.phase() == Phase::kDone; };
  while (!std::ranges::all_of(tasks, done)) {
    const bool started = StartReady(tasks);
    const bool moved = MoveReady(tasks);
    const bool ended = EndReady(tasks);
    const bool revoked = RevokeReady(tasks);
    if (!started && !moved && !ended && !revoked) Await(tasks);
  }
}

void Writer::Await(std::span<WriteTask> tasks) {
  int64_t wake_ms = INT64_MAX;
  for (const WriteTask& task : tasks) {
    if (task.phase() != Phase::kDone) wake_ms = std::min(wake_ms, task.not_before_ms());
  }
  if (wake_ms == INT64_MAX) return;
  const int64_t pause_ms = std::clamp<int64_t>(wake_ms - Deadline::MonotonicMillis(), 0, deadline_.left_ms());
  const bool stopped = !parts_->stop.Sleep(pause_ms);
  if (!stopped && !deadline_.over()) return;
  for (WriteTask& task : tasks) {
    task.GiveUp(stopped ? Error(ErrorCode::kShutdown, "the client is closed")
                        : Error(ErrorCode::kDeadline, "the call's time is over"));
  }
}

template <typename MakeWords, typename Done>
void Writer::Ask(std::span<WriteTask* const> tasks, Control::Again again, const Deadline& deadline, MakeWords&& make,
                 Done&& done) {
  std::vector<Words> words;
  words.reserve(tasks.size());
  for (WriteTask* task : tasks) words.push_back(make(*task));
  if (tasks.size() == 1) {
    return done(*tasks[0], parts_->control.Call(words[0].view(), deadline, again));
  }
  std::vector<Control::Command> commands;
  commands.reserve(tasks.size());
  for (const Words& one : words) commands.push_back(one.copy());
  auto replies = parts_->control.Pipeline(commands, deadline, again);
  for (size_t i = 0; i < tasks.size(); ++i) {
    replies.ok() ? done(*tasks[i], Result<resp::Reply>(std::move((*replies)[i])))
                 : done(*tasks[i], Result<resp::Reply>(replies.error()));
  }
}

// A PUTSTART whose answer was lost is an orphan of a closed connection: the next one takes over at once, so it
// may be sent again.
bool Writer::StartReady(std::span<WriteTask> tasks) {
  auto ready = Ready(tasks, Phase::kStart);
  if (ready.empty()) return false;
  Ask(
      ready, Control::Again::kYes, deadline_, [&](WriteTask& task) { return task.StartWords(options_); },
      [&](WriteTask& task, Result<resp::Reply> reply) {
        task.Started(parts_, deadline_,
                     reply.ok() ? ParsePlan(*reply, task.value_bytes()) : Result<Plan>(std::move(reply).error()));
      });
  return true;
}

bool Writer::MoveReady(std::span<WriteTask> tasks) {
  std::vector<transfer::Operation> operations;
  std::deque<PieceHasher> hashers;
  std::vector<WriteTask*> moving;
  uint64_t left = parts_->step_bytes;
  for (WriteTask& task : tasks) {
    if (!task.Ready(Phase::kValue) && !task.Ready(Phase::kTrailer)) continue;
    if (left == 0 || operations.size() >= kMaxOperations) break;
    left -= std::min(left, task.AddStep(left, &operations, &hashers));
    moving.push_back(&task);
  }
  if (moving.empty()) return false;
  const transfer::SubmitOptions how{.timeout_ms = std::max<int64_t>(deadline_.left_ms(), 1),
                                    .transports = transports_,
                                    .unreachable_after_ms = kUnreachableMs};
  auto batch = parts_->mover->Move(std::move(operations), how, [&] { return RenewDue(moving); });
  for (WriteTask* task : moving) {
    batch.ok() ? task->Moved(parts_, deadline_, **batch) : task->Fail(batch.error());
  }
  return true;
}

bool Writer::EndReady(std::span<WriteTask> tasks) {
  auto ready = Ready(tasks, Phase::kEnd);
  if (ready.empty()) return false;
  Ask(
      ready, Control::Again::kYes, deadline_, [](WriteTask& task) { return task.EndWords(); },
      [&](WriteTask& task, const Result<resp::Reply>& reply) { task.Ended(parts_, deadline_, reply); });
  return true;
}

// Also when the time is over: what is not given back here comes back when the connection closes or by its deadline.
bool Writer::RevokeReady(std::span<WriteTask> tasks) {
  auto ready = Ready(tasks, Phase::kAbandon);
  if (ready.empty()) return false;
  Ask(
      ready, Control::Again::kNo, Deadline::After(Control::kAsideMs),
      [](WriteTask& task) { return task.RevokeWords(); },
      [](WriteTask& task, const Result<resp::Reply>&) { task.Revoked(); });
  return true;
}

int64_t Writer::RenewDue(std::span<WriteTask* const> moving) {
  std::vector<WriteTask*> due;
  int64_t next_ms = INT64_MAX;
  const int64_t now_ms = Deadline::MonotonicMillis();
  for (WriteTask* task : moving) {
    if (task->renew_at_ms() <= now_ms) due.push_back(task);
  }
  if (!due.empty()) {
    Ask(
        due, Control::Again::kNo, deadline_.AtMost(Control::kAsideMs),
        [](WriteTask& task) { return task.RenewWords(); },
        [](WriteTask& task, const Result<resp::Reply>& reply) {
          if (reply.ok()) task.Renewed(*reply);
        });
  }
  for (WriteTask* task : moving) next_ms = std::min(next_ms, task->renew_at_ms());
  return next_ms == INT64_MAX ? -1 : std::max<int64_t>(next_ms - Deadline::MonotonicMillis(), 100);
}

}  // namespace tiercel::client
