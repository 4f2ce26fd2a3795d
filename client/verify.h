// The one gate between bytes that were moved and a caller. Every read ends here: whole values, ranges, batches
// and views; nothing else decides that bytes are good.
//
// What is checked: that all bytes of the blocks that were read arrived, and that their checksums belong to this
// very version of this very key (the object checksum is seeded with namespace and key). A match is right
// whatever the clock says. A mismatch before the lease's deadline is the replica's fault (kChecksum, kLength);
// after it the space may have been given to something else, and nobody is to blame (kLeaseExpired).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tiercel/client.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::client {

// What one version of one key must be. Times are the client's boot clock.
struct Expected {
  Version version;
  uint64_t key_seed = 0;
  uint64_t size = 0;
  uint64_t sum = 0;
  int64_t lease_until_ms = 0;  // counted from before the master was asked
};

// What was read: whole blocks, from `first_block` on.
struct Evidence {
  uint64_t first_block = 0;
  std::span<const uint64_t> sums;     // computed from the bytes that arrived
  std::span<const uint64_t> trailer;  // sums of all blocks as the replica says; empty when `sums` has them all
  uint64_t bytes = 0;                 // of these blocks that arrived
};

Status Verify(const Expected& expected, const Evidence& evidence, ReadPastLease policy, int64_t now_ms);

}  // namespace tiercel::client
