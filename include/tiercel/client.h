// The C++ client of Tiercel.
//
//   tiercel::ClientOptions options;
//   options.master = "127.0.0.1:7379";
//   auto client = tiercel::Client::Connect(options);
//   if (!client.ok()) { ... client.error().ToString() ... }
//   auto put = (*client)->Put("key", bytes);
//   auto got = (*client)->Get("key");          // Result<std::optional<Buffer>>: nullopt is a miss
//
// Keys are 1 byte to 16 KiB of any bytes, values 0 bytes to 64 GiB. A value is immutable: a put of a key that
// exists succeeds without writing when the bytes are the same (PutOutcome::kAlreadyThere), and is refused
// (ErrorCode::kExists) when they are not, unless `replace` is set.
//
// Every byte handed out as good was verified: length and checksums of exactly one version. A miss is not an
// error. An error says what to do next by Error::action().
//
// Threads: a Client may be used by any number of threads at once. Calls block until done or until
// `timeout_ms` has passed; the *Async forms return a std::future and use the client's own background thread.
// The client reconnects by itself, with back-off, within each call's deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel {

// Which wires may be used. kAuto: shared memory on the store's host, else TCP. kLocal: stores in this process, for
// tests. kRdma: no store of this version offers it, so calls fail with kUnreachable.
enum class TransportChoice : uint8_t { kAuto, kTcp, kShm, kLocal, kRdma };

// What to do with bytes that were read after their lease ran out.
enum class ReadPastLease : uint8_t {
  kVerify,   // the checksums decide
  kDiscard,  // thrown away even when right
};

struct ClientOptions {
  std::string master = "127.0.0.1:7379";  // host:port, [v6]:port, or unix:/path
  std::string user, password;
  std::string name = "tiercel-client";  // shown by CLIENT LIST
  uint32_t name_space = 0;              // SELECT n
  std::string location;                 // "location host=" of this process; empty: the host's own name
  int64_t timeout_ms = 30'000;          // of a call, when it has none of its own
  int64_t connect_timeout_ms = 3'000;
  uint32_t connections_per_store = 2;
  uint32_t batch_parallel = 64;  // keys of one batch that move at the same time
  TransportChoice transport = TransportChoice::kAuto;
  ReadPastLease read_past_lease = ReadPastLease::kVerify;
};

struct PutOptions {
  bool replace = false;
  uint32_t replicas = 1;
  bool strict_replicas = false;  // fewer hosts than replicas is kTooFewHosts
  std::optional<int64_t> ttl_ms;
  std::optional<int64_t> soft_pin_ms;  // 0: none
  bool hard_pin = false;
  std::string preferred_store, excluded_store;
  std::string parent;  // key of the previous block of a chain
  TransportChoice transport = TransportChoice::kAuto;
  int64_t timeout_ms = 0;  // 0: the client's
};

struct GetOptions {
  TransportChoice transport = TransportChoice::kAuto;
  std::optional<int64_t> lease_ms;
  int64_t timeout_ms = 0;
};

enum class PutOutcome : uint8_t {
  kStored,
  kAlreadyThere,  // the key holds exactly these bytes; nothing was written
};

struct PutResult {
  PutOutcome outcome = PutOutcome::kStored;
  Version version;
  uint32_t replicas = 0;  // published (kStored)
};

struct ObjectStat {
  Version version;
  uint64_t size = 0;
  uint64_t checksum = 0;
  int64_t lease_ms = 0;
  struct Replica {
    Tier tier{};
    std::string store;
    std::vector<Extent> extents;
  };
  std::vector<Replica> replicas;
};

struct StoreStat {
  std::string name, state, host, address, socket;
  Incarnation incarnation;
  uint64_t capacity_bytes = 0, used_bytes = 0, free_bytes = 0;  // of all tiers
  // Bytes of one tier: used (also by puts under way), free, and quarantined: neither, until nobody can touch them.
  struct Space {
    std::string tier;
    uint64_t size = 0, used = 0, free = 0, quarantined = 0;
  };
  std::vector<Space> tiers;
  std::vector<std::string> transports;  // how clients reach it
};

class BufferCache;

// Owned bytes of a value. Memory is not zeroed first, and page-aligned from one page on. Large buffers go back to
// their client's small stock when they are destroyed, also after the client. Running out of memory throws
// std::bad_alloc, as the standard containers do. An empty value is a Buffer of size 0 without memory.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }

 private:
  friend class BufferCache;
  struct Free {
    Free() : capacity(0) {}
    Free(size_t bytes, std::shared_ptr<BufferCache> origin) : capacity(bytes), cache(std::move(origin)) {}
    size_t capacity;
    std::shared_ptr<BufferCache> cache;  // nullptr: back to the system
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  size_t size_ = 0;
};

// A value in shared memory, without a copy: pinned at its store and verified. The bytes stay right until this is
// destroyed, whatever happens to the key. `alive` turns false when the store's process has gone.
class ObjectView {
 public:
  virtual ~ObjectView() = default;
  virtual uint64_t size() const = 0;
  virtual Version version() const = 0;
  virtual bool alive() const = 0;
  // Pieces in order; one for nearly every object.
  virtual std::span<const std::span<const std::byte>> pieces() const = 0;
};

// Memory of the client's that stores can read without a copy in between (shared memory). Move-only.
class RegisteredBuffer {
 public:
  virtual ~RegisteredBuffer() = default;
  virtual std::span<std::byte> span() = 0;
};

