// The data port of a store over TCP.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tiercel/result.h"
#include "transfer/session/limits.h"
#include "transfer/target.h"

namespace tiercel::transfer::tcp {

struct ServerOptions {
  std::vector<std::string> bind = {"127.0.0.1"};  // each must work; all get the same port
  uint16_t port = 0;                              // 0: a free one
  uint32_t threads = 1;
  SessionLimits limits;
};

// address() is the first of `bind` with the real port. The target outlives the server.
Result<std::unique_ptr<Server>> MakeServer(const ServerOptions& options, Target* target);

}  // namespace tiercel::transfer::tcp
