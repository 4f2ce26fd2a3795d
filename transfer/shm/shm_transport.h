// Rails over a store's UNIX data socket with its segments in shared memory: for clients on the store's host.
//
// A read asks the store to pin the range (ADMIT), copies out of the mapping and lets go (RELEASE, not waited for).
// A write from memory of Allocate is copied and hashed by the store, out of the client's memfd (MAP, COPY); from
// other memory it goes through the socket as over TCP. A view is a pin that lasts. No client can write a segment.
#pragma once

#include <memory>

#include "transfer/transport.h"

namespace tiercel::transfer::shm {

std::unique_ptr<Transport> MakeTransport();

}  // namespace tiercel::transfer::shm
