// What the end of a step, of a put or of an attempt leads to.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "client/op_failure.h"
#include "client/write_task.h"

namespace tiercel::client {

void WriteTask::Moved(Parts* parts, const Deadline& deadline, const transfer::Batch& batch) {
  if (parts->stop.stopped()) return GiveUp(Error(ErrorCode::kShutdown, "the client is closed"));
  if (!Judge(batch)) {
    if (deadline.over() && phase_ != Phase::kDone) GiveUp(Error(ErrorCode::kDeadline, "the call's time is over"));
    return;
  }
  if (phase_ == Phase::kTrailer) {
    phase_ = Phase::kEnd;
    return;
  }
  offset_ = step_end_;
  if (offset_ == value_.size()) ValueDone(parts);
}

bool WriteTask::Judge(const transfer::Batch& batch) {
  bool again = false;
  for (Replica& replica : replicas_) {
    if (replica.failed) continue;
    auto failure = FirstFailure(batch, replica.first_operation, replica.operation_count);
    if (!failure && BytesMoved(batch, replica.first_operation, replica.operation_count) != replica.step_bytes) {
      failure = Error(ErrorCode::kLength, "fewer bytes were written than were sent");
    }
    if (!failure) continue;
    switch (ActionOfFailure(*failure)) {
      case ErrorAction::kWait: again = true; break;
      case ErrorAction::kStartAgain:
        replica.failed = *failure;
        Abandon(std::move(*failure), /*try_again=*/true);
        return false;
      default: replica.failed = std::move(*failure);
    }
  }
  if (FirstGood() == nullptr) {
    Fail(*replicas_[0].failed);
    return false;
  }
  // What was hashed on the way to a replica that failed is not relied upon.
  const bool unsure = again || std::ranges::any_of(replicas_, [](const Replica& r) { return r.failed.has_value(); });
  if (unsure && hasher_ != nullptr) hasher_->Again(offset_, step_end_ - offset_);
  if (again) pauses_.Next(/*at_once=*/false);
  return !again;
}

void WriteTask::Ended(Parts* parts, const Deadline& deadline, const Result<resp::Reply>& reply) {
  if (parts->stop.stopped()) return GiveUp(Error(ErrorCode::kShutdown, "the client is closed"));
  if (!reply.ok()) return Abandon(OfDeadline(reply.error()), /*try_again=*/false);
  auto published = ParseInteger(*reply);
  if (published.ok()) {
    result_ = PutResult{.outcome = PutOutcome::kStored,
                        .version = put_,
                        .replicas = static_cast<uint32_t>(std::max<int64_t>(*published, 0))};
    phase_ = Phase::kDone;
    return;
  }
  const bool again = published.error().action() == ErrorAction::kStartAgain && !deadline.over();
  Abandon(std::move(published).error(), again);
}

// No replica is good any more.
void WriteTask::Fail(Error error) {
  if (exclude_.empty() && replicas_.size() == 1) exclude_ = replicas_[0].place.store;
  const bool again = ActionOfFailure(error) != ErrorAction::kGiveUp;
  Abandon(std::move(error), again);
}

void WriteTask::GiveUp(Error error) {
  const bool open = phase_ != Phase::kStart && phase_ != Phase::kDone;
  if (open) return Abandon(std::move(error), /*try_again=*/false);
  if (phase_ == Phase::kDone) return;
  result_ = std::move(error);
  phase_ = Phase::kDone;
}

void WriteTask::Abandon(Error error, bool try_again) {
  failure_.emplace(std::move(error));
  try_again_ = try_again && attempts_ < kMaxPutAttempts;
  phase_ = Phase::kAbandon;
}

void WriteTask::Revoked() {
  TIERCEL_CHECK(phase_ == Phase::kAbandon);
  renew_at_ms_ = INT64_MAX;
  if (!try_again_) {
    result_ = std::move(*failure_);
    phase_ = Phase::kDone;
    return;
  }
  phase_ = Phase::kStart;
  pauses_.Next(/*at_once=*/attempts_ == 1);
}

}  // namespace tiercel::client
