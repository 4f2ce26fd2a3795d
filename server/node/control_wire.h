// The words of the control conversation between a store and its master, to and from the store's own types. Pure.
// docs/store-control.md describes the conversation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/resp/reply.h"
#include "server/core/types.h"
#include "server/node/store_target.h"
#include "tiercel/result.h"

namespace tiercel::node {

using Command = std::vector<std::string>;
std::vector<std::string_view> Views(const Command& command);

struct JoinRequest {
  std::string name;
  Incarnation incarnation;
  std::string storage_id;
  std::string host;
  std::string data_address;
  std::string data_socket;  // empty: none
  uint64_t generation_seen = 0;
  uint32_t proto_min = 0, proto_max = 0;
};
Command JoinCommand(const JoinRequest& request);
Command AttachCommand(const std::string& name, Incarnation incarnation);
Command SegmentCommand(const StoreTarget::SegmentOffer& segment);
Command ReadyCommand(Version closed_below);
Command WorkCommand(uint32_t max, int64_t block_ms);
// How a store takes its leave.
struct Leaving {
  int64_t grace_ms = 0;  // 0: at once
  bool kept = false;     // it will be back on the same storage; no grace then
};
Command LeaveCommand(const Leaving& how);

// An error reply is handed on as the Error that it is; nonsense is kPeerProtocol.
Result<core::StoreJoinReply> ParseJoinReply(const resp::Reply& reply);

// One item of work. `bad`: the item's id could be read but not what it asks for; it is answered with that cause.
struct Order {
  core::WorkItem item;
  std::string kind;  // as the master wrote it
  ErrorCode bad = ErrorCode::kInternal;
  bool understood = true;
};
struct WorkReply {
  bool empty = true;  // null: nothing to do, and no news
  Version floor;
  int64_t time_ms = 0;
  std::vector<Order> orders;
};
Result<WorkReply> ParseWorkReply(const resp::Reply& reply);

// "ID:HEX32", the id in decimal.
Result<GrantKey> ParseKey(std::string_view text);
std::string KeyText(const GrantKey& key);

}  // namespace tiercel::node
