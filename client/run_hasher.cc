#include "client/run_hasher.h"

#include <algorithm>

namespace tiercel::client {

void RunHasher::Feed(uint64_t offset, std::span<const std::byte> piece) {
  std::lock_guard lock(mutex_);
  hasher_.Feed(offset, piece);
}

void RunHasher::Known(uint64_t offset, uint64_t length, uint64_t sum) {
  const bool one_block = offset % kBlockBytes == 0 && length == std::min(kBlockBytes, bytes_ - offset);
  if (!one_block) return;
  std::lock_guard lock(mutex_);
  hasher_.SetBlock(offset / kBlockBytes, sum);
}

void RunHasher::Again(uint64_t offset, uint64_t length) {
  if (length == 0) return;
  std::lock_guard lock(mutex_);
  for (uint64_t block = offset / kBlockBytes; block <= (offset + length - 1) / kBlockBytes; ++block) {
    hasher_.ResetBlock(block);
  }
}

}  // namespace tiercel::client
