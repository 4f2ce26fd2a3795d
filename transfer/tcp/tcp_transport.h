// Rails over TCP: the client's side of a store's data port.
#pragma once

#include <memory>

#include "transfer/transport.h"

namespace tiercel::transfer::tcp {

// Host names that are not numeric are resolved when a connection is made; see Resolver for what that may cost.
std::unique_ptr<Transport> MakeTransport();

}  // namespace tiercel::transfer::tcp
