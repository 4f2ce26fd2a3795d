// Operations on segments of this very process, straight through its Target: no wire, one hashed copy.
#pragma once

#include <memory>

#include "transfer/target.h"
#include "transfer/transport.h"

namespace tiercel::transfer::local {

// Reaches the peer whose incarnation is the target's, and peers that have no address at all (whose incarnation is
// then checked when it is connected). The target outlives the engine.
std::unique_ptr<Transport> MakeTransport(Target* target);

}  // namespace tiercel::transfer::local
