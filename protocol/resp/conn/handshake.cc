#include "protocol/resp/conn/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "protocol/resp/conn/dial.h"
#include "protocol/resp/encoder.h"

namespace tiercel::resp {
namespace {

using Words = std::vector<std::string_view>;

// What a server says when it may say something else a little later.
bool IsPassing(const Error& error) {
  return error.action() == ErrorAction::kWait || error.message().starts_with("max number of clients");
}

// One question at a time over a socket that nobody else uses yet.
class Talk {
 public:
  Talk(int fd, std::string peer, Deadline deadline, int stop_fd, ReplyParser* parser)
      : fd_(fd), peer_(std::move(peer)), deadline_(deadline), stop_fd_(stop_fd), parser_(parser) {}

  Result<Reply> Ask(const Words& words) {
    std::string bytes;
    AppendCommandHeader(words.size(), &bytes);
    for (std::string_view word : words) AppendArgument(word, &bytes);
    TIERCEL_TRY(Send(bytes));
    return Receive();
  }

 private:
  Status Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        TIERCEL_TRY(Wait(POLLOUT));
      } else if (errno != EINTR) {
        return Unreachable(peer_, errno);
      }
    }
    return Ok();
  }

  Result<Reply> Receive() {
    while (true) {
      auto next = parser_->Next();
      if (!next.ok()) return Unreachable(peer_, next.error().message());
      if (next->has_value()) {
        if ((*next)->kind == Reply::Kind::kPush) continue;
        return *std::move(next).value();
      }
      const ReplyParser::Space space = parser_->ReceiveSpace();
      const std::span<char> room = space.direct.empty() ? space.buffer : space.direct;
      const ssize_t got = recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
      if (got > 0) {
        parser_->Received(static_cast<size_t>(got));
      } else if (got == 0) {
        return Unreachable(peer_, "closed during the hand-shake");
      } else if (errno == EAGAIN) {
        TIERCEL_TRY(Wait(POLLIN));
      } else if (errno != EINTR) {
        return Unreachable(peer_, errno);
      }
    }
  }

  Status Wait(short events) {
    const Waited waited = WaitFor(fd_, events, deadline_, stop_fd_);
    if (waited != Waited::kReady) return WaitError(waited, peer_);
    return Ok();
  }

  const int fd_;
  const std::string peer_;
  const Deadline deadline_;
  const int stop_fd_;
  ReplyParser* const parser_;
};

// What listens there may be anything: an echo of what was sent is an array as well.
bool IsHelloAnswer(const Reply& reply) {
  const Reply* protocol = reply.Field("proto");
  return protocol != nullptr && protocol->kind == Reply::Kind::kInteger && protocol->integer == 3;
}

// nullopt: the peer answered, and not with an error.
std::optional<HandshakeFailure> FailureOf(const Result<Reply>& answer) {
  if (!answer.ok()) return HandshakeFailure{answer.error(), false};
  if (!answer->is_error()) return std::nullopt;
  Error error = answer->ToError();
  const bool passing = IsPassing(error);
  return HandshakeFailure{std::move(error), !passing};
}

std::optional<HandshakeFailure> LogIn(Talk& talk, const ConnectionOptions& options) {
  const std::string_view user = options.user.empty() ? std::string_view("default") : options.user;
  Words hello = {"HELLO", "3"};
  if (!options.password.empty()) hello.insert(hello.end(), {"AUTH", user, options.password});
  if (!options.client_name.empty()) hello.insert(hello.end(), {"SETNAME", options.client_name});
  const Result<Reply> answer = talk.Ask(hello);
  auto failure = FailureOf(answer);
  if (!failure) {
    if (IsHelloAnswer(*answer)) return std::nullopt;
    return HandshakeFailure{Unreachable(PeerName(options), "what listens there does not speak RESP"), false};
  }
  const ErrorCode code = failure->error.code();
  if (code != ErrorCode::kUnknownCommand && code != ErrorCode::kNoProto) return failure;

  if (!options.password.empty()) {
    Words auth = {"AUTH"};
    if (!options.user.empty()) auth.push_back(user);
    auth.push_back(options.password);
    failure = FailureOf(talk.Ask(auth));
    if (failure) return failure;
  }
  if (options.client_name.empty()) return std::nullopt;
  return FailureOf(talk.Ask({"CLIENT", "SETNAME", options.client_name}));
}

}  // namespace

std::optional<HandshakeFailure> Handshake(int fd, const ConnectionOptions& options, Deadline deadline, int stop_fd,
                                          ReplyParser* parser) {
  Talk talk(fd, PeerName(options), deadline, stop_fd, parser);
  auto failure = LogIn(talk, options);
  for (size_t i = 0; !failure && i < options.greeting.size(); ++i) {
    failure = FailureOf(talk.Ask(Words(options.greeting[i].begin(), options.greeting[i].end())));
  }
  return failure;
}

}  // namespace tiercel::resp
