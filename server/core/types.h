// Vocabulary of the master's core: what callers hand in and get back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/extent_allocator.h"
#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::core {

// A connection of the front end. Never reused within a run; 0 is the server itself.
using ConnectionId = uint64_t;
// Position in the journal; 0 is "nothing to wait for".
using Seq = uint64_t;
using StoreSlot = uint32_t;

struct Caller {
  uint64_t user = 0;  // UserId(name)
  ConnectionId connection = 0;
};

struct KeyRef {
  uint32_t name_space = 0;
  std::string_view key;
  uint64_t hash = 0;  // KeySeed(name_space, key): the table's hash and the object checksum's seed
  uint32_t hint = 0;  // where Prefetch found a record; the core looks whether it is still this key's. 0: nowhere
};
inline KeyRef MakeKey(uint32_t name_space, std::string_view key) {
  return {name_space, key, KeySeed(name_space, key), 0};
}

struct ReplicaInfo {
  Tier tier = Tier::kDram;
  bool suspect = false;  // its store is silent, or a reader called it bad: offered last
  StoreSlot store = 0;
  SegmentRef place;
  ExtentList extents;  // their bytes sum to StoredBytes(size) exactly; none for an empty value
};

// ---- puts

struct PutOptions {
  bool replace = false;
  uint32_t replicas = 1;
  bool strict = false;  // fewer hosts than replicas is an error
  Tier tier = Tier::kDram;
  std::string_view prefer;   // store name
  std::string_view exclude;  // store name
  std::optional<std::string_view> parent;
  std::string_view group;
  std::optional<int64_t> expire_at_ms;  // wall clock
  std::optional<int64_t> soft_pin_ms;   // runs from PUTEND; 0 is no pin
  bool hard_pin = false;
  int priority = 0;
  // The writer sits in this process and writes only into segments marked `in_process`: none other is planned.
  bool in_process = false;
};

enum class PutOutcome { kCreated, kExists, kBusy };

struct PutPlan {
  PutOutcome outcome = PutOutcome::kCreated;
  Version put;                        // created: its id; exists: the version; busy: the put in flight
  int64_t deadline_ms = 0;            // created: ms from now without a sign of life
  std::vector<ReplicaInfo> replicas;  // created
  uint64_t size = 0, sum = 0;         // exists
  int64_t age_ms = 0;                 // busy
};

struct ReplicaFailure {
  uint32_t index = 0;  // into the plan's replicas
  ErrorCode reason = ErrorCode::kUnreachable;
};

// ---- look-ups

struct LookupOptions {
  bool lease = true;
  std::optional<int64_t> lease_ms;  // default lease-ttl, at most lease-max
  std::optional<Tier> tier;         // only replicas of this tier
  bool from_exists = false;         // EXISTS: half of the cap, and only if exists-grants-lease
  bool touch = true;                // counts as a use for eviction
};

struct ObjectInfo {
  Version version;
  uint64_t size = 0;
  uint64_t sum = 0;
  int64_t lease_ms = 0;               // what is left of the object's deadline after this look-up; 0: none granted
  int64_t expire_at_ms = 0;           // wall clock; 0: never
  std::vector<ReplicaInfo> replicas;  // best first for nobody in particular; the front end sorts for its caller
};

// ---- stores

struct StoreInfo {
  enum class State : uint8_t { kJoining, kServing, kSuspect, kAway, kLeaving, kGone };
  std::string name;
  Incarnation incarnation;
  std::string storage_id;
  std::string host;          // "location host=": replicas of one object go to distinct hosts
  std::string data_address;  // host:port, [v6]:port
  std::string data_socket;   // path, or empty
  State state = State::kJoining;
  uint32_t proto_min = 0, proto_max = 0;
  int64_t last_heard_ms = 0;  // boot clock
  bool in_process = false;
  uint64_t user = 0;            // who joined it
  ConnectionId connection = 0;  // on which it joined last
};

struct StoreJoinRequest {
  StoreInfo store;
  uint64_t generation_seen = 0;
  ConnectionId connection = 0;
};
struct StoreJoinReply {
  StoreSlot slot = 0;
  uint64_t generation = 0;
  std::vector<GrantKey> keys;  // newest first; secret
  std::vector<GrantKey> ticket_keys;
  Version floor;
  int64_t time_ms = 0;
  int64_t ping_ms = 0;
};

struct SegmentJoin {
  Tier tier = Tier::kDram;
  uint32_t id = 0;
  std::string name;  // unique in the cluster
  uint32_t epoch = 0;
  uint64_t size = 0;
  bool outlives_master = true;  // its bytes survive the master's process: its objects get index records
  bool in_process = false;
};

// Work that a store fetches. id 0 needs no DONE of its own (CLOSE is answered by CLOSED).
struct WorkItem {
  enum class Kind : uint8_t { kClose, kVerify, kDrop, kKeys };
  uint64_t id = 0;
  Kind kind = Kind::kClose;
  std::vector<Version> puts;  // kClose
  Version version;            // kVerify
  uint32_t name_space = 0;
  std::string key;
  uint64_t size = 0, sum = 0;
  ReplicaInfo source;                       // kVerify
  SegmentRef segment;                       // kDrop
  std::vector<GrantKey> keys, ticket_keys;  // kKeys
};

struct WorkAnswer {
  Version floor;
  int64_t time_ms = 0;
  std::vector<WorkItem> items;
};

// ---- figures

// Bytes of a segment by state (PROTOCOL: from free to free). Their sum is the segment's size, always.
struct SpaceBytes {
  uint64_t free = 0, reserved = 0, fencing = 0, live = 0, dying = 0, parked = 0;
  uint64_t total() const { return free + reserved + fencing + live + dying + parked; }
  uint64_t quarantined() const { return fencing + dying + parked; }
  SpaceBytes& operator+=(const SpaceBytes& o) {
    free += o.free, reserved += o.reserved, fencing += o.fencing;
    live += o.live, dying += o.dying, parked += o.parked;
    return *this;
  }
};

struct SegmentInfo {
  Tier tier = Tier::kDram;
  StoreSlot store = 0;
  SegmentRef place;
  std::string name;
  uint64_t size = 0;
  SpaceBytes bytes;
  bool allocatable = false;
  bool expected = false;  // known from the index, and not named by its store yet: nothing of it can be read
};

struct TierFigures {
  Tier tier = Tier::kDram;
  uint64_t configured = 0, usable = 0;  // all segments; those of serving stores
  SpaceBytes bytes;
  uint64_t leased = 0, lease_cap = 0;
  uint64_t soft_pinned = 0, hard_pinned = 0, hard_pin_budget = 0;
  uint64_t objects = 0;
  uint64_t high_watermark = 0, low_watermark = 0;  // bytes
};

}  // namespace tiercel::core
