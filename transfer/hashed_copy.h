// The copy behind local and shared-memory operations: hashed on the way, block by block of the operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checksum.h"
#include "tiercel/limits.h"

namespace tiercel::transfer {

// Copies n bytes that begin at `operation_offset` of an operation. Calls told(offset, length, sum) after each part;
// parts end at the operation's block borders. Stops before a part when keep_going() is false; returns what is copied.
template <typename KeepGoing, typename Told>
uint64_t HashedCopy(std::byte* target, const std::byte* source, uint64_t n, uint64_t operation_offset,
                    KeepGoing keep_going, Told told) {
  uint64_t done = 0;
  while (done < n && keep_going()) {
    const uint64_t part = std::min(n - done, kBlockBytes - (operation_offset + done) % kBlockBytes);
    told(done, part, CopyAndHash(target + done, source + done, part));
    done += part;
  }
  return done;
}

}  // namespace tiercel::transfer
