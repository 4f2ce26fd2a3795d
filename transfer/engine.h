// Engine: moves bytes between this process's memory and segments of stores. Knows no keys and no objects.
//
// An operation is a READ or WRITE of one range of one segment, carries a grant, and names the peer. Operations
// are submitted in a batch, cut into slices, and posted to the transport and rail that would finish them soonest;
// a failed slice goes elsewhere (within `max_switches`). A batch is terminal only when nothing can touch the
// caller's memory any more; each operation then has its own result with exact byte counts, reported once.
//
// Threads: everything is thread-safe. A thread that waits drives the sockets itself (no hand-over to another
// thread on the way); a background thread drives them while nobody waits and something is under way.
//
// Bounds: `inflight_per_rail` slices are on a rail, `queue_per_peer` operations wait at most for a peer; beyond that
// Submit waits `admission_timeout_ms`, then the operation fails with kAdmissionTimeout. Connections are made when a
// peer is first used, `connections_per_peer` at most, re-made with back-off (100 ms, doubled, at most 2 s), never one
// per operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::transfer {

class Transport;

enum class TransportKind : uint8_t { kLocal = 0, kShm = 1, kRdma = 2, kTcp = 3, kFaulty = 4 };
std::string_view TransportName(TransportKind kind);
// A set of transports, as bits of TransportKind.
using TransportMask = uint32_t;
inline constexpr TransportMask kAnyTransport = ~TransportMask{0};
constexpr TransportMask MaskOf(TransportKind kind) { return TransportMask{1} << static_cast<int>(kind); }

// A store as the engine reaches it.
struct PeerAddress {
  std::string name;          // for messages
  Incarnation incarnation;   // a peer that answers with another one is kStaleIncarnation
  std::string data_address;  // host:port or [v6]:port; may be empty
  std::string data_socket;   // path; empty: not on this host
};
struct PeerHandle {
  uint64_t id = 0;
};

enum class OpKind : uint8_t { kRead, kWrite };

// Sees the bytes of an operation in pieces as they arrive or leave, while they are in cache, on the driving
// thread. Pieces of one operation never repeat, unless Restart says that [offset, offset+length) comes again.
class PieceObserver {
 public:
  virtual ~PieceObserver() = default;
  virtual void OnPiece(uint64_t offset_in_operation, std::span<const std::byte> piece) = 0;
  virtual void OnRestart(uint64_t offset_in_operation, uint64_t length) = 0;
  // The owner hashed the range while it copied it (shm puts): XXH3-64 of a range that is one piece.
  virtual void OnHashed(uint64_t offset_in_operation, uint64_t length, uint64_t sum) = 0;
};

struct Operation {
  OpKind kind = OpKind::kRead;
  PeerHandle peer;
  SegmentRef place;
  uint64_t offset = 0;          // in the segment
  std::span<std::byte> memory;  // source of a write (not modified) or sink of a read; length > 0
  std::shared_ptr<const Grant> grant;
  PieceObserver* observer = nullptr;  // must outlive the batch
  bool registered = true;             // false: memory may be unregistered (bounced where a wire needs registration)
  uint8_t priority = 0;
};

struct OpResult {
  enum class State : uint8_t { kPending, kOk, kFailed, kCancelled };
  State state = State::kPending;
  uint64_t bytes = 0;                     // moved
  ErrorCode code = ErrorCode::kInternal;  // when failed
  std::string message;
  TransportKind transport = TransportKind::kTcp;  // that finished it
};

struct SubmitOptions {
  int64_t timeout_ms = 10'000;  // deadline of the whole batch
  TransportMask transports = kAnyTransport;
  int max_switches = 2;  // to other transports or rails, per operation
  // When every path to the peer has been down for this long, an operation that is not under way fails with
  // kUnreachable and need not wait for the deadline (there are other replicas). -1: waits for the peer.
  int64_t unreachable_after_ms = -1;
  // That time may have passed before the batch was submitted: a peer that is known to be down is not waited for.
  bool elsewhere = false;
};

