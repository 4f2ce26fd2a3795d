// The interface behind which transports stand: memory registrations, rails, and slices posted to rails.
//
// A transport knows no batches, retries or time-outs; the engine has all of these. A rail is one connection (or
// device path) to one peer. The engine posts slices to it and gets each of them back exactly once.
//
// Threads. Three kinds of calls reach a rail:
//   any thread:  Post, Withdraw, Flush, fd. They may run at the same time as everything else.
//   the driver:  OnEvents, Abandon, Close. The engine has one driver at a time, and no two of these overlap.
//   Finish:      on the driver, or on a thread that waits for the slice's batch; never twice for one slice.
// A rail calls its host on whichever of these threads it is, and never while it holds a lock of its own.
//
// Bounds: the engine posts at most EngineOptions::inflight_per_rail slices at a time; a rail keeps no other queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"
#include "transfer/engine.h"

namespace tiercel::transfer {

// Bytes of an operation that pass through a processor's cache at once.
inline constexpr size_t kPieceBytes = 256 * 1024;

// Memory that a transport knows: registered with a device, or shared with stores. Its destructor takes that back.
class MemoryRegion {
 public:
  virtual ~MemoryRegion() = default;
  std::span<std::byte> memory;
};

// Keeps a range of a mapped segment in place until it is destroyed.
class ViewPin {
 public:
  virtual ~ViewPin() = default;
  virtual bool alive() const = 0;
  // Before its destruction: the peer need not be told at once. Whoever says so calls Rail::Flush soon afterwards.
  virtual void LetGoLazily() {}
  std::span<const std::byte> bytes;
};

class Rail;
struct OpState;  // the engine's
struct Slot;     // the engine's

// A part of an operation, posted to one rail. Owned by the engine; it stays in place, and its fields up to `serial`
// do not change, from Post until the rail has given it back through RailHost::OnSliceDone.
struct Slice {
  OpKind kind = OpKind::kRead;
  bool view = false;  // pin the range instead of copying it; `memory` is null
  SegmentRef place;
  uint64_t offset = 0;  // in the segment
  std::byte* memory = nullptr;
  uint64_t length = 0;
  uint64_t op_offset = 0;          // where the slice begins in its operation
  const Grant* grant = nullptr;    // may be null: the peer refuses it
  MemoryRegion* region = nullptr;  // this transport's registration that holds all of `memory`, when there is one
  uint64_t serial = 0;             // of this posting, never repeated

  // The rail's while it is posted.
  Slice* rail_next = nullptr;
  uint64_t wire_id = 0;
  const std::byte* source = nullptr;  // shared memory: where the bytes of a read lie
  std::unique_ptr<ViewPin> pin;       // result of a view

  // The engine's.
  OpState* op = nullptr;
  Slot* slot = nullptr;
  std::shared_ptr<Rail> rail;
  uint32_t round = 0;      // how often the operation had switched when this was posted
  bool observed = false;   // the observer has seen pieces of it
  bool cold = false;       // the rail had been idle for long when this was posted
  bool finishing = false;  // Finish is about to run, or runs
  Slice* prev = nullptr;
  Slice* next = nullptr;
};

enum class SliceEnd : uint8_t {
  kOk,
  kRefused,    // the peer's own answer: trying elsewhere would not help
  kFailed,     // this posting failed, the rail stands: may be sent again elsewhere
  kLost,       // the rail goes down: may be sent again elsewhere
  kWithdrawn,  // never started, or given up by Abandon
};

struct RailInfo {
  Incarnation incarnation;
  int64_t grant_time_ms = 0;  // the peer's clock for grants at the hand-shake; 0: unknown
  // The peer claims another minor than ours. It must answer its first request within status_timeout_ms, or the rail
  // is closed with this error: what it claims is then not what it speaks.
  std::optional<Error> odd_version;
};

// What a rail tells its engine.
class RailHost {
 public:
  // The connection stands and the hand-shake has begun: its own time-out applies from now.
  virtual void OnRailGreeting(Rail& rail) = 0;
  virtual void OnRailUp(Rail& rail, const RailInfo& info) = 0;
  // Last call of a rail. All its slices have been given back before.
  virtual void OnRailDown(Rail& rail, const Error& error) = 0;
  // `error` is null exactly when the slice ended well or was withdrawn.
  virtual void OnSliceDone(Slice& slice, SliceEnd end, const Error* error) = 0;
  virtual void OnPiece(Slice& slice, uint64_t offset_in_slice, std::span<const std::byte> piece) = 0;
  virtual void OnHashed(Slice& slice, uint64_t offset_in_slice, uint64_t length, uint64_t sum) = 0;
  // Tell OnEvents when the descriptor can be written, or no longer.
  virtual void WantWrite(Rail& rail, bool want) = 0;
  // What is left of this slice is processor work: have Finish called by whoever waits for it.
  virtual void Defer(Rail& rail, Slice& slice) = 0;

 protected:
  ~RailHost() = default;
};

class Rail {
 public:
  virtual ~Rail() = default;

  // Valid until Close; -1 for a rail without one. The engine waits for reading at all times, for writing from the
  // start until the rail says otherwise.
  virtual int fd() const = 0;
  // Called once, after the engine knows the rail. May call OnRailUp.
  virtual void Start() {}

  // Takes the slices; each comes back through OnSliceDone, possibly before this returns.
  virtual void Post(std::span<Slice* const> slices) = 0;
  // True, and the slice has come back as withdrawn, when nothing of it was sent yet. Both arguments name it: the
  // slice may have come back, and even been posted again, since the caller looked.
  virtual bool Withdraw(const Slice* slice, uint64_t serial) = 0;

  // Sends what was left for whatever goes out next.
  virtual void Flush() {}

  virtual void OnEvents(bool readable, bool writable) = 0;
  // Gives the slice back as withdrawn, so that nothing can touch its memory any more. Where that takes closing the
  // connection, it is closed (and other slices on it come back as lost). No effect when it has come back already.
  virtual void Abandon(const Slice* slice, uint64_t serial, const Error& why) = 0;
  // Idempotent. All slices come back as lost with this error.
  virtual void Close(const Error& error) = 0;
  // Ends a slice that was deferred. Not called once the slice was abandoned, and no Abandon comes once it was called.
  virtual void Finish(Slice& slice) { (void)slice; }

  uint64_t cookie = 0;  // the engine's name for it
};

struct OpenRequest {
  PeerAddress address;
  Ticket ticket;
};

struct TransportLimits {
  uint64_t max_registration_bytes = 0;  // of one device registration; 0: any
  uint64_t remote_seam_bytes = 0;       // no slice crosses a multiple of this in a segment; 0: none
  uint32_t max_rails = 0;               // to one peer; 0: what the engine's options say
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual TransportKind kind() const = 0;
  virtual TransportLimits limits() const { return {}; }
  virtual bool can_view() const { return false; }
  // Whether the peer has an address for this transport.
  virtual bool Reaches(const PeerAddress& address) const = 0;

  // One registration, at most limits().max_registration_bytes. A transport that needs none gives an empty region.
  virtual Result<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory);
  // Memory that this transport likes best; kNoDevice when it has no preference.
  virtual Result<std::unique_ptr<MemoryRegion>> Allocate(size_t bytes);

  // Begins to connect. Must not block (but for a moment, when a host's name is new); what takes time is done in
  // OnEvents. kNoDevice: this path cannot be used. The host outlives the rail's Close.
  virtual Result<std::shared_ptr<Rail>> Open(const OpenRequest& request, RailHost* host) = 0;
};

}  // namespace tiercel::transfer
