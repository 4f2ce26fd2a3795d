// The journal's records and the index behind it, as the core sees them.
//
// Keyed by version. A replace is kPut(new) and kDelete(old) in one command, never split over two batches.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/core/types.h"

namespace tiercel::core {

struct Record {
  enum class Kind : uint8_t { kPut, kDelete, kSegment, kStore, kGeneration, kNamespace };
  // Replicas and segments name stores by slot, so a slot's kStore record comes before (or in the same command as) the
  // first record that names it, and the slot goes to another storage id only when no record names it any more.
  Seq seq = 0;  // all records of one command carry the same seq
  Kind kind = Kind::kPut;
  Version version;  // kPut, kDelete
  uint32_t name_space = 0;
  std::string key;
  uint64_t size = 0, sum = 0;
  uint32_t flags = 0;
  int64_t expire_at_ms = 0;
  int64_t soft_pin_until_ms = 0;  // wall clock
  uint64_t parent_hash = 0;
  std::vector<ReplicaInfo> replicas;  // kPut: those that outlive the master's process
  std::string name;                   // kSegment, kStore
  uint64_t number = 0;                // kGeneration; kNamespace: flush floor; kPut: the floor that it survived
  bool again = false;                 // kPut: this version has a record already, which is replaced
  bool gone = false;                  // kSegment, kStore: is no more; only what names it counts
  StoreSlot store = 0;                // kSegment: whose; kStore: its own
  Tier tier = Tier::kDram;            // kSegment, whose `size` is the segment's
  SegmentRef place;                   // kSegment
  std::string storage_id, host;       // kStore
  Incarnation incarnation;            // kStore: the last one known
};

// Where records become durable. Called by the committer's thread alone, never under the core's lock.
class Index {
 public:
  virtual ~Index() = default;
  // False: records need not be made at all (nothing is kept).
  virtual bool keeps_records() const = 0;
  // One atomic batch in order; returns when it is in the write-ahead log.
  virtual Status Write(std::span<const Record> batch) = 0;
  // After a failed Write: tries to become writable again.
  virtual Status Resume() = 0;
};

}  // namespace tiercel::core
