// Block sums of a run of whole blocks, taken while its bytes move; the engine's threads feed it.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "transfer/engine.h"

namespace tiercel::client {

// Offsets are within the run, which starts at a block's border. Thread-safe but for Finish; one thread drives an
// engine's sockets at a time nearly always, so the lock is free in practice.
class RunHasher {
 public:
  explicit RunHasher(uint64_t bytes) : bytes_(bytes), hasher_(bytes) {}

  void Feed(uint64_t offset, std::span<const std::byte> piece);
  // Someone else hashed these bytes while copying them. Taken when they are exactly one block.
  void Known(uint64_t offset, uint64_t length, uint64_t sum);
  // These bytes come again.
  void Again(uint64_t offset, uint64_t length);
  // REQUIRES: nothing feeds any more. `run` is the run's bytes, read for what could not be hashed on the way.
  std::vector<uint64_t> Finish(std::span<const std::byte> run) { return hasher_.Finish(run); }

 private:
  const uint64_t bytes_;
  std::mutex mutex_;
  BlockHasher hasher_;
};

// The observer of one operation that moves part of a run.
class PieceHasher final : public transfer::PieceObserver {
 public:
  PieceHasher(RunHasher* run, uint64_t offset_in_run) : run_(run), offset_(offset_in_run) {}
  void OnPiece(uint64_t offset, std::span<const std::byte> piece) override { run_->Feed(offset_ + offset, piece); }
  void OnRestart(uint64_t offset, uint64_t length) override { run_->Again(offset_ + offset, length); }
  void OnHashed(uint64_t offset, uint64_t length, uint64_t sum) override { run_->Known(offset_ + offset, length, sum); }

 private:
  RunHasher* const run_;
  const uint64_t offset_;
};

}  // namespace tiercel::client
