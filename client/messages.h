// The master's replies in the client's terms, and the commands that ask for them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/words.h"
#include "protocol/resp/descriptor.h"
#include "protocol/resp/reply.h"
#include "tiercel/client.h"

namespace tiercel::client {

// A readable object as a look-up shows it. Every replica holds StoredBytes(size) in its extents.
struct Found {
  Version version;
  uint64_t size = 0;
  uint64_t sum = 0;
  int64_t lease_ms = 0;
  std::vector<resp::ReplicaDescriptor> replicas;  // best first
};

// The answer to PUTSTART.
struct Plan {
  enum class Outcome : uint8_t { kCreated, kExists, kBusy };
  Outcome outcome = Outcome::kCreated;
  Version put;                                    // created: its id; exists: the version; busy: the other put
  int64_t deadline_ms = 0;                        // created: until a sign of life is needed
  std::vector<resp::ReplicaDescriptor> replicas;  // created
  uint64_t size = 0, sum = 0;                     // exists
  int64_t age_ms = 0;                             // busy
};

Words PutStartWords(std::string_view key, uint64_t size, const PutOptions& options, std::string_view exclude);
Words LookUpWords(std::string_view key, const std::optional<int64_t>& lease_ms, bool lease);
void AddLeaseWords(const std::optional<int64_t>& lease_ms, bool lease, Words* words);

// A reply of an unexpected shape is kPeerProtocol; an error reply is that error.
Result<std::optional<Found>> ParseFound(const resp::Reply& reply);  // nullopt: a miss
Result<Plan> ParsePlan(const resp::Reply& reply, uint64_t size);
// PUTRENEW's answer: deadline-ms and replicas with fresh grants.
Result<Plan> ParseRenewed(const resp::Reply& reply, uint64_t size);
Result<std::vector<StoreStat>> ParseStores(const resp::Reply& reply);
Result<int64_t> ParseInteger(const resp::Reply& reply);
Status ParseOk(const resp::Reply& reply);

// The reply as lines for people, as redis-cli shows it.
std::string ReplyText(const resp::Reply& reply);

Error UnexpectedReply(std::string_view command, const resp::Reply& reply);

// Keys and values within their limits: kInvalid for an empty key, kTooBig naming the limit.
Status CheckKey(std::string_view key);
Status CheckValueSize(uint64_t size);

}  // namespace tiercel::client
