// Name look-up and connect, until a deadline or until `stop_fd` becomes readable. (Looking up a name is the system's
// business and may take as long as the system is configured to.)
#pragma once

#include <string>

#include "base/fd.h"
#include "protocol/resp/conn/connection.h"
#include "protocol/resp/conn/wait.h"
#include "tiercel/result.h"

namespace tiercel::resp {

// Tries the addresses of the host one after the other. The error names each that was tried.
Result<UniqueFd> Dial(const ConnectionOptions& options, Deadline deadline, int stop_fd);

// "host:port", "[v6]:port" or the socket's path: how errors name the peer.
std::string PeerName(const ConnectionOptions& options);

}  // namespace tiercel::resp
