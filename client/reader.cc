#include "client/reader.h"

#include <algorithm>
#include <string>

#include "client/op_failure.h"

namespace tiercel::client {
namespace {

// Leases may be as short as a millisecond; renewals are not asked for more often.
constexpr int64_t kMinRenewMs = 1;
// A store that cannot be connected to is given up after this: at once nearly when there is another copy.
constexpr int64_t kUnreachableMs = 1000, kUnreachableWithOtherMs = 100;

}  // namespace

Reader::Reader(Parts* parts, const GetOptions& options)
    : parts_(parts),
      options_(options),
      transports_(MaskFor(*parts, options.transport)),
      deadline_(Deadline::After(options.timeout_ms > 0 ? options.timeout_ms : parts->options.timeout_ms)) {}

void Reader::Run(std::span<ReadTask> tasks) {
  const size_t chunk = std::max<size_t>(parts_->options.batch_parallel, 1);
  for (size_t i = 0; i < tasks.size(); i += chunk) RunChunk(tasks.subspan(i, std::min(chunk, tasks.size() - i)));
}

void Reader::RunChunk(std::span<ReadTask> tasks) {
  // Ends: every turn moves a task on, counts a bounded failure, or sleeps towards the deadline.
  auto done = [](const ReadTask& task) { return task.phase() == ReadTask::Phase::kDone; };
  while (!std::ranges::all_of(tasks, done)) {
    const bool looked = LookUpReady(tasks);
    const bool moved = MoveReady(tasks);
    if (!looked && !moved) Await(tasks);
  }
}

// Nothing is ready: all that is left is pausing.
void Reader::Await(std::span<ReadTask> tasks) {
  int64_t wake_ms = INT64_MAX;
  for (const ReadTask& task : tasks) {
    if (task.phase() != ReadTask::Phase::kDone) wake_ms = std::min(wake_ms, task.not_before_ms());
  }
  if (wake_ms == INT64_MAX) return;
  const int64_t pause_ms = std::clamp<int64_t>(wake_ms - Deadline::MonotonicMillis(), 0, deadline_.left_ms());
  const bool go_on = parts_->stop.Sleep(pause_ms) && !deadline_.over();
  if (go_on) return;
  for (ReadTask& task : tasks) {
    if (task.phase() == ReadTask::Phase::kDone) continue;
    task.Fail(parts_, deadline_, Error(ErrorCode::kDeadline, "the call's time is over"));
  }
}

std::vector<Result<std::optional<Found>>> Reader::LookUp(Parts* parts, std::span<const std::string_view> keys,
                                                         const std::optional<int64_t>& lease_ms, bool lease,
                                                         const Deadline& deadline) {
  std::vector<Result<std::optional<Found>>> found;
  found.reserve(keys.size());
  Words words;
  if (keys.size() == 1) {
    words = LookUpWords(keys[0], lease_ms, lease);
  } else {
    words.Add("MGETREPLICAS").AddNumber(static_cast<int64_t>(keys.size()));
    for (std::string_view key : keys) words.Add(key);
    AddLeaseWords(lease_ms, lease, &words);
  }
  auto reply = parts->control.Call(words.view(), deadline, Control::Again::kYes);
  auto all = [&](const Error& error) { return std::vector(keys.size(), Result<std::optional<Found>>(error)); };
  if (!reply.ok()) return all(reply.error());
  if (keys.size() == 1) {
    found.push_back(ParseFound(*reply));
    return found;
  }
  if (reply->is_error()) return all(reply->ToError());
  if (reply->items.size() != keys.size()) return all(UnexpectedReply("MGETREPLICAS", *reply));
  for (const resp::Reply& item : reply->items) found.push_back(ParseFound(item));
  return found;
}

bool Reader::LookUpReady(std::span<ReadTask> tasks) {
  std::vector<ReadTask*> asking;
  std::vector<std::string_view> keys;
  for (ReadTask& task : tasks) {
    if (!task.Ready(ReadTask::Phase::kLookUp)) continue;
    asking.push_back(&task);
    keys.push_back(task.key());
  }
  if (asking.empty()) return false;
  const int64_t asked_at_ms = parts_->NowMs();
  auto found = LookUp(parts_, keys, options_.lease_ms, /*lease=*/true, deadline_);
  for (size_t i = 0; i < asking.size(); ++i) {
    asking[i]->LookedUp(parts_, deadline_, std::move(found[i]), asked_at_ms);
  }
  return true;
}

bool Reader::MoveReady(std::span<ReadTask> tasks) {
  std::vector<transfer::Operation> operations;
  std::deque<PieceHasher> hashers;
  std::vector<ReadTask*> moving;
  uint64_t left = parts_->step_bytes;
  bool progress = false;
  for (ReadTask& task : tasks) {
    if (!task.Ready(ReadTask::Phase::kMove)) continue;
    if (left == 0 || operations.size() >= kMaxOperations) break;
    progress = true;
    if (task.is_view()) {
      task.Pin(parts_, deadline_, transports_);
      continue;
    }
    const uint64_t bytes = task.AddStep(parts_, deadline_, left, &operations, &hashers);
    if (bytes > 0) moving.push_back(&task);
    left -= std::min(left, bytes);
  }
  if (operations.empty()) return progress;
  const transfer::SubmitOptions how = Attempt(moving);
  auto batch = parts_->mover->Move(std::move(operations), how, [&] { return RenewDue(moving); });
  for (ReadTask* task : moving) {
    batch.ok() ? task->Moved(parts_, deadline_, **batch) : task->Fail(parts_, deadline_, batch.error());
  }
  return true;
}

// A store that hangs must leave time for another copy.
transfer::SubmitOptions Reader::Attempt(std::span<ReadTask* const> moving) const {
  const bool others = std::ranges::any_of(moving, [](const ReadTask* task) { return task->other_replica_left(); });
  return {.timeout_ms = std::max<int64_t>(others ? deadline_.left_ms() / 2 : deadline_.left_ms(), 1),
          .transports = transports_,
          .unreachable_after_ms = others ? kUnreachableWithOtherMs : kUnreachableMs,
          .elsewhere = others};
}

// Renews the leases that are half over; ms until the next one will be, or -1 when there is none.
int64_t Reader::RenewDue(std::span<ReadTask* const> moving) {
  const int64_t now_ms = parts_->NowMs();
  std::vector<ReadTask*> due;
  std::vector<std::string_view> keys;
  for (ReadTask* task : moving) {
    if (!task->has_lease() || task->renew_at_ms() > now_ms) continue;
    due.push_back(task);
    keys.push_back(task->key());
  }
  if (!due.empty()) {
    auto found = LookUp(parts_, keys, options_.lease_ms, /*lease=*/true, deadline_.AtMost(Control::kAsideMs));
    for (size_t i = 0; i < due.size(); ++i) due[i]->Renewed(std::move(found[i]), now_ms);
  }
  int64_t next_ms = -1;
  for (const ReadTask* task : moving) {
    if (!task->has_lease()) continue;
    const int64_t in_ms = std::max(task->renew_at_ms() - parts_->NowMs(), kMinRenewMs);
    next_ms = next_ms < 0 ? in_ms : std::min(next_ms, in_ms);
  }
  return next_ms;
}

}  // namespace tiercel::client
