// A segment's space: who may touch which bytes, from free to free.
//
//   FREE     -reserved for a put->            RESERVED
//   RESERVED -published->                     LIVE
//   RESERVED -failed, revoked, taken over, timed out->  FENCING
//   RESERVED -the store refused: in use->     PARKED
//   LIVE     -deleted, evicted, replaced->    DYING       (back to LIVE when the journal undoes it)
//   LIVE     -its publication was undone->    FENCING
//   FENCING  -the store closed the put->      FREE
//   DYING    -unlinking durable, lease past, put closed, reads ended->  FREE
//   PARKED   -the store reports the range unpinned->    FENCING
//
// There is one function that moves bytes between states, and it knows no other ways. What waits is a `Held`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/extent_allocator.h"
#include "server/core/types.h"

namespace tiercel::core {

enum class SpaceState : uint8_t { kFree, kReserved, kLive, kFencing, kDying, kParked };

// Bytes that are neither in use nor free yet, and what they wait for.
struct Held {
  uint32_t next = 0;  // slab; or the next one that waits for the same read or store
  uint32_t segment = 0;
  uint64_t put = 0;
  int64_t until_ms = 0;  // lease; boot clock
  SpaceState state = SpaceState::kDying;
  enum class Waits : uint8_t { kNothing, kJournal, kLease, kReads, kClose, kStore, kUnpin } waits = Waits::kNothing;
  uint32_t place = 0;  // in the heap by until_ms
  ExtentList extents;
  uint64_t bytes = 0;
};

struct Segment {
  enum class Life : uint8_t {
    kUnused,
    kStaged,  // announced, not served yet: its name is taken
    kServing,
    kGone,  // its epoch is over; kept until nothing refers to its number
  };
  Life life = Life::kUnused;
  Tier tier = Tier::kDram;
  StoreSlot store = 0;
  SegmentRef place;
  std::string name;
  uint64_t size = 0;  // whole small granules
  bool outlives_master = false, in_process = false;
  bool expected = false;               // known from the index alone: its store has not named it yet
  bool announced = false;              // named since its store's last join
  bool noted = false;                  // has a record in the index
  bool closed = false;                 // to allocation: until the store has closed the puts of former masters
  std::optional<int64_t> leave_at_ms;  // readable until then, nothing placed there
  bool readable = false;               // serving, and its store is not away

  std::optional<ExtentAllocator> allocator;
  SpaceBytes bytes;
  uint64_t hard_pinned = 0;
  uint32_t placement = 0;        // of the objects that lie here alone
  uint64_t refs = 0;             // replicas, of objects, puts and Held, that name it
  std::vector<uint32_t> parked;  // Held

  // Moves bytes from one state to another; stops the process on a transition that does not exist.
  void Move(SpaceState from, SpaceState to, uint64_t bytes_moved);
  void CheckSum() const;
};

}  // namespace tiercel::core
