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
#include <utility>

#include "base/extent_allocator.h"
#include "server/core/types.h"
#include "tiercel/result.h"

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

  // One write of this process into a local segment. While it lives, the store does not answer the put as closed,
  // and nobody else is let into its ranges: the memory is the writer's until this is destroyed.
  class LocalWrite {
   public:
    LocalWrite() = default;
    LocalWrite(PayloadPort* port, SegmentRef place, Version put, ExtentList extents)
        : port_(port), place_(place), put_(put), extents_(std::move(extents)) {}
    LocalWrite(LocalWrite&& other) noexcept
        : port_(std::exchange(other.port_, nullptr)),
          place_(other.place_),
          put_(other.put_),
          extents_(std::move(other.extents_)) {}
    LocalWrite& operator=(LocalWrite&& other) noexcept {
      if (this != &other) {
        End();
        port_ = std::exchange(other.port_, nullptr);
        place_ = other.place_;
        put_ = other.put_;
        extents_ = std::move(other.extents_);
      }
      return *this;
    }
    ~LocalWrite() { End(); }
    // The bytes are written, or never will be. Idempotent.
    void End() {
      if (PayloadPort* port = std::exchange(port_, nullptr)) port->EndLocalWrite(place_, put_, extents_);
    }

   private:
    PayloadPort* port_ = nullptr;
    SegmentRef place_;
    Version put_;
    ExtentList extents_;
  };

  // Asked before the first byte of a put is written into a local segment. kStalePut: the store has closed the put;
  // kInUse: a view (or read) still holds some of the range: the replica failed with that reason.
  virtual Result<LocalWrite> BeginLocalWrite(SegmentRef /*place*/, Version /*put*/, const ExtentList& /*extents*/) {
    return LocalWrite();
  }

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

 protected:
  virtual void EndLocalWrite(SegmentRef /*place*/, Version /*put*/, const ExtentList& /*extents*/) {}
};

}  // namespace tiercel::core
