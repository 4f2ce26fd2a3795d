// The data socket of a store: the data protocol over a UNIX socket, with shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tiercel/result.h"
#include "transfer/session/limits.h"
#include "transfer/target.h"

namespace tiercel::transfer::shm {

struct ServerOptions {
  std::string path;
  uint32_t permissions = 0700;  // of the socket: who may connect
  uint32_t threads = 1;
  SessionLimits limits;
};

// A socket that a dead process left behind is replaced; one that somebody listens on is not (kNameInUse).
// Stop removes it. The target outlives the server.
Result<std::unique_ptr<Server>> MakeServer(const ServerOptions& options, Target* target);

}  // namespace tiercel::transfer::shm
