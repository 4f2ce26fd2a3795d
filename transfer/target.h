// Target: the owner's side of a data request, as the servers of every transport see it.
//
// No address comes from the wire: a request names segment, epoch, offset and length and carries a grant; the
// target checks all of it with overflow-safe arithmetic before a byte is allocated, read or written, and counts
// refusals by cause. What it admits is an Access: the range is in use until the Access is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::transfer {

// Who is at the other end of an authenticated data connection.
struct PeerIdentity {
  uint64_t user = 0;
  uint64_t client = 0;
  std::string address;  // for people
};

struct AccessRequest {
  enum class Kind : uint8_t {
    kRead,   // copies the bytes out
    kWrite,  // the store's process writes them
    kView,   // pins the range for a reader that maps the segment
  };
  Kind kind = Kind::kRead;
  SegmentRef place;
  uint64_t offset = 0;
  uint64_t length = 0;  // > 0
  const Grant* grant = nullptr;
};

// One admitted use of a range of a segment. Destroying it ends the use; the memory must not be touched after.
class Access {
 public:
  virtual ~Access() = default;
  std::span<std::byte> memory;  // the range itself
  int file = -1;                // a file that holds the range (sendfile), or -1
  uint64_t file_offset = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual Incarnation incarnation() const = 0;
  // Now, on the clock that grants expire on; told to clients in the hand-shake, so that they need not send again what
  // would be refused. 0: unknown.
  virtual int64_t GrantTimeMs() const { return 0; }

  // Opens a connection: the ticket's MAC and expiry. kUnauthenticated otherwise. Thread-safe, like all of these.
  virtual Result<PeerIdentity> Authenticate(const Ticket& ticket, const std::string& address) = 0;

  // Checks in this order: segment (kUnknownSegment), epoch (kOldEpoch), range in segment (kOutOfRange), grant's
  // MAC, user, right, place and range within the grant (kBadGrant), expiry (kGrantExpired), put
  // still open (kStalePut), range not in use by another (kInUse).
  // `revoke` (writes and reads) is called at most once, from any thread, when the use must end early: the server
  // stops it, then destroys the Access. It is never called after the Access was destroyed, and never blocks.
  virtual Result<std::unique_ptr<Access>> Admit(const AccessRequest& request, const PeerIdentity& peer,
                                                std::function<void()> revoke) = 0;

  // A read-only descriptor of a sealed segment and its size; kNoPerm when this segment cannot be shared.
  struct Share {
    UniqueFd memory;
    uint64_t size = 0;
  };
  virtual Result<Share> ShareSegment(SegmentRef place, const PeerIdentity& peer) = 0;

  // A request that was refused before it could be admitted (bad frame, unknown version ...).
  virtual void CountRefusal(ErrorCode cause) = 0;
};

// Serves one address or socket with one Target. Stop: no new connections or requests; those under way end or are
// cut, all Access objects are destroyed before it returns.
class Server {
 public:
  virtual ~Server() = default;
  virtual std::string address() const = 0;  // with the real port
  virtual void Stop() = 0;
};

}  // namespace tiercel::transfer
