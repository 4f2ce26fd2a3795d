#include "client/write_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "client/pieces.h"

namespace tiercel::client {

Words WriteTask::StartWords(const PutOptions& options) {
  return PutStartWords(key_, value_.size(), options,
                       options.excluded_store.empty() ? exclude_ : options.excluded_store);
}

void WriteTask::Started(Parts* parts, const Deadline& deadline, Result<Plan> plan) {
  ++attempts_;
  if (!plan.ok()) {
    const ErrorCode code = plan.error().code();
    const bool later = code == ErrorCode::kRetry || code == ErrorCode::kLoading;
    if (later && !deadline.over()) return pauses_.Next(/*at_once=*/false);
    // Without the store that failed there is no room: what counts is why it failed.
    result_ = exclude_.empty() || !failure_ ? std::move(plan).error() : std::move(*failure_);
    phase_ = Phase::kDone;
    return;
  }
  put_ = plan->put;
  switch (plan->outcome) {
    case Plan::Outcome::kCreated: break;
    case Plan::Outcome::kExists:
      result_ = Compare(parts, *plan);
      phase_ = Phase::kDone;
      return;
    case Plan::Outcome::kBusy:
      result_ = Error(ErrorCode::kInFlight,
                      fmt::format("another writer is at this key: put {}, begun {} ms ago", put_.value, plan->age_ms));
      phase_ = Phase::kDone;
      return;
  }
  replicas_.clear();
  for (resp::ReplicaDescriptor& place : plan->replicas) replicas_.push_back({.place = std::move(place)});
  SetRenewal(plan->deadline_ms);
  Created(parts, deadline);
}

void WriteTask::Created(Parts* parts, const Deadline& deadline) {
  for (Replica& replica : replicas_) {
    auto peer = parts->directory->Find(replica.place.store, replica.place.incarnation, deadline);
    if (!peer.ok()) {
      replica.failed = std::move(peer).error();
      continue;
    }
    replica.source = {peer->handle, replica.place.place, &replica.place.extents,
                      replica.place.has_grant ? std::make_shared<const Grant>(replica.place.grant) : nullptr};
  }
  if (FirstGood() == nullptr) return Fail(*replicas_[0].failed);
  offset_ = 0;
  if (!sums_) hasher_ = std::make_unique<RunHasher>(value_.size());
  phase_ = Phase::kValue;
  if (value_.empty()) ValueDone(parts);
}

void WriteTask::SetRenewal(int64_t deadline_ms) {
  renew_at_ms_ = Deadline::MonotonicMillis() + std::max<int64_t>(deadline_ms / 2, 1);
}

// Whether what is there is what was to be put, by the checksum of the object.
Result<PutResult> WriteTask::Compare(Parts* parts, const Plan& plan) {
  if (plan.size == value_.size()) {
    const uint64_t seed = KeySeed(parts->options.name_space, key_);
    if (ObjectSum(seed, value_.size(), Sums()) == plan.sum) {
      return PutResult{.outcome = PutOutcome::kAlreadyThere, .version = plan.put};
    }
  }
  return Error(ErrorCode::kExists, fmt::format("the key holds another value: version {}, {} bytes, sum {:016x}",
                                               plan.put.value, plan.size, plan.sum));
}

const std::vector<uint64_t>& WriteTask::Sums() {
  if (!sums_) {
    if (hasher_ == nullptr) hasher_ = std::make_unique<RunHasher>(value_.size());
    sums_ = hasher_->Finish(value_);
    hasher_.reset();
  }
  return *sums_;
}

WriteTask::Replica* WriteTask::FirstGood() {
  auto good = std::ranges::find_if(replicas_, [](const Replica& replica) { return !replica.failed; });
  return good == replicas_.end() ? nullptr : &*good;
}

void WriteTask::Renewed(const resp::Reply& reply) {
  auto plan = ParseRenewed(reply, value_.size());
  if (!plan.ok() || plan->replicas.size() != replicas_.size()) {
    renew_at_ms_ = INT64_MAX;  // the put is gone, and the next step will find out
    return;
  }
  SetRenewal(plan->deadline_ms);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const resp::ReplicaDescriptor& fresh = plan->replicas[i];
    if (fresh.has_grant && fresh.place == replicas_[i].place.place && fresh.extents == replicas_[i].place.extents) {
      replicas_[i].source.grant = std::make_shared<const Grant>(fresh.grant);
    }
  }
}

