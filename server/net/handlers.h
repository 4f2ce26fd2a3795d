// Every command's handler, by the file that defines it. The rows that bind them to commands are in dispatch.cc,
// which does not compile while a command of the table has no row.
#pragma once

#include "server/net/command_context.h"

namespace tiercel::net {

// commands_puts.cc and its neighbours: what Tiercel adds to Redis.
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
Outcome DoObjectPlaces(CommandContext& c);  // called by OBJECT with PLACES
Outcome DoObjectChain(CommandContext& c);   // called by OBJECT with CHAIN
Outcome DoStore(CommandContext& c);         // all STORE subcommands
Outcome DoStores(CommandContext& c);
Outcome DoTicket(CommandContext& c);
Outcome DoTiers(CommandContext& c);

}  // namespace tiercel::net
