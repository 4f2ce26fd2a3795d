// ValueSender: one value, or a part of it, on its way to a client, verified before it is sent.
//
// The version is pinned, so its bytes stay where they are however slow the client reads. Every block is checked
// against the version's checksums (the trailer first, where there is one) before a byte of it is handed out; a block
// that fails is reported and comes from the next replica. With none left, before the first byte that is an error
// reply, after it the connection must be closed: the client was promised so many bytes.
//
// Bytes go out by sendmsg straight from the segment. sendfile would spare the kernel a copy, but its pages stay
// referenced by the receiving socket of a client on the same host (loopback, veth) after they were acknowledged: a
// range reused then would change what a slow reader finds in its queue, and a plain Redis client cannot notice.
//
// Belongs to its session's loop. Memory: none for values of this process; a window of two chunks of kChunkBlocks
// blocks for values of other stores.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "server/core/master.h"
#include "server/core/payload_port.h"
#include "server/net/local_value.h"
#include "server/net/read_pin.h"

namespace tiercel::net {

class RemoteTransfer;
class Worker;

class ValueSender {
 public:
  // Under the lock. `info` is what BeginRead gave, `pin` its pin. [from, from + length) lies inside the value and is
  // not empty.
  ValueSender(Worker* worker, core::ConnectionId session, core::Master& master, const core::KeyRef& key,
              const core::ObjectInfo& info, ReadPin pin, uint64_t from, uint64_t length, Times now);
  ~ValueSender();

  enum class State {
    kReady,    // Pieces() has bytes
    kWaiting,  // for a transfer; the session is told
    kFailed,   // no replica is left: error()
    kDone,     // everything was handed out
  };
  // Without the lock.
  State Advance();
  // Appends what is verified and not sent yet, followed by the reply's CRLF when it is the last; returns bytes.
  size_t Pieces(std::vector<iovec>* out, size_t max_pieces) const;
  void Sent(size_t bytes);

  uint64_t length() const { return length_; }
  bool started() const { return started_; }  // a byte was handed out
  const Error& error() const { return *error_; }
  // Under the lock: lets go of the version.
  void Abandon(core::Master& master, Times now) { pin_.EndLocked(master, now); }

  static constexpr uint64_t kChunkBlocks = 2;  // of a remote read; two chunks are under way at most

 private:
  struct Source {
    core::ReplicaInfo replica;
    const core::LocalSegment* local = nullptr;
    core::RemotePlace remote;
    bool regranted = false;
  };
  struct Chunk {
    std::shared_ptr<RemoteTransfer> transfer;
    uint64_t first_block = 0, blocks = 0;
  };

  State AdvanceLocal(const Source& source);
  State AdvanceRemote(Source& source);
  bool TrailerIsRight(const std::byte* trailer);
  bool BlockIsRight(uint64_t block, uint64_t sum) const;
  void HandOut(std::span<const std::byte> piece);
  void Bad(ErrorCode why);
  void Regrant(Source& source);
  bool StartTrailer(const Source& source);
  Chunk StartChunk(const Source& source, uint64_t block);
  uint64_t BlockLength(uint64_t block) const;
  core::KeyRef key_ref() const { return {name_space_, key_, seed_}; }

  Worker* const worker_;
  const core::ConnectionId session_;
  const uint32_t name_space_;
  const std::string key_;
  const uint64_t seed_;
  const Version version_;
  const uint64_t size_, sum_;
  const uint64_t from_, length_;
  ReadPin pin_;

  std::vector<Source> sources_;
  size_t source_ = 0;
  std::vector<uint64_t> sums_;  // verified block sums; empty: not read yet (or the value has one block)
  uint64_t next_;               // object offset of the next byte to verify
  std::vector<std::span<const std::byte>> pieces_;
  size_t piece_ = 0;
  bool started_ = false, ended_ = false;
  std::optional<Error> error_;
  StreamHasher hasher_;
  std::shared_ptr<RemoteTransfer> trailer_;
  Chunk current_, ahead_;
};

}  // namespace tiercel::net
