#include "protocol/resp/conn/link.h"

#include <sys/socket.h>

#include <cerrno>

namespace tiercel::resp {
namespace {

// Rounds of one Receive, so that a leader whose own reply has come is not held by others' for long.
constexpr int kMaxRounds = 16;

Status TakeReplies(ReplyParser* parser, std::vector<Reply>* replies) {
  while (true) {
    TIERCEL_ASSIGN(std::optional<Reply> reply, parser->Next());
    if (!reply) return Ok();
    replies->push_back(*std::move(reply));
  }
}

}  // namespace

Status Link::Receive(std::vector<Reply>* replies) {
  TIERCEL_TRY(TakeReplies(&parser, replies));  // of what came behind the hand-shake
  for (int round = 0; round < kMaxRounds; ++round) {
    const ReplyParser::Space space = parser.ReceiveSpace();
    iovec pieces[2];
    msghdr message{};
    message.msg_iov = pieces;
    if (!space.direct.empty()) pieces[message.msg_iovlen++] = {space.direct.data(), space.direct.size()};
    pieces[message.msg_iovlen++] = {space.buffer.data(), space.buffer.size()};
    const ssize_t got = recvmsg(fd.get(), &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return Ok();
      return SystemError("receive", errno);
    }
    if (got == 0) return Error(ErrorCode::kUnreachable, "closed by the peer");
    parser.Received(static_cast<size_t>(got));
    TIERCEL_TRY(TakeReplies(&parser, replies));
    if (static_cast<size_t>(got) < space.direct.size() + space.buffer.size()) return Ok();
  }
  return Ok();
}

Link::Sent Link::Send(std::span<iovec> pieces) const {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t sent = sendmsg(fd.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {.bytes = static_cast<size_t>(sent)};
    if (errno == EAGAIN) return {.full = true};
    if (errno != EINTR) return {.failed = true};
  }
}

}  // namespace tiercel::resp
