// Puts in flight, found by id, by key and by connection, in the order of their last sign of life; and what became of
// the newest ones that have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/flat_map.h"
#include "server/core/object.h"
#include "server/core/slab.h"

namespace tiercel::core {

struct PutReplica {
  uint32_t segment = 0;
  ExtentList extents;     // as allocated
  bool unpinned = false;  // its store reported a range of it as not in use any more
};

struct Put {
  uint32_t next = 0;  // slab
  uint64_t version = 0;
  uint64_t hash = 0;
  uint64_t size = 0;
  uint64_t user = 0;
  ConnectionId connection = 0;
  uint32_t name_space = 0;
  uint32_t key = 0;
  uint16_t key_size = 0;
  bool orphan = false, in_process = false, hard_pin = false;
  Tier tier = Tier::kDram;
  int64_t started_ms = 0;
  int64_t last_sign_ms = 0;
  int64_t expire_at_ms = 0;
  int64_t soft_pin_ms = 0;
  uint64_t parent_hash = 0;
  int priority = 0;
  std::string group;
  std::vector<PutReplica> replicas;
  uint64_t pin_budget_bytes = 0;
  // Neighbours: of the same connection; by last sign of life; with the same hash.
  uint32_t connection_previous = 0, connection_next = 0;
  uint32_t older = 0, newer = 0;
  uint32_t same_hash = 0;
};

class PutTable {
 public:
  Put& operator[](uint32_t slot) { return puts_[slot]; }
  const Put& operator[](uint32_t slot) const { return puts_[slot]; }

  // A cleared put, not yet found by anything.
  uint32_t Allocate();
  // Makes it found. REQUIRES: version, hash, connection and last_sign_ms are set.
  void Enter(uint32_t slot);
  // Takes it out; its slot stays valid until Free.
  void Leave(uint32_t slot);
  // Its connection is gone.
  void Orphan(uint32_t slot) {
    orphans_ += puts_[slot].orphan ? 0 : 1;
    puts_[slot].orphan = true;
  }
  uint64_t orphans() const { return orphans_; }
  void Free(uint32_t slot);

  uint32_t FindVersion(uint64_t version) const;
  template <typename Match>
  uint32_t FindHash(uint64_t hash, Match&& match) const {
    const uint32_t* head = by_hash_.Find(hash);
    uint32_t slot = head == nullptr ? 0 : *head;
    while (slot != 0 && !match(puts_[slot])) slot = puts_[slot].same_hash;
    return slot;
  }
  // First put of the connection; follow connection_next.
  uint32_t FirstOf(ConnectionId connection) const;
  uint32_t CountOf(ConnectionId connection) const;
  // A sign of life.
  void Touch(uint32_t slot, int64_t now_ms);
  uint32_t oldest() const { return oldest_; }  // least recent sign of life; 0: none

  uint64_t size() const { return puts_.used(); }
  uint32_t end() const { return puts_.end(); }
  uint64_t memory_bytes() const;

  // ---- those that ended
  struct Ended {
    uint64_t version = 0;
    uint64_t user = 0;
    Seq seq = 0;             // what its answer waits for
    uint32_t published = 0;  // replicas; 0: it failed
  };
  // A put of which PUTEND may ask again. Overwrites what ended kRemembered versions ago.
  void Remember(const Ended& ended);
  void ForgetEnded(uint64_t version);
  const Ended* FindEnded(uint64_t version) const;

 private:
  static constexpr uint32_t kRemembered = 65'536;
  static constexpr uint32_t kEndedChunk = 1024;
  struct Connection {
    uint32_t first = 0, count = 0;
  };

  void LinkNewest(uint32_t slot);
  void UnlinkOrder(uint32_t slot);

  Slab<Put, 64 * 1024> puts_;
  FlatMap<uint32_t> by_version_, by_hash_;
  FlatMap<Connection> connections_;
  uint32_t oldest_ = 0, newest_ = 0;
  uint64_t orphans_ = 0;
  std::vector<std::unique_ptr<Ended[]>> ended_{kRemembered / kEndedChunk};
  uint64_t ended_chunks_ = 0;
};

}  // namespace tiercel::core
