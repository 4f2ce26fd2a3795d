// Parts of the master's state, and the bounds of what no option bounds. See impl.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/object_table.h"
#include "server/core/types.h"

namespace tiercel::core {

// Bounds of what is not bounded by an option.
inline constexpr size_t kMaxStores = 4096;
inline constexpr size_t kMaxSegmentsPerStore = 1024;
inline constexpr size_t kMaxNameBytes = 256;  // stores, segments, hosts, groups
inline constexpr size_t kMaxEvents = 65'536;
inline constexpr uint32_t kMaxWorkPerStore = 16'384;
inline constexpr size_t kClosesPerItem = 1024;
inline constexpr uint32_t kSyncReclaim = 1024;     // objects that a flush takes apart at once
inline constexpr uint32_t kRenewedPerCall = 8192;  // leased objects that one call puts back into the ring
inline constexpr uint32_t kVictimsPerPut = 4096;   // that one PUTSTART evicts at most
inline constexpr int64_t kKeyLifeMs = 3600'000;
inline constexpr uint32_t kTableRetries = 128;        // of RandomKey
inline constexpr size_t kMaxSegmentNumbers = 65'536;  // that one incarnation of a store may use up

// Why an object is unlinked.
enum class Why : uint8_t { kDeleted, kReplaced, kEvicted, kExpired, kLost, kFlushed };

// The keys of a namespace, from its first put to its next flush.
struct NameTable {
  NameTable(PagePool* pool, uint32_t name_space_in) : table(pool), name_space(name_space_in) {}
  ObjectTable table;
  uint32_t name_space;
  bool attached = true;   // false: flushed, being taken apart
  bool gated = false;     // until the flush is durable nothing of it may be given up
  uint32_t hint = 0;      // where taking apart is
  uint64_t recorded = 0;  // objects with a record
};

// Reads of a version that run in this process.
struct Pin {
  uint32_t count = 0;
  uint32_t object = 0;  // 0: its record is gone
  uint32_t held = 0;    // chain of space that waits
};

// Work for a store that it has to answer.
struct Task {
  WorkItem::Kind kind = WorkItem::Kind::kVerify;
  StoreSlot store = 0;
  bool sent = false;
  Version version;    // kVerify
  uint64_t hash = 0;  // kVerify
  uint32_t name_space = 0;
  std::string key;
  SegmentRef place;         // kVerify, kDrop
  uint32_t key_number = 0;  // kKeys
};

struct TierState {
  std::vector<uint32_t> segments;       // serving
  uint64_t configured = 0, usable = 0;  // all serving segments; those that can be read
  uint64_t soft_pinned_bytes = 0, hard_pinned_bytes = 0;
  uint64_t hard_pin_reserved = 0;  // by puts in flight
  uint64_t soft_pinned_objects = 0;
  uint64_t evict_left = 0;  // of the running round
};

// What a put asks of the places for its replicas.
struct PlaceRequest {
  uint64_t size = 0;
  Tier tier = Tier::kDram;
  uint32_t replicas = 1;
  bool strict = false, in_process = false;
  std::string_view prefer, exclude;
};

// A segment that may get one.
struct Candidate {
  uint32_t segment;
  uint32_t host;
  uint64_t free, size;
  uint8_t rank;  // 0: asked for by name; 1: on that host; 2: any
  bool spent;
};

// What one run of eviction did.
struct Evicted {
  uint64_t bytes = 0;
  uint32_t victims = 0;
  uint32_t looked_at = 0;
  uint32_t renewed = 0;  // leased ones put back into the ring
  bool cut_off = false;  // as many as a run may: another one goes on
};

}  // namespace tiercel::core
