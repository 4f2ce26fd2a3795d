#include "protocol/resp/conn/wait.h"

#include <poll.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/check.h"

namespace tiercel::resp {

Waited WaitFor(int fd, short events, Deadline deadline, int stop_fd) {
  while (true) {
    pollfd fds[2] = {{fd, events, 0}, {stop_fd, POLLIN, 0}};
    const int ready = poll(fds, 2, PollMs(deadline));
    TIERCEL_CHECK(ready >= 0 || errno == EINTR || errno == ENOMEM);
    if (ready < 0) continue;
    if (fds[1].revents != 0) return Waited::kStopped;
    return ready > 0 ? Waited::kReady : Waited::kDeadline;
  }
}

Error WaitError(Waited waited, std::string_view peer) {
  if (waited == Waited::kStopped) return {ErrorCode::kShutdown, "the connection was closed"};
  return Unreachable(peer, "no answer in time");
}

Error Unreachable(std::string_view peer, std::string_view why) {
  return {ErrorCode::kUnreachable, std::string(peer) + ": " + std::string(why)};
}

Error Unreachable(std::string_view peer, int error_number) {
  return Unreachable(peer, std::generic_category().message(error_number));
}

}  // namespace tiercel::resp
