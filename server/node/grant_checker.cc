#include "server/node/grant_checker.h"

#include <fmt/core.h>

namespace tiercel::node {

namespace {

using Kind = transfer::AccessRequest::Kind;

const GrantKey* FindKey(std::span<const GrantKey> keys, uint32_t id) {
  for (const GrantKey& key : keys) {
    if (key.id == id) return &key;
  }
  return nullptr;
}

Error BadGrant(const char* why) { return {ErrorCode::kBadGrant, why}; }

Status CheckSeal(const Grant& grant, std::span<const GrantKey> keys, Incarnation store) {
  const GrantKey* key = FindKey(keys, grant.key_id);
  if (key != nullptr && !MacIsRight(*key, grant)) return BadGrant("the grant's MAC is wrong");
  // Without its key nothing of the grant is proven, but what it says of the store decides which remedy to name.
  if (grant.store != store) {
    return Error(ErrorCode::kStaleIncarnation, "the grant is for another life of this store");
  }
  if (key == nullptr) return BadGrant("the grant's key is not in use (any more)");
  return Ok();
}

}  // namespace

Status CheckPlace(const transfer::AccessRequest& request, const SegmentState* segment) {
  const SegmentRef place = request.place;
  if (request.length == 0) return Error(ErrorCode::kInvalid, "length 0");
  if (segment == nullptr) {
    return Error(ErrorCode::kUnknownSegment, fmt::format("no segment {} at this store", place.segment));
  }
  if (segment->epoch != place.epoch) {
    return Error(ErrorCode::kOldEpoch,
                 fmt::format("segment {} is in epoch {}, not {}", place.segment, segment->epoch, place.epoch));
  }
  if (!RangeWithin(request.offset, request.length, segment->size)) {
    return Error(ErrorCode::kOutOfRange, fmt::format("{}+{} is not within segment {} of {} bytes", request.offset,
                                                     request.length, place.segment, segment->size));
  }
  return Ok();
}

Status CheckGrant(const transfer::AccessRequest& request, const transfer::PeerIdentity& peer,
                  std::span<const GrantKey> keys, Incarnation store, int64_t master_ms) {
  if (request.grant == nullptr) return BadGrant("no grant");
  const Grant& grant = *request.grant;
  TIERCEL_TRY(CheckSeal(grant, keys, store));
  if (grant.user != peer.user) return BadGrant("the grant is for another user");
  const Right needed = request.kind == Kind::kWrite ? Right::kWrite : Right::kRead;
  if (grant.right != needed) {
    return BadGrant(needed == Right::kWrite ? "the grant is not for writing" : "the grant is not for reading");
  }
  if (!grant.version) return BadGrant("the grant names no version");
  if (grant.place != request.place) return BadGrant("the grant is for another segment");
  if (!ExtentsCover(grant.extents, {request.offset, request.length})) {
    return Error(ErrorCode::kBadGrant,
                 fmt::format("{}+{} is not within the grant's extents", request.offset, request.length));
  }
  if (master_ms >= grant.expiry_ms) {
    return Error(ErrorCode::kGrantExpired, fmt::format("the grant expired {} ms ago", master_ms - grant.expiry_ms));
  }
  return Ok();
}

Result<transfer::PeerIdentity> CheckTicket(const Ticket& ticket, std::span<const GrantKey> keys, int64_t master_ms,
                                           const std::string& address) {
  const GrantKey* key = FindKey(keys, ticket.key_id);
  if (key == nullptr || !MacIsRight(*key, ticket)) {
    return Error(ErrorCode::kUnauthenticated, "the ticket is not from this store's master");
  }
  if (master_ms >= ticket.expiry_ms) {
    return Error(ErrorCode::kUnauthenticated,
                 fmt::format("the ticket expired {} ms ago", master_ms - ticket.expiry_ms));
  }
  return transfer::PeerIdentity{.user = ticket.user, .client = ticket.client, .address = address};
}

bool ExtentsCover(const ExtentList& extents, Extent range) {
  if (range.length == 0 || range.offset > UINT64_MAX - range.length) return false;
  const uint64_t end = range.offset + range.length;
  uint64_t at = range.offset;
  // Each round leaves one extent behind for good, so there are at most size() rounds.
  for (uint32_t round = 0; round < extents.size(); ++round) {
    uint64_t reached = at;
    for (const Extent& extent : extents) {
      if (extent.offset <= at && at - extent.offset < extent.length) {
        reached = extent.length > UINT64_MAX - extent.offset ? UINT64_MAX : extent.offset + extent.length;
        break;
      }
    }
    if (reached >= end) return true;
    if (reached == at) return false;
    at = reached;
  }
  return false;
}

}  // namespace tiercel::node
