// One key's read in progress: the version found, the replica in use, and what failures lead to. It makes no
// call for data itself: the reader looks up and moves for many tasks at once.
//
//   kLookUp -> (found) -> kMove -> ... -> kMove -> kDone
//      ^                    |  next replica, or look up again
//      +--------------------+
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/messages.h"
#include "client/object_view.h"
#include "client/parts.h"
#include "client/read_plan.h"
#include "client/retry.h"

namespace tiercel::client {

class ReadTask {
 public:
  // What is asked for: the whole value into a new buffer or into memory, or a range of it into a new buffer.
  static ReadTask Whole(std::string_view key) { return {key, Shape::kWhole, {}, 0, 0}; }
  static ReadTask Into(std::string_view key, std::span<std::byte> memory) { return {key, Shape::kInto, memory, 0, 0}; }
  static ReadTask Range(std::string_view key, uint64_t offset, uint64_t length) {
    return {key, Shape::kRange, {}, offset, length};
  }

  // The whole value where it lies, in shared memory.
  static ReadTask View(std::string_view key) { return {key, Shape::kView, {}, 0, 0}; }

  enum class Phase : uint8_t { kLookUp, kMove, kDone };
  Phase phase() const { return phase_; }
  bool Ready(Phase phase) const { return phase_ == phase && pauses_.due(); }
  int64_t not_before_ms() const { return pauses_.not_before_ms(); }
  std::string_view key() const { return key_; }
  bool has_lease() const { return phase_ == Phase::kMove && found_.lease_ms > 0; }
  // The client's boot clock: when half of the lease has passed, counted from before it was asked for.
  int64_t renew_at_ms() const { return expected_.lease_until_ms - found_.lease_ms / 2; }

  // ---- the reader's side. `asked_at_ms`: the client's boot clock before the master was asked.
  void LookedUp(Parts* parts, const Deadline& deadline, Result<std::optional<Found>> found, int64_t asked_at_ms);
  // A look-up during a move: keeps the lease alive, and brings fresh grants. Ignored unless the version is the same.
  void Renewed(Result<std::optional<Found>> found, int64_t asked_at_ms);
  bool is_view() const { return shape_ == Shape::kView; }
  // Instead of steps: pins and verifies the chosen replica in shared memory.
  void Pin(Parts* parts, const Deadline& deadline, transfer::TransportMask transports);
  // Appends the next step's operations; 0 when the replica's store is unknown (then the task has moved on).
  uint64_t AddStep(Parts* parts, const Deadline& deadline, uint64_t budget,
                   std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers);
  // The batch is terminal.
  void Moved(Parts* parts, const Deadline& deadline, const transfer::Batch& batch);
  void Fail(Parts* parts, const Deadline& deadline, Error error);
  bool other_replica_left() const;

  // ---- the outcome, once. REQUIRES: kDone.
  Result<std::optional<Buffer>> TakeBuffer();
  Result<std::optional<uint64_t>> TakeSize();
  Result<std::unique_ptr<ObjectView>> TakeView();

 private:
  enum class Shape : uint8_t { kWhole, kInto, kRange, kView };

  ReadTask(std::string_view key, Shape shape, std::span<std::byte> memory, uint64_t offset, uint64_t length)
      : key_(key), shape_(shape), memory_(memory), offset_(offset), length_(length) {}

  Status MakePlan(Parts* parts);
  void Conclude(Parts* parts, const Deadline& deadline);
  std::optional<StoreDirectory::Peer> FindPeer(Parts* parts, const Deadline& deadline);
  bool ChooseReplica();
  bool Tried(const resp::ReplicaDescriptor& replica) const;
  void NextReplica(Parts* parts, const Deadline& deadline, Error error);
  void LookUpAgain(Error error, bool at_once);
  void Report(Parts* parts, const Deadline& deadline, std::string_view what) const;
  void Finish(Error error);

  const std::string_view key_;
  const Shape shape_;
  const std::span<std::byte> memory_;
  const uint64_t offset_, length_;

  Phase phase_ = Phase::kLookUp;
  Found found_;
  Expected expected_;
  Buffer buffer_;
  ReadPlan plan_;
  std::unique_ptr<PinnedView> view_;
  size_t replica_ = 0;                                // in use
  size_t first_operation_ = 0, operation_count_ = 0;  // of the batch under way

  std::vector<std::pair<Incarnation, SegmentRef>> tried_;
  bool all_corrupt_ = true;  // of those tried
  int lookups_ = 0, rounds_ = 0, expired_ = 0;
  Pauses pauses_;

  bool missing_ = false;
  std::optional<Error> error_;
};

}  // namespace tiercel::client
