// IncomingValue: a value on its way from a client into a reserved place, hashed as it arrives.
//
// It reserves (waiting for space or for another put of the key where that helps), takes the bytes straight from the
// socket into the segment of this process, or through a window of chunks to another store's, and ends sealed: bytes
// and trailer written, object checksum known, nothing published. The command then publishes it with PutEnd, when its
// options (which come behind the value) say so; otherwise it is revoked. What cannot be placed is read and dropped,
// and error() says why.
//
// Belongs to its session's loop. Memory: none for a local place; kChunks chunks of one block for a remote one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "server/core/master.h"
#include "server/core/payload_port.h"
#include "server/net/master_host.h"

namespace tiercel::net {

class RemoteTransfer;
class Worker;

// Where the bytes go.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  // Where the next bytes are to be put; empty: not now, a transfer is awaited.
  virtual std::span<std::byte> Room() = 0;
  // The first n bytes of Room were filled.
  virtual void Filled(size_t n) = 0;
  // After the last byte: nothing when all is in place, else still under way. Fails for good with an error.
  enum class End { kPending, kDone, kFailed };
  virtual End Finish() = 0;
  virtual bool failed() const { return false; }
  virtual Error failure() const { return Error(ErrorCode::kInternal, "no failure"); }
  // The put is settled: nothing is written any more.
  virtual void Close() {}
};

class IncomingValue {
 public:
  IncomingValue(Worker* worker, core::ConnectionId session, size_t argument, uint32_t name_space, std::string_view key,
                uint64_t size);
  ~IncomingValue();  // REQUIRES: published, revoked or failed

  enum class State {
    kReserving,  // Reserve must be called
    kReceiving,  // Room() and Received()
    kDropping,   // no place: Received() only counts
    kFlushing,   // all bytes are here; the last transfers are under way
    kSealed,     // put() can be published
  };
  State state() const { return state_; }

  // Under the lock. nullopt: the state has changed; else what to wait for, unless `last_try`.
  std::optional<WakeReason> Reserve(core::Master& master, const core::Caller& caller, Times now, bool last_try);
  // How long Reserve may wait in all: a put that another connection of this server receives is waited for longer
  // than space.
  int64_t patience_ms(const core::Options& options, int64_t put_wait_ms) const;

  std::span<std::byte> Room();
  // Bytes that were put at Room (kReceiving) or anywhere (kDropping).
  void Received(size_t n);
  // A transfer ended: goes on. True when the state changed or there is room again.
  void Poll();
  void Fail(Error error);  // drops the rest

  uint64_t remaining() const { return size_ - received_; }
  uint64_t size() const { return size_; }
  size_t argument() const { return argument_; }
  Version put() const { return put_; }
  uint64_t sum() const { return sum_; }
  bool ok() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

  // Under the lock. Ends the put one way or the other; at most one of them, once.
  Status Publish(MasterHost* host, core::Master& master, const core::Caller& caller, Times now);
  void Revoke(MasterHost* host, core::Master& master, const core::Caller& caller, Times now);
  // Once a second: tells the core that the put lives, if bytes came since the last time.
  void Renew(core::Master& master, const core::Caller& caller, Times now);

 private:
  bool Open(core::Master& master, const core::PutPlan& plan, const core::Caller& caller, Times now);
  void Seal();

  Worker* const worker_;
  const core::ConnectionId session_;
  const size_t argument_;
  const uint32_t name_space_;
  const std::string key_;
  const uint64_t seed_;
  const uint64_t size_;
  State state_ = State::kReserving;
  uint64_t received_ = 0, renewed_at_ = 0;
  bool busy_with_server_put_ = false;
  uint32_t refused_places_ = 0;
  Version put_;
  uint64_t sum_ = 0;
  std::optional<Error> error_;
  std::unique_ptr<ValueSink> sink_;
  StreamHasher hasher_;
  std::vector<uint64_t> sums_;
};

}  // namespace tiercel::net
