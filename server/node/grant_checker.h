// The checks of a data request that need no table: place, grant, ticket. Pure.
//
// The order is fixed (transfer/target.h), so that one request always gets the same answer: length, segment, epoch,
// range within the segment; then the grant's MAC, store, user, right and place; range within the grant; expiry.
// No sum of an offset and a length is formed before it is known not to wrap around.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/grant.h"
#include "tiercel/result.h"
#include "tiercel/types.h"
#include "transfer/target.h"

namespace tiercel::node {

// MAC keys that the master gave: newest first, two of each at most. Secret: never logged.
struct Keys {
  static constexpr size_t kMaxLive = 2;
  std::vector<GrantKey> grants;
  std::vector<GrantKey> tickets;
};

// The segment that a request names, as this store has it now.
struct SegmentState {
  uint32_t epoch = 0;
  uint64_t size = 0;
};

// True when [offset, offset + length) lies within [0, size), for any values whatever.
constexpr bool RangeWithin(uint64_t offset, uint64_t length, uint64_t size) {
  return length <= size && offset <= size - length;
}

// `segment` is nullptr when this store has none of that number. kInvalid, kUnknownSegment, kOldEpoch, kOutOfRange.
Status CheckPlace(const transfer::AccessRequest& request, const SegmentState* segment);

// kBadGrant, kStaleIncarnation (sealed for another life of this store), kGrantExpired.
// `master_ms`: the master's boot clock as this store knows it.
Status CheckGrant(const transfer::AccessRequest& request, const transfer::PeerIdentity& peer,
                  std::span<const GrantKey> keys, Incarnation store, int64_t master_ms);

// kUnauthenticated.
Result<transfer::PeerIdentity> CheckTicket(const Ticket& ticket, std::span<const GrantKey> keys, int64_t master_ms,
                                           const std::string& address);

// True when every byte of the range lies in one of the extents; extents may touch, in any order.
bool ExtentsCover(const ExtentList& extents, Extent range);

}  // namespace tiercel::node
