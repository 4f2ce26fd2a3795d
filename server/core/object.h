// What the core keeps for a version that was published, in 128 bytes: the first line is what a look-up needs, the
// second what changes on the way (recency, journal) and what ties it to the side tables.
//
// One replica of one extent, which nearly every object has, stands in the record itself. Several replicas or extents
// are a `Places`; a group, a parent or a soft pin are an `Extra`; both are rare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/extent_allocator.h"
#include "server/core/types.h"

namespace tiercel::core {

enum class ObjectState : uint8_t {
  kFree,
  kLive,      // in its table; whether anyone sees it is a question of liveness (expiry, its stores)
  kUnlinked,  // out of its table, its space DYING; the journal still refers to it
};

enum ObjectFlag : uint8_t {
  kHardPinned = 1,
  kSoftPinned = 2,
  kSuspectReplica = 4,  // of the replica in the record
  kRecorded = 8,        // the index has, or is about to get, a record of it
  kReadPinned = 16,     // BeginRead: see Pin
  kAside = 32,          // taken out of the eviction queue because it is pinned for reading
};

struct Object {
  uint64_t hash = 0;
  uint64_t version = 0;
  uint64_t size = 0;
  uint64_t sum = 0;
  int64_t lease_until_ms = 0;  // boot clock
  int64_t expire_at_ms = 0;    // wall clock; 0: never
  uint64_t offset = 0;         // of the one extent
  uint32_t key = 0;
  uint16_t key_size = 0;
  ObjectState state = ObjectState::kFree;
  uint8_t flags = 0;
  // ---- second line
  uint32_t previous = 0, next = 0;  // in a queue of Recency, or `next` in the slab's list of free records
  uint32_t segment = 0;             // of the first replica
  uint32_t places = 0;              // side table; 0: one replica of at most one extent
  uint32_t table = 0;
  uint32_t extra = 0;  // side table; 0: nothing rare
  Seq seq = 0;         // journal position of its last change
  int64_t created_ms = 0, used_ms = 0;
  uint32_t ttl_place = 0;  // in the heap of times to live
  uint32_t placement = 0;  // see Placements
  uint64_t touch = 0;      // number of its last use among all, see Recency

  bool Has(ObjectFlag flag) const { return (flags & flag) != 0; }
  void Set(ObjectFlag flag, bool on) { flags = static_cast<uint8_t>(on ? flags | flag : flags & ~flag); }
};
static_assert(sizeof(Object) == 128);

// A replica as the core keeps it. Extents are as the allocator gave them: whole granules.
struct Replica {
  uint32_t segment = 0;
  bool suspect = false;
  ExtentList extents;
};

struct Places {
  uint32_t next = 0;
  std::vector<Replica> replicas;
};

struct Extra {
  uint32_t next = 0;
  uint32_t owner = 0;             // the object
  int64_t soft_pin_until_ms = 0;  // boot clock
  uint32_t soft_place = 0;        // in the heap of soft pins
  uint64_t parent_hash = 0;
  int priority = 0;
  std::string group;
};

constexpr uint32_t GranuleOf(uint64_t size) { return size >= kLargeValueBytes ? kLargeGranule : kSmallGranule; }
// What a replica takes out of its segment.
constexpr uint64_t AllocatedBytes(uint64_t size) {
  const uint64_t granule = GranuleOf(size);
  return (StoredBytes(size) + granule - 1) / granule * granule;
}

// What a replica counts against the budget of hard pins: the value's own bytes in whole granules, without its block
// sums, so that a budget of 4 MiB takes a value of 4 MiB.
constexpr uint64_t PinnedBytes(uint64_t size) {
  const uint64_t granule = GranuleOf(size);
  return (size + granule - 1) / granule * granule;
}

// Appends to `out` the extents as readers and writers see them: exactly StoredBytes(size).
inline void TrimExtents(const ExtentList& allocated, uint64_t size, ExtentList* out) {
  uint64_t left = StoredBytes(size);
  for (const Extent& extent : allocated) {
    const uint64_t length = extent.length < left ? extent.length : left;
    if (length == 0) break;
    out->push_back({extent.offset, length});
    left -= length;
  }
}

}  // namespace tiercel::core
