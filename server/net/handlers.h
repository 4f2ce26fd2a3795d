// Every command's handler, by the file that defines it. The rows that bind them to commands are in dispatch.cc,
// which does not compile while a command of the table has no row.
#pragma once

#include "server/net/command_context.h"

namespace tiercel::net {

// commands_puts.cc and its neighbours: what Tiercel adds to Redis.
Outcome PutStart(CommandContext& c);
Outcome PutRenew(CommandContext& c);
Outcome PutEnd(CommandContext& c);
Outcome PutRevoke(CommandContext& c);
Outcome GetReplicas(CommandContext& c);
Outcome MGetReplicas(CommandContext& c);
Outcome PrefixMatch(CommandContext& c);
Outcome Pin(CommandContext& c);
Outcome Report(CommandContext& c);
Outcome Verify(CommandContext& c);
Outcome ObjectPlaces(CommandContext& c);  // called by OBJECT with PLACES
Outcome ObjectChain(CommandContext& c);   // called by OBJECT with CHAIN
Outcome Store(CommandContext& c);         // all STORE subcommands
Outcome Stores(CommandContext& c);
Outcome Ticket(CommandContext& c);
Outcome Tiers(CommandContext& c);

}  // namespace tiercel::net
