// How the wanted bytes of one version come into memory: which blocks, where to, which of them are there already.
//
// The wanted range is widened to whole blocks, because only whole blocks can be verified. Blocks that lie wholly
// in the range go straight to their destination; the (at most two) blocks at its ends that do not go to memory of
// their own, out of which the wanted bytes are copied at the end. When not all blocks of the object are read, the
// list of block sums behind the value (the trailer) is read as well, unless it is known.
//
// Bytes are moved in steps, so that one operation's grant need not last for 64 GiB.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "client/buffer_cache.h"
#include "client/messages.h"
#include "client/run_hasher.h"
#include "client/trailer_cache.h"
#include "client/verify.h"

namespace tiercel::client {

// Where a plan's bytes come from.
struct Source {
  transfer::PeerHandle peer;
  SegmentRef place;
  const ExtentList* extents = nullptr;
  std::shared_ptr<const Grant> grant;
};

class ReadPlan {
 public:
  ReadPlan() = default;
  // Bytes [offset, offset + target.size()) of a value of `size` bytes, into `target`. REQUIRES: within the value.
  static Result<ReadPlan> Make(uint64_t size, uint64_t offset, std::span<std::byte> target, BufferCache* buffers,
                               TrailerCache::Sums known_trailer);

  // Appends operations for the next step: about `budget` bytes, at least one block. Returns their bytes.
  uint64_t AddStep(const Source& source, uint64_t budget, std::vector<transfer::Operation>* operations,
                   std::deque<PieceHasher>* hashers);
  void StepDone(uint64_t arrived_bytes);  // as the operations report them
  void StepFailed();                      // it will be taken again, from wherever
  bool complete() const { return run_ == runs_.size() && !trailer_missing_; }
  void StartOver();

  // REQUIRES: complete. The only way to good bytes: puts the end blocks' bytes in place when all is verified.
  Status Conclude(const Expected& expected, ReadPastLease policy, int64_t now_ms);
  // The verified trailer, when this plan read it; else nullptr.
  TrailerCache::Sums new_trailer() const { return new_trailer_; }

 private:
  // Consecutive whole blocks on their way into one piece of memory.
  struct Run {
    uint64_t offset = 0;  // in the value; a block's border
    std::span<std::byte> memory;
    std::unique_ptr<RunHasher> hasher;
  };
  // Part of an end block that is wanted.
  struct Edge {
    Buffer block;
    uint64_t from = 0;  // within the block
    std::span<std::byte> target;
  };

  void AddRun(uint64_t offset, std::span<std::byte> memory);
  Status AddEdge(uint64_t block, uint64_t from, std::span<std::byte> target, BufferCache* buffers);
  uint64_t AddRunPart(const Source& source, const Run& run, uint64_t offset, uint64_t length,
                      std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers) const;
  uint64_t AddTrailer(const Source& source, std::vector<transfer::Operation>* operations);

  uint64_t size_ = 0;
  std::vector<Run> runs_;  // in order; their blocks are consecutive
  std::vector<Edge> edges_;
  bool needs_trailer_ = false, trailer_missing_ = false;
  std::vector<uint64_t> trailer_;  // as the replica says, little-endian
  TrailerCache::Sums known_trailer_, new_trailer_;

  size_t run_ = 0;  // the first run with bytes missing, and where in it they start
  uint64_t run_offset_ = 0;
  size_t step_run_ = 0;  // where the step under way ends
  uint64_t step_offset_ = 0;
  uint64_t arrived_bytes_ = 0;
};

// One READ or WRITE of a piece of a replica.
transfer::Operation PieceOperation(transfer::OpKind kind, const Source& source, uint64_t place_offset,
                                   std::span<std::byte> memory, transfer::PieceObserver* observer);

}  // namespace tiercel::client
