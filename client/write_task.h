// One key's put in progress: the plan, which replicas are still good, how far the bytes are, and what failures
// lead to. It makes no call itself: the writer does for many tasks at once.
//
//   kStart -> kValue -> ... -> kTrailer (values of several blocks) -> kEnd -> kDone
//      ^         |                |                                     |
//      +---------+--- kAbandon ---+-------------------------------------+      (given back, then begun anew or given
//      up)
//
// The value is hashed while it is sent to the first good replica, or by a store that copies it out of shared
// memory; the trailer and PUTEND's object sum come from these block sums.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/messages.h"
#include "client/parts.h"
#include "client/read_plan.h"
#include "client/retry.h"

namespace tiercel::client {

class WriteTask {
 public:
  WriteTask(std::string_view key, std::span<const std::byte> value) : key_(key), value_(value) {}

  enum class Phase : uint8_t { kStart, kValue, kTrailer, kEnd, kAbandon, kDone };
  Phase phase() const { return phase_; }
  bool Ready(Phase phase) const { return phase_ == phase && pauses_.due(); }
  int64_t not_before_ms() const { return pauses_.not_before_ms(); }
  std::string_view key() const { return key_; }
  int64_t renew_at_ms() const { return renew_at_ms_; }
  uint64_t value_bytes() const { return value_.size(); }

  Words StartWords(const PutOptions& options);
  void Started(Parts* parts, const Deadline& deadline, Result<Plan> plan);
  Words RenewWords() const { return std::move(Words{"PUTRENEW"}.AddNumber(static_cast<int64_t>(put_.value))); }
  void Renewed(const resp::Reply& reply);
  // Appends the next step's operations (value or trailer) for all good replicas; returns their bytes.
  uint64_t AddStep(uint64_t budget, std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers);
  void Moved(Parts* parts, const Deadline& deadline, const transfer::Batch& batch);
  Words EndWords() const;
  void Ended(Parts* parts, const Deadline& deadline, const Result<resp::Reply>& reply);
  // Gives the put back. Places that were found in use are named, so that the master sets them aside until they are not.
  Words RevokeWords() const;
  void Revoked();
  void Fail(Error error);
  // The call's time is over, or the client was closed: an open put is still given back.
  void GiveUp(Error error);

  Result<PutResult> TakeResult();  // once. REQUIRES: kDone.

 private:
  struct Replica {
    resp::ReplicaDescriptor place;
    Source source;
    std::optional<Error> failed;
    size_t first_operation = 0, operation_count = 0;  // of the step under way
    uint64_t step_bytes = 0;
  };

  void Created(Parts* parts, const Deadline& deadline);
  Result<PutResult> Compare(Parts* parts, const Plan& plan);
  void SetRenewal(int64_t deadline_ms);
  Replica* FirstGood();
  void AddPieces(Replica* replica, uint64_t offset, std::span<const std::byte> bytes, RunHasher* hasher,
                 std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers) const;
  // False when the step must be taken again or the put is lost.
  bool Judge(const transfer::Batch& batch);
  void ValueDone(Parts* parts);
  void Abandon(Error error, bool try_again);
  const std::vector<uint64_t>& Sums();

  const std::string_view key_;
  const std::span<const std::byte> value_;

  Phase phase_ = Phase::kStart;
  PutId put_;
  std::vector<Replica> replicas_;
  int64_t renew_at_ms_ = INT64_MAX;
  uint64_t offset_ = 0, step_end_ = 0;  // of the value
  std::unique_ptr<RunHasher> hasher_;   // until all sums are known
  std::optional<std::vector<uint64_t>> sums_;
  uint64_t sum_ = 0;

  int attempts_ = 0;
  bool try_again_ = false;
  std::string exclude_;  // a store that failed the attempt before
  std::optional<Error> failure_;
  Pauses pauses_;
  std::optional<Result<PutResult>> result_;
};

}  // namespace tiercel::client