// Owned by its caller. Destroying it cancels what is unfinished and waits until it is terminal.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual bool terminal() const = 0;
  // Until terminal or the time is over (then kDeadline, and the batch is still under way). -1: no limit.
  virtual Status Wait(int64_t timeout_ms = -1) = 0;
  virtual void Cancel() = 0;  // asks; terminal comes when nothing can touch memory any more
  virtual size_t size() const = 0;
  virtual OpResult result(size_t i) const = 0;  // kPending until this operation is terminal
  virtual bool all_ok() const = 0;
  // Called once when terminal, on the thread that finished it (or here, when it already is).
  virtual void OnTerminal(std::function<void()> callback) = 0;
};

// Memory that wires may read or write; released by its destructor (after what uses it has ended).
class Registration {
 public:
  virtual ~Registration() = default;
};

struct EngineOptions {
  uint64_t slice_bytes = 1 << 20;
  uint32_t connections_per_peer = 2;
  uint32_t queue_per_peer = 4096;   // operations that wait, whole or in part, for a place on a rail
  uint32_t inflight_per_rail = 64;  // slices on one rail at a time; the queue begins behind them
  uint64_t inflight_bytes_per_rail = 16 << 20;
  uint64_t stripe_bytes = 8 << 20;  // another connection is opened when each has this much under way
  uint32_t max_ops_per_batch = 8192;
  int64_t admission_timeout_ms = 1000;
  int64_t connect_timeout_ms = 3000;
  int64_t status_timeout_ms = 2000;  // hand-shake, refusals
  int64_t rail_window_ms = 5000;     // errors counted within this
  uint32_t rail_error_limit = 5;     // then the rail is paused
  int64_t rail_pause_first_ms = 10;  // doubled each time that it fails again
  int64_t rail_pause_cap_ms = 5000;
  int64_t backoff_first_ms = 100;  // pause before a peer that cannot be reached is tried again; doubled each time
  int64_t backoff_cap_ms = 2000;
  std::vector<TransportKind> preference = {TransportKind::kLocal, TransportKind::kShm, TransportKind::kRdma,
                                           TransportKind::kTcp};
  double jitter = 0.2;
  const Clock* clock = nullptr;  // nullptr: the machine's
};

struct TransportFigures {
  TransportKind kind{};
  uint64_t operations_ok = 0, operations_failed = 0;  // logical
  uint64_t attempts = 0, attempts_failed = 0;         // slices posted
  uint64_t bytes_read = 0, bytes_written = 0;         // of operations that ended well
  uint64_t connects = 0, reconnects = 0, queue_full = 0, admission_timeouts = 0;
};

class Engine {
 public:
  // Opens a connection's ticket: asked whenever a connection is made, never on the data path.
  using TicketSource = std::function<Result<Ticket>()>;

  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                std::vector<std::unique_ptr<Transport>> transports,
                                                TicketSource tickets);
  virtual ~Engine() = default;  // cancels all; each operation ends once, with kShutdown

  // All ranges on all transports, or none (kOverlap, kNoMemory naming the transport).
  virtual Result<std::unique_ptr<Registration>> Register(std::span<const std::span<std::byte>> regions) = 0;
  // Memory that transports like best (shared memory where there is any), registered.
  virtual Result<std::span<std::byte>> AllocateRegistered(size_t bytes) = 0;
  virtual void FreeRegistered(std::span<std::byte> memory) = 0;

  // Known peers are found again by name and incarnation. Does not connect.
  virtual PeerHandle AddPeer(const PeerAddress& address) = 0;
  // Connects now, so that the first operation need not: for tests and warm-up.
  virtual Status Connect(PeerHandle peer, int64_t timeout_ms) = 0;

  // kTooManyOps, kInvalid: nothing was submitted. Else every operation has its own result.
  virtual Result<std::unique_ptr<Batch>> Submit(std::vector<Operation> operations, const SubmitOptions& options) = 0;

  // A pinned, read-only view of a range by shared memory: valid until the handle is destroyed. The bytes do not
  // change meanwhile, whatever happens to the object. kNoDevice when the peer is not on this host.
  class View {
   public:
    virtual ~View() = default;
    virtual std::span<const std::byte> bytes() const = 0;
    virtual bool alive() const = 0;  // false when the store's process has gone (bytes stay mapped)
  };
  virtual Result<std::unique_ptr<View>> MapView(PeerHandle peer, SegmentRef place, Extent range,
                                                std::shared_ptr<const Grant> grant, int64_t timeout_ms) = 0;

  virtual std::vector<TransportFigures> Figures() const = 0;
};

}  // namespace tiercel::transfer
