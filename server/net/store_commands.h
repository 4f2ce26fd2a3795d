// What the files of the STORE commands share.
#pragma once

#include <string>

#include "base/grant.h"
#include "server/net/command_context.h"

namespace tiercel::net {

// A store has joined on this connection (not merely attached it): it may offer segments and fetch work.
inline bool JoinedHere(const CommandContext& c) { return c.state.store.has_value() && c.state.store->joined_here; }
Outcome FailNotJoined(CommandContext& c);
std::string GrantKeyText(const GrantKey& key);  // "ID:HEX32"; a secret

}  // namespace tiercel::net
