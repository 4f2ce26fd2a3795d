// What is said first on a new connection: HELLO 3 with AUTH and SETNAME. A peer that does not know HELLO gets AUTH and
// CLIENT SETNAME and speaks RESP2. Then comes the owner's greeting.
#pragma once

#include <optional>

#include "protocol/resp/conn/connection.h"
#include "protocol/resp/conn/wait.h"
#include "protocol/resp/reply.h"

namespace tiercel::resp {

// What went wrong, and whether trying again without a change makes sense.
struct HandshakeFailure {
  Error error;
  bool fatal;  // wrong password, a forbidden name: it would go wrong again
};

// nullopt: the connection is ready. `parser` is the connection's own: bytes behind the last reply stay in it.
std::optional<HandshakeFailure> Handshake(int fd, const ConnectionOptions& options, Deadline deadline, int stop_fd,
                                          ReplyParser* parser);

}  // namespace tiercel::resp
