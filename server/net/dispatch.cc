#include "server/net/dispatch.h"

#include <array>

#include "server/net/handlers.h"

namespace tiercel::net {
namespace {

using resp::CommandId;

struct Binding {
  CommandId id;
  HandlerRow row;
};

constexpr LockNeed kCore = LockNeed::kCore;
constexpr LockNeed kNone = LockNeed::kNone;
constexpr LockNeed kAny = LockNeed::kAny;

constexpr Binding kBindings[] = {
    // connection
    {CommandId::kPing, {DoPing, kAny}},
    {CommandId::kEcho, {DoEcho, kAny}},
    {CommandId::kHello, {DoHello, kNone}},
    {CommandId::kAuth, {DoAuth, kNone}},
    {CommandId::kSelect, {DoSelect, kAny}},
    {CommandId::kQuit, {DoQuit, kAny}},
    {CommandId::kReset, {DoReset, kNone}},
    {CommandId::kClientId, {DoClientId, kAny}},
    {CommandId::kClientGetname, {DoClientGetname, kAny}},
    {CommandId::kClientSetname, {DoClientSetname, kNone}},
    {CommandId::kClientSetinfo, {DoClientSetinfo, kNone}},
    {CommandId::kClientList, {DoClientList, kNone}},
    {CommandId::kClientInfo, {DoClientInfo, kNone}},
    {CommandId::kClientKill, {DoClientKill, kNone}},
    {CommandId::kClientReply, {DoClientReply, kAny}},
    {CommandId::kClientNoEvict, {DoClientNoEvict, kAny}},
    {CommandId::kClientNoTouch, {DoClientNoTouch, kAny}},
    {CommandId::kClientHelp, {DoHelp, kNone}},
    // server
    {CommandId::kCommand, {DoCommand, kNone}},
    {CommandId::kCommandCount, {DoCommandCount, kAny}},
    {CommandId::kCommandInfo, {DoCommandInfo, kNone}},
    {CommandId::kCommandDocs, {DoCommandDocs, kNone}},
    {CommandId::kCommandList, {DoCommandList, kNone}},
    {CommandId::kCommandGetkeys, {DoCommandGetkeys, kNone}},
    {CommandId::kCommandHelp, {DoHelp, kNone}},
    {CommandId::kInfo, {DoInfo, kNone}},
    {CommandId::kConfigGet, {DoConfigGet, kNone}},
    {CommandId::kConfigSet, {DoConfigSet, kNone}},
    {CommandId::kConfigResetstat, {DoConfigResetstat, kNone}},
    {CommandId::kConfigHelp, {DoHelp, kNone}},
    {CommandId::kTime, {DoTime, kAny}},
    {CommandId::kBgsave, {DoBgsave, kNone}},
    {CommandId::kLastsave, {DoLastsave, kNone}},
    {CommandId::kShutdown, {DoShutdown, kNone}},
    {CommandId::kCluster, {DoCluster, kAny}},
    {CommandId::kMemoryUsage, {DoMemoryUsage, kCore}},
    {CommandId::kMemoryHelp, {DoHelp, kNone}},
    // key space
    {CommandId::kDbsize, {DoDbsize, kCore}},
    {CommandId::kFlushdb, {DoFlushdb, kCore}},
    {CommandId::kFlushall, {DoFlushall, kCore}},
    {CommandId::kKeys, {DoKeys, kCore}},
    {CommandId::kScan, {DoScan, kCore}},
    {CommandId::kRandomkey, {DoRandomkey, kCore}},
    // strings
    {CommandId::kSet, {DoSet, kCore}},
    {CommandId::kGet, {DoGet, kCore}},
    {CommandId::kMget, {DoMget, kCore}},
    {CommandId::kMset, {DoMset, kCore}},
    {CommandId::kSetex, {DoSetex, kCore}},
    {CommandId::kPsetex, {DoPsetex, kCore}},
    {CommandId::kSetnx, {DoSetnx, kCore}},
    {CommandId::kGetset, {DoGetset, kCore}},
    {CommandId::kGetdel, {DoGetdel, kCore}},
    {CommandId::kStrlen, {DoStrlen, kCore}},
    {CommandId::kGetrange, {DoGetrange, kCore}},
    {CommandId::kSubstr, {DoGetrange, kCore}},
    // any key
    {CommandId::kDel, {DoDel, kCore}},
    {CommandId::kUnlink, {DoDel, kCore}},
    {CommandId::kExists, {DoExists, kCore}},
    {CommandId::kTouch, {DoTouch, kCore}},
    {CommandId::kTtl, {DoTtl, kCore}},
    {CommandId::kPttl, {DoPttl, kCore}},
    {CommandId::kExpiretime, {DoExpiretime, kCore}},
    {CommandId::kPexpiretime, {DoPexpiretime, kCore}},
    {CommandId::kExpire, {DoExpire, kCore}},
    {CommandId::kPexpire, {DoPexpire, kCore}},
    {CommandId::kExpireat, {DoExpireat, kCore}},
    {CommandId::kPexpireat, {DoPexpireat, kCore}},
    {CommandId::kPersist, {DoPersist, kCore}},
    {CommandId::kType, {DoType, kCore}},
    {CommandId::kObjectEncoding, {DoObjectEncoding, kCore}},
    {CommandId::kObjectRefcount, {DoObjectRefcount, kCore}},
    {CommandId::kObjectIdletime, {DoObjectIdletime, kCore}},
    {CommandId::kObjectFreq, {DoObjectFreq, kCore}},
    {CommandId::kObjectPlaces, {DoObjectPlaces, kCore}},
    {CommandId::kObjectChain, {DoObjectChain, kCore}},
    {CommandId::kObjectHelp, {DoHelp, kNone}},
    // puts and replicas
    {CommandId::kPutstart, {DoPutStart, kCore}},
    {CommandId::kPutrenew, {DoPutRenew, kCore}},
    {CommandId::kPutend, {DoPutEnd, kCore}},
    {CommandId::kPutrevoke, {DoPutRevoke, kCore}},
    {CommandId::kGetreplicas, {DoGetReplicas, kCore}},
    {CommandId::kMgetreplicas, {DoMGetReplicas, kCore}},
    {CommandId::kPrefixmatch, {DoPrefixMatch, kCore}},
    {CommandId::kPin, {DoPin, kCore}},
    {CommandId::kReport, {DoReport, kCore}},
    {CommandId::kVerify, {DoVerify, kCore}},
    // the cluster
    {CommandId::kStores, {DoStores, kCore}},
    {CommandId::kTicket, {DoTicket, kCore}},
    {CommandId::kTiers, {DoTiers, kCore}},
    {CommandId::kStoreJoin, {DoStoreJoin, kCore}},
    {CommandId::kStoreAttach, {DoStoreAttach, kCore}},
    {CommandId::kStoreSegment, {DoStoreSegment, kCore}},
    {CommandId::kStoreReady, {DoStoreReady, kCore}},
    {CommandId::kStoreWork, {DoStoreWork, kCore}},
    {CommandId::kStoreDone, {DoStoreDone, kCore}},
    {CommandId::kStorePing, {DoStorePing, kCore}},
    {CommandId::kStoreLeave, {DoStoreLeave, kCore}},
    {CommandId::kStoreHelp, {DoHelp, kNone}},
};

// Containers are not run themselves: their subcommands are.
constexpr CommandId kContainers[] = {CommandId::kClient, CommandId::kConfig, CommandId::kMemory, CommandId::kObject,
                                     CommandId::kStore};

using Table = std::array<HandlerRow, resp::kCommandIdCount>;

constexpr Table MakeTable() {
  Table table{};
  for (const Binding& binding : kBindings) table[static_cast<size_t>(binding.id)] = binding.row;
  return table;
}

constexpr Table kTable = MakeTable();

// Compares ids, not functions: a function's address is no constant in builds that check for null.
constexpr bool IsComplete() {
  for (size_t i = 0; i < resp::kCommandIdCount; ++i) {
    size_t rows = 0;
    for (const Binding& binding : kBindings) rows += static_cast<size_t>(binding.id) == i ? 1 : 0;
    for (const CommandId id : kContainers) rows += static_cast<size_t>(id) == i ? 1 : 0;
    if (rows != 1) return false;
  }
  return true;
}
static_assert(IsComplete(), "every command of the table has one handler");

}  // namespace

const HandlerRow& RowOf(resp::CommandId id) { return kTable[static_cast<size_t>(id)]; }

ValueArgument ValueArgumentOf(resp::CommandId id, size_t index) {
  switch (id) {
    case CommandId::kSet:
    case CommandId::kSetnx:
    case CommandId::kGetset: return {index == 2, 1};
    case CommandId::kSetex:
    case CommandId::kPsetex: return {index == 3, 1};
    case CommandId::kMset: return {index >= 2 && index % 2 == 0, index - 1};
    default: return {};
  }
}

}  // namespace tiercel::net
