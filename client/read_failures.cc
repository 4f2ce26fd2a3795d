// What a failed step of a read leads to: the same replica again, the next one, another look-up, or the end.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "client/op_failure.h"
#include "client/read_task.h"

namespace tiercel::client {

void ReadTask::Finish(Error error) {
  error_.emplace(std::move(error));
  phase_ = Phase::kDone;
}

void ReadTask::Fail(Parts* parts, const Deadline& deadline, Error error) {
  if (parts->stop.stopped()) return Finish(Error(ErrorCode::kShutdown, "the client is closed"));
  if (deadline.over()) return Finish(OfDeadline(std::move(error)));
  switch (ActionOfFailure(error)) {
    case ErrorAction::kGiveUp: return Finish(std::move(error));
    case ErrorAction::kWait: return pauses_.Next(/*at_once=*/false);
    case ErrorAction::kNextReplica: return NextReplica(parts, deadline, std::move(error));
    case ErrorAction::kStartAgain:
    case ErrorAction::kLookUpAgain: break;
  }
  if (error.code() == ErrorCode::kLeaseExpired) {
    // Nobody is blamed; but another copy, if there is one, is the better bet.
    if (++expired_ >= kMaxExpired) return Finish(std::move(error));
    tried_.emplace_back(found_.replicas[replica_].incarnation, found_.replicas[replica_].place);
    all_corrupt_ = false;
  }
  LookUpAgain(std::move(error), /*at_once=*/lookups_ == 1);
}

void ReadTask::LookUpAgain(Error error, bool at_once) {
  if (lookups_ >= kMaxLookUps) return Finish(std::move(error));
  phase_ = Phase::kLookUp;
  pauses_.Next(at_once);
}

bool ReadTask::Tried(const resp::ReplicaDescriptor& replica) const {
  return std::ranges::find(tried_, std::pair(replica.incarnation, replica.place)) != tried_.end();
}

bool ReadTask::ChooseReplica() {
  for (size_t i = 0; i < found_.replicas.size(); ++i) {
    if (Tried(found_.replicas[i])) continue;
    replica_ = i;
    return true;
  }
  return false;
}

bool ReadTask::other_replica_left() const {
  size_t untried = 0;
  for (const resp::ReplicaDescriptor& replica : found_.replicas) untried += Tried(replica) ? 0 : 1;
  return untried > 1;
}

void ReadTask::NextReplica(Parts* parts, const Deadline& deadline, Error error) {
  const bool corrupt = error.code() == ErrorCode::kChecksum || error.code() == ErrorCode::kLength;
  if (corrupt) {
    Report(parts, deadline, "CORRUPT");
  } else if (error.code() != ErrorCode::kNoDevice) {  // the choice of wires is not the replica's fault
    Report(parts, deadline, "UNREACHABLE");
  }
  tried_.emplace_back(found_.replicas[replica_].incarnation, found_.replicas[replica_].place);
  all_corrupt_ = all_corrupt_ && corrupt;
  if (ChooseReplica()) return;
  // None is left. Copies that are all corrupt stay so; paths may come back, or the master may know better.
  if (all_corrupt_ || error.code() == ErrorCode::kNoDevice || ++rounds_ >= kMaxRounds) return Finish(std::move(error));
  LookUpAgain(std::move(error), /*at_once=*/rounds_ == 1);
}

void ReadTask::Report(Parts* parts, const Deadline& deadline, std::string_view what) const {
  const resp::ReplicaDescriptor& replica = found_.replicas[replica_];
  const std::string version = std::to_string(found_.version.value);
  const std::string store = fmt::format("{}.{}", replica.store, FormatHex64(replica.incarnation.value));
  const std::string segment = fmt::format("{}.{}", replica.place.segment, replica.place.epoch);
  const std::string_view words[] = {"REPORT", key_, version, store, segment, what};
  parts->control.Tell(words, deadline);
}

}  // namespace tiercel::client
