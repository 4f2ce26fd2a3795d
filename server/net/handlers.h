// Every command's handler, by the file that defines it. dispatch.cc binds them to the rows of the command table and
// does not compile while a row has none. Subcommands have handlers of their own; args[1] is their second word.
#pragma once

#include "server/net/command_context.h"

namespace tiercel::net {

// commands_connection.cc
Outcome DoPing(CommandContext& c);
Outcome DoEcho(CommandContext& c);
Outcome DoHello(CommandContext& c);
Outcome DoAuth(CommandContext& c);
Outcome DoSelect(CommandContext& c);
Outcome DoQuit(CommandContext& c);
Outcome DoReset(CommandContext& c);

// commands_client.cc
Outcome DoClientId(CommandContext& c);
Outcome DoClientGetname(CommandContext& c);
Outcome DoClientSetname(CommandContext& c);
Outcome DoClientSetinfo(CommandContext& c);
Outcome DoClientList(CommandContext& c);
Outcome DoClientInfo(CommandContext& c);
Outcome DoClientKill(CommandContext& c);
Outcome DoClientReply(CommandContext& c);
Outcome DoClientNoEvict(CommandContext& c);
Outcome DoClientNoTouch(CommandContext& c);

// commands_help.cc: HELP of every container
Outcome DoHelp(CommandContext& c);

// commands_command.cc
Outcome DoCommand(CommandContext& c);
Outcome DoCommandCount(CommandContext& c);
Outcome DoCommandInfo(CommandContext& c);
Outcome DoCommandDocs(CommandContext& c);
Outcome DoCommandList(CommandContext& c);
Outcome DoCommandGetkeys(CommandContext& c);

// commands_info.cc, commands_server.cc
Outcome DoInfo(CommandContext& c);
Outcome DoConfigGet(CommandContext& c);
Outcome DoConfigSet(CommandContext& c);
Outcome DoConfigResetstat(CommandContext& c);
Outcome DoTime(CommandContext& c);
Outcome DoBgsave(CommandContext& c);
Outcome DoLastsave(CommandContext& c);
Outcome DoShutdown(CommandContext& c);
Outcome DoCluster(CommandContext& c);

// commands_keyspace.cc
Outcome DoDbsize(CommandContext& c);
Outcome DoFlushdb(CommandContext& c);
Outcome DoFlushall(CommandContext& c);
Outcome DoKeys(CommandContext& c);
Outcome DoScan(CommandContext& c);
Outcome DoRandomkey(CommandContext& c);

// commands_keys.cc
Outcome DoDel(CommandContext& c);
Outcome DoExists(CommandContext& c);
Outcome DoTouch(CommandContext& c);
Outcome DoType(CommandContext& c);
Outcome DoMemoryUsage(CommandContext& c);
Outcome DoObjectEncoding(CommandContext& c);
Outcome DoObjectRefcount(CommandContext& c);
Outcome DoObjectIdletime(CommandContext& c);
Outcome DoObjectFreq(CommandContext& c);

// commands_expire.cc
Outcome DoTtl(CommandContext& c);
Outcome DoPttl(CommandContext& c);
Outcome DoExpiretime(CommandContext& c);
Outcome DoPexpiretime(CommandContext& c);
Outcome DoExpire(CommandContext& c);
Outcome DoPexpire(CommandContext& c);
Outcome DoExpireat(CommandContext& c);
Outcome DoPexpireat(CommandContext& c);
Outcome DoPersist(CommandContext& c);

// commands_get.cc
Outcome DoGet(CommandContext& c);
Outcome DoMget(CommandContext& c);
Outcome DoGetdel(CommandContext& c);
Outcome DoStrlen(CommandContext& c);
Outcome DoGetrange(CommandContext& c);

// commands_set.cc
Outcome DoSet(CommandContext& c);
Outcome DoSetex(CommandContext& c);
Outcome DoPsetex(CommandContext& c);
Outcome DoSetnx(CommandContext& c);
Outcome DoGetset(CommandContext& c);
Outcome DoMset(CommandContext& c);

// What Tiercel adds to Redis: commands_puts.cc, commands_lookup.cc, commands_objects.cc, commands_cluster.cc
Outcome DoPutStart(CommandContext& c);
Outcome DoPutRenew(CommandContext& c);
Outcome DoPutEnd(CommandContext& c);
Outcome DoPutRevoke(CommandContext& c);
Outcome DoGetReplicas(CommandContext& c);
Outcome DoMGetReplicas(CommandContext& c);
Outcome DoPrefixMatch(CommandContext& c);
Outcome DoPin(CommandContext& c);
Outcome DoReport(CommandContext& c);
Outcome DoVerify(CommandContext& c);
Outcome DoObjectPlaces(CommandContext& c);
Outcome DoObjectChain(CommandContext& c);
Outcome DoStores(CommandContext& c);
Outcome DoTicket(CommandContext& c);
Outcome DoTiers(CommandContext& c);
// commands_store.cc, commands_store_segments.cc, commands_store_work.cc
Outcome DoStoreJoin(CommandContext& c);
Outcome DoStoreAttach(CommandContext& c);
Outcome DoStoreSegment(CommandContext& c);
Outcome DoStoreReady(CommandContext& c);
Outcome DoStoreWork(CommandContext& c);
Outcome DoStoreDone(CommandContext& c);
Outcome DoStorePing(CommandContext& c);
Outcome DoStoreLeave(CommandContext& c);

}  // namespace tiercel::net
