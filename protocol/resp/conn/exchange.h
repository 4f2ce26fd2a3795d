// A request and its replies, from the call that makes it until the call returns (or its callback has run).
#pragma once

#include <condition_variable>
#include <functional>
#include <optional>
#include <vector>

#include "protocol/resp/conn/request.h"
#include "protocol/resp/conn/wait.h"
#include "protocol/resp/reply.h"
#include "tiercel/result.h"

namespace tiercel::resp {

// A synchronous call's lies on the caller's stack; an asynchronous one's is owned by the connection. All fields but
// those set before it is queued are guarded by the connection's mutex.
struct Exchange {
  Request request;
  uint32_t expected = 1;  // replies
  Deadline deadline;
  bool is_async = false;
  std::function<void(Result<Reply>)> done;  // of an asynchronous one

  std::vector<Reply> replies;
  std::optional<Error> error;
  bool awaiting = false;  // has a place in the line of those who wait for replies
  bool in_send = false;   // some thread is in a system call that reads the request's memory
  bool answered = false;  // all replies, or an error, are here
  bool finished = false;  // answered, and nobody will touch the request's memory again
  std::condition_variable wake;

  bool untouched() const { return request.sent_bytes() == 0 && !in_send; }
  bool sent() const { return request.left_bytes() == 0; }
};

}  // namespace tiercel::resp
