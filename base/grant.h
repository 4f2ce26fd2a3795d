// Grants and tickets: who may touch which bytes at a store. Issued by the master, checked by the store.
//
// A grant is good for one replica of one version: {key id, rights, user, version, store incarnation, segment,
// epoch, extents, expiry} under SipHash-2-4-128 with a key that the master gave the store at its join. Expiry
// is access control, not safety. A ticket {key id, user, client, expiry} opens a data connection; a grant is
// good only on a connection of its user.
//
// Text form of a grant, as it stands behind a replica (the place itself is not repeated):
//   KEYID.RIGHTS.USER.VERSION.EXPIRY.MAC   all hexadecimal but RIGHTS, which is R or W; the MAC has 32 digits.
// Text form of a ticket: KEYID.USER.CLIENT.EXPIRY.MAC
//
// Expiry is milliseconds of the *store's* idea of the master's boot clock (STORE WORK carries time-ms).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/extent_allocator.h"
#include "base/siphash.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel {

enum class Right : uint8_t { kRead = 'R', kWrite = 'W' };

// A MAC key with its number; two live at a time, so that it can be exchanged.
struct GrantKey {
  uint32_t id = 0;
  SipKey key{};
};

struct Grant {
  uint32_t key_id = 0;
  Right right = Right::kRead;
  uint64_t user = 0;
  Version version{};
  Incarnation store{};
  SegmentRef place{};
  ExtentList extents{};
  int64_t expiry_ms = 0;
  Mac128 mac{};
};

struct Ticket {
  uint32_t key_id = 0;
  uint64_t user = 0;
  uint64_t client = 0;  // id of the client process; names its connections
  int64_t expiry_ms = 0;
  Mac128 mac{};
};

void Seal(const GrantKey& key, Grant* grant);  // sets key_id and mac
void Seal(const GrantKey& key, Ticket* ticket);
bool MacIsRight(const GrantKey& key, const Grant& grant);
bool MacIsRight(const GrantKey& key, const Ticket& ticket);

// Appends without allocating when `out` has room.
void AppendGrantText(const Grant& grant, std::string* out);
std::string TicketText(const Ticket& ticket);
// Place, incarnation and extents are filled in by the caller, who read them beside the grant.
std::optional<Grant> ParseGrantText(std::string_view text);
std::optional<Ticket> ParseTicketText(std::string_view text);

// The id that stands for a user in grants: XXH3-64 of the name. Survives restarts of the master.
uint64_t UserId(std::string_view name);

// True when [offset, offset + length) lies inside the grant's extents laid end to end (an "object offset").
bool CoversObjectRange(const Grant& grant, uint64_t offset, uint64_t length);

}  // namespace tiercel