void WriteTask::AddPieces(Replica* replica, uint64_t offset, std::span<const std::byte> bytes, RunHasher* hasher,
                          std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers) const {
  replica->first_operation = operations->size();
  replica->step_bytes = bytes.size();
  ForEachPiece(replica->place.extents, offset, bytes.size(),
               [&](uint64_t place_offset, uint64_t object_offset, uint64_t length) {
                 auto piece = bytes.subspan(object_offset - offset, length);
                 // The engine does not modify the source of a write.
                 std::span<std::byte> memory(const_cast<std::byte*>(piece.data()), piece.size());
                 PieceHasher* observer = hasher == nullptr ? nullptr : &hashers->emplace_back(hasher, object_offset);
                 operations->push_back(
                     PieceOperation(transfer::OpKind::kWrite, replica->source, place_offset, memory, observer));
               });
  replica->operation_count = operations->size() - replica->first_operation;
}

uint64_t WriteTask::AddStep(uint64_t budget, std::vector<transfer::Operation>* operations,
                            std::deque<PieceHasher>* hashers) {
  uint64_t offset = value_.size();
  std::span<const std::byte> bytes;
  RunHasher* hasher = nullptr;
  if (phase_ == Phase::kValue) {
    // Steps end at borders of blocks, so that taking one again spoils no other block's hash.
    const uint64_t share = budget / std::max<size_t>(replicas_.size(), 1);
    const uint64_t step = std::max(kBlockBytes, share / kBlockBytes * kBlockBytes);
    step_end_ = std::min<uint64_t>(value_.size(), offset_ + step);
    offset = offset_;
    bytes = value_.subspan(offset_, step_end_ - offset_);
    hasher = hasher_.get();
  } else {
    bytes = std::as_bytes(std::span(*sums_));  // little-endian, as they lie
  }
  uint64_t total = 0;
  for (Replica& replica : replicas_) {
    if (replica.failed) continue;
    AddPieces(&replica, offset, bytes, hasher, operations, hashers);
    hasher = nullptr;  // once is enough
    total += bytes.size();
  }
  return total;
}

void WriteTask::ValueDone(Parts* parts) {
  sum_ = ObjectSum(KeySeed(parts->options.name_space, key_), value_.size(), Sums());
  phase_ = TrailerBytes(value_.size()) > 0 ? Phase::kTrailer : Phase::kEnd;
}

Words WriteTask::EndWords() const {
  Words words{"PUTEND"};
  words.AddNumber(static_cast<int64_t>(put_.value)).AddOwned(fmt::format("{:016x}", sum_));
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i].failed) continue;
    words.Add("FAILED").AddNumber(static_cast<int64_t>(i)).Add(replicas_[i].failed->name());
  }
  return words;
}

Words WriteTask::RevokeWords() const {
  const bool in_use = std::ranges::any_of(
      replicas_, [](const Replica& r) { return r.failed.has_value() && r.failed->code() == ErrorCode::kInUse; });
  if (!in_use) return std::move(Words{"PUTREVOKE"}.AddNumber(static_cast<int64_t>(put_.value)));
  Words words{"PUTEND"};
  words.AddNumber(static_cast<int64_t>(put_.value)).AddOwned(fmt::format("{:016x}", sum_));
  for (size_t i = 0; i < replicas_.size(); ++i) {
    const ErrorCode reason = replicas_[i].failed ? replicas_[i].failed->code() : ErrorCode::kCancelled;
    words.Add("FAILED").AddNumber(static_cast<int64_t>(i)).Add(InfoOf(reason).name);
  }
  return words;
}

Result<PutResult> WriteTask::TakeResult() {
  TIERCEL_CHECK(phase_ == Phase::kDone && result_.has_value());
  return std::move(*result_);
}

}  // namespace tiercel::client
