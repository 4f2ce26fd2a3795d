// Re-hashes one replica in place: block sums against the trailer, the trailer against the object's checksum.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/extent_allocator.h"
#include "server/node/store_target.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::node {

struct VerifyOrder {
  Version version;
  uint32_t name_space = 0;
  std::string key;
  uint64_t size = 0;
  uint64_t sum = 0;
  SegmentRef place;
  ExtentList extents;
};

// Ok: the bytes are this version's. kChecksum, kLength (the extents do not hold that many bytes), the causes of
// refused places, kStaleVersion (being overwritten), kCancelled (`stop` was set: asked once a block).
// A range is in use only while its block is hashed, so that a long check does not keep a place from a new put.
Status VerifyReplica(StoreTarget* target, const VerifyOrder& order, const std::atomic<bool>& stop);

}  // namespace tiercel::node