struct PutItem {
  std::string_view key;
  std::span<const std::byte> value;
};
struct GetItem {
  std::string_view key;
  std::span<std::byte> memory;  // at least the value's size
};

class Client {
 public:
  // Connects and authenticates, or says why not. kUnreachable, kNoAuth, kWrongPass, kPeerProtocol ...
  static Result<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  // Without connecting: every call but Close fails with kUnreachable until Reconnect succeeds.
  static std::unique_ptr<Client> Create(const ClientOptions& options);
  virtual ~Client() = default;  // closes

  virtual Status Reconnect() = 0;
  virtual void Close() = 0;    // idempotent; calls under way fail with kShutdown
  virtual bool Healthy() = 0;  // a PING to the master is answered
  virtual Result<int64_t> PingMicros() = 0;

  // ---- one key
  // kExists when the key holds other bytes; kInFlight when another writer is at it; kNoSpace, kTooFewHosts, kPinBudget
  // as the options ask for what is not there.
  virtual Result<PutResult> Put(std::string_view key, std::span<const std::byte> value,
                                const PutOptions& options = {}) = 0;
  Result<PutResult> Put(std::string_view key, std::string_view value, const PutOptions& options = {}) {
    return Put(key, std::as_bytes(std::span(value.data(), value.size())), options);
  }
  virtual Result<std::optional<Buffer>> Get(std::string_view key, const GetOptions& options = {}) = 0;
  // Into the caller's memory; the value's size, nullopt for a miss. kTooBig names the size when it does not fit.
  // After any error the memory's contents are unspecified.
  virtual Result<std::optional<uint64_t>> GetInto(std::string_view key, std::span<std::byte> memory,
                                                  const GetOptions& options = {}) = 0;
  // Bytes [offset, offset + length) of the value; kInvalid when the range leaves it. Fetches and verifies the
  // blocks that the range touches, no more.
  virtual Result<std::optional<Buffer>> GetRange(std::string_view key, uint64_t offset, uint64_t length,
                                                 const GetOptions& options = {}) = 0;
  // kNoDevice when no replica lies on this host.
  virtual Result<std::unique_ptr<ObjectView>> View(std::string_view key,
                                                   const GetOptions& options = {}) = 0;  // nullptr: a miss
  virtual Result<bool> Exists(std::string_view key) = 0;
  virtual Result<std::optional<uint64_t>> Size(std::string_view key) = 0;
  virtual Result<std::optional<ObjectStat>> Stat(std::string_view key) = 0;
  virtual Result<bool> Remove(std::string_view key) = 0;

  // ---- many keys: one result per key, in order; one failing does not fail the others
  virtual std::vector<Result<PutResult>> PutBatch(std::span<const PutItem> items, const PutOptions& options = {}) = 0;
  virtual std::vector<Result<std::optional<Buffer>>> GetBatch(std::span<const std::string_view> keys,
                                                              const GetOptions& options = {}) = 0;
  virtual std::vector<Result<std::optional<uint64_t>>> GetIntoBatch(std::span<const GetItem> items,
                                                                    const GetOptions& options = {}) = 0;
  virtual std::vector<Result<std::unique_ptr<ObjectView>>> ViewBatch(std::span<const std::string_view> keys,
                                                                     const GetOptions& options = {}) = 0;
  virtual std::vector<Result<bool>> ExistsBatch(std::span<const std::string_view> keys) = 0;
  virtual std::vector<Result<std::optional<ObjectStat>>> StatBatch(std::span<const std::string_view> keys) = 0;
  virtual std::vector<Result<bool>> RemoveBatch(std::span<const std::string_view> keys) = 0;
  // How many leading keys are readable; they are leased.
  virtual Result<uint32_t> MatchPrefix(std::span<const std::string_view> keys) = 0;

  // ---- futures: arguments are copied but for values' and sinks' memory, which must stay until the future is ready
  virtual std::future<Result<PutResult>> PutAsync(std::string key, std::span<const std::byte> value,
                                                  PutOptions options = {}) = 0;
  virtual std::future<Result<std::optional<Buffer>>> GetAsync(std::string key, GetOptions options = {}) = 0;
  virtual std::future<Result<std::optional<uint64_t>>> GetIntoAsync(std::string key, std::span<std::byte> memory,
                                                                    GetOptions options = {}) = 0;
  virtual std::future<Result<bool>> ExistsAsync(std::string key) = 0;
  virtual std::future<Result<bool>> RemoveAsync(std::string key) = 0;

  // ---- memory
  virtual Result<std::unique_ptr<RegisteredBuffer>> AllocateRegistered(size_t bytes) = 0;
  // The caller's own memory for wires that need registration. kOverlap when part of it is registered already.
  virtual Result<std::unique_ptr<RegisteredBuffer>> RegisterMemory(std::span<std::byte> memory) = 0;

  // ---- the cluster
  virtual Result<std::vector<StoreStat>> Stores() = 0;
  // Visits all keys that match a glob pattern (present throughout: at least once). False from `visit` stops.
  virtual Status Scan(std::string_view pattern, const std::function<bool(std::string_view key)>& visit) = 0;
  // Any command, as redis-cli would send it: the reply as text lines. For tools. A reply with a string of more than
  // 1 GiB (GET of a larger value) is refused: kUnreachable that says so, and the connection is made anew.
  virtual Result<std::string> Command(std::span<const std::string_view> arguments) = 0;
};

}  // namespace tiercel
