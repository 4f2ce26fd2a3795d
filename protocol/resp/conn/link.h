// One established connection: its socket, its parser, and the line of those who wait for its replies. A link breaks
// once and is never mended: the connection makes a new one.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "protocol/resp/conn/exchange.h"
#include "protocol/resp/reply.h"

namespace tiercel::resp {

struct Link {
  struct Slot {
    Exchange* exchange;  // nullptr: nobody wants the replies any more, but they will come
    uint32_t remaining;
  };

  UniqueFd fd;
  ReplyParser parser;  // the leader's: touched by one thread at a time, outside of the mutex

  // Guarded by the connection's mutex.
  std::deque<Slot> line;     // in the order in which requests were begun to be sent
  bool want_write = false;   // the socket is full: send again when poll says so
  bool send_failed = false;  // nothing can be sent any more; replies may still be on their way
  Deadline last_used;

  // What the socket has: whole replies into `replies`. An error means that nothing more will come.
  Status Receive(std::vector<Reply>* replies);
  // Bytes sent; 0 with want_write or send_failed set. Never blocks. (Sets neither: the caller does, under the mutex.)
  struct Sent {
    size_t bytes = 0;
    bool full = false;
    bool failed = false;
  };
  Sent Send(std::span<iovec> pieces) const;
};

}  // namespace tiercel::resp
