// PayloadPort: the way in which the front end reaches payload bytes. Declared here, implemented by the store
// side, so that the front end knows no transport and no tier.
//
// Two kinds of places: segments of this process, whose memory the front end reads and writes directly (under a
// read pin or an open in-process put of the core), and segments of other stores, which are reached through the
// data protocol, asynchronously.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "server/core/types.h"

namespace tiercel::core {

// The memory of a segment of this process. `memory` is a memfd that holds the bytes at the same offsets, for
// sendfile; -1 when there is none. Valid as long as the segment's epoch lives.
struct LocalSegment {
  std::byte* base = nullptr;
  uint64_t size = 0;
  int memory = -1;
};

// One replica of one version, and how its store is reached.
struct RemotePlace {
  StoreInfo store;
  Grant grant;
};

class PayloadPort {
 public:
  virtual ~PayloadPort() = default;

  // Thread-safe, lock-free in effect; nullptr when the segment is not of this process or its epoch is old.
  virtual const LocalSegment* FindLocal(Incarnation store, SegmentRef place) const = 0;

  // Handle of a running transfer; destroying it cancels, and waits until `memory` cannot be touched any more.
  class Transfer {
   public:
    virtual ~Transfer() = default;
  };
  // Called once, on an unspecified thread, when the memory cannot be touched any more.
  using Done = std::function<void(Status)>;

  // Reads bytes [offset, offset + memory.size()) of the replica (value and trailer laid end to end).
  virtual std::unique_ptr<Transfer> Read(const RemotePlace& place, uint64_t offset, std::span<std::byte> memory,
                                         int64_t timeout_ms, Done done) = 0;
  virtual std::unique_ptr<Transfer> Write(const RemotePlace& place, uint64_t offset, std::span<const std::byte> memory,
                                          int64_t timeout_ms, Done done) = 0;
};

}  // namespace tiercel::core
