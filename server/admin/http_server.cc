// A connection is read until its head is complete or refused, answered, and closed in three steps: no more to send,
// what the peer still sends is thrown away for a moment, close. Closing at once would reset the connection while the
// rest of a request that is too large is on its way, and the answer would be lost with it.
#include "server/admin/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/clock.h"

namespace tiercel::admin {
namespace {

// For one turn, so that a fast sender does not keep the others waiting.
constexpr int kReadsPerTurn = 16;
constexpr size_t kReadBytes = size_t{16} << 10;
constexpr int64_t kOutOfDescriptorsMs = 100;

int64_t NowMs() { return MonotonicNanos() / 1'000'000; }

const char* Reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
  }
}

std::string Encode(const HttpAnswer& answer, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{}Connection: "
      "close\r\n\r\n{}",
      answer.status, Reason(answer.status), answer.type, answer.body.size(),
      answer.status == 405 ? "Allow: GET, HEAD\r\n" : "", with_body ? answer.body : "");
}

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

HttpServer::HttpServer(std::vector<Listener> listeners, std::vector<Route> routes)
    : listeners_(std::move(listeners)), routes_(std::move(routes)) {}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  const uint64_t one = 1;
  TIERCEL_CHECK(write(wake_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
}

Status HttpServer::Start() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return SystemError("create an event descriptor", errno);
  thread_ = std::thread([this] { Run(); });
  return Ok();
}

void HttpServer::Run() {
  pthread_setname_np(pthread_self(), "admin");
  while (!stopping_) {
    const int ready = PollOnce(NowMs());
    TIERCEL_CHECK(ready >= 0 || errno == EINTR || errno == ENOMEM);
    const int64_t now_ms = NowMs();
    // Every socket is tried: at most 64, none of which blocks.
    for (Connection& connection : connections_) Advance(&connection, now_ms);
    connections_.remove_if(
        [&](const Connection& c) { return c.state == Connection::State::kDone || c.deadline_ms <= now_ms; });
    if (now_ms < accept_again_ms_) continue;
    for (const Listener& listener : listeners_) Accept(listener, now_ms);
  }
  connections_.clear();
}

int HttpServer::PollOnce(int64_t now_ms) {
  std::vector<pollfd> polled = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  int64_t until_ms = now_ms + 60'000;
  if (now_ms < accept_again_ms_) {
    until_ms = std::min(until_ms, accept_again_ms_);
  } else if (connections_.size() < kMaxConnections) {
    for (const Listener& listener : listeners_) {
      polled.push_back({.fd = listener.socket.get(), .events = POLLIN, .revents = 0});
    }
  }
  for (const Connection& connection : connections_) {
    const short events = connection.state == Connection::State::kSending ? POLLOUT : POLLIN;
    polled.push_back({.fd = connection.socket.get(), .events = events, .revents = 0});
    until_ms = std::min(until_ms, connection.deadline_ms);
  }
  return poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(until_ms - now_ms, 0)));
}

void HttpServer::Accept(const Listener& listener, int64_t now_ms) {
  while (connections_.size() < kMaxConnections) {
    UniqueFd socket(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool out_of_descriptors = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (out_of_descriptors) accept_again_ms_ = now_ms + kOutOfDescriptorsMs;
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    Connection& connection = connections_.emplace_back();
    connection.socket = std::move(socket);
    connection.deadline_ms = now_ms + kHeadTimeoutMs;
    Advance(&connection, now_ms);
  }
}

void HttpServer::Advance(Connection* connection, int64_t now_ms) {
  if (connection->state == Connection::State::kReading) Read(connection, now_ms);
  if (connection->state == Connection::State::kSending) Send(connection, now_ms);
  if (connection->state == Connection::State::kLingering) Linger(connection);
}

void HttpServer::Read(Connection* connection, int64_t now_ms) {
  char buffer[kReadBytes];
  while (connection->state == Connection::State::kReading) {
    const size_t room = kMaxHeadBytes - connection->in.size();
    const ssize_t got = recv(connection->socket.get(), buffer, std::min(sizeof(buffer), room), 0);
    if (got < 0) {
      if (!WouldBlock()) connection->state = Connection::State::kDone;
      return;
    }
    if (got == 0) {
      // The peer has nothing more to say. A head that is not complete will never be.
      connection->state = Connection::State::kDone;
      if (!connection->in.empty()) {
        Respond(connection, {.state = HeadResult::State::kRefused, .request = {}, .status = 400}, now_ms);
      }
      return;
    }
    connection->in.append(buffer, static_cast<size_t>(got));
    const HeadResult head = ParseHead(connection->in);
    if (head.state != HeadResult::State::kIncomplete) Respond(connection, head, now_ms);
  }
}

void HttpServer::Respond(Connection* connection, const HeadResult& head, int64_t now_ms) {
  const bool refused = head.state == HeadResult::State::kRefused;
  const HttpAnswer answer = refused ? HttpAnswer{.status = head.status, .body = std::string(Reason(head.status)) + "\n"}
                                    : Answer(head.request);
  const bool with_body = refused || head.request.method != "HEAD";
  connection->out = Encode(answer, with_body);
  connection->state = Connection::State::kSending;
  connection->deadline_ms = now_ms + kSendTimeoutMs;
}

HttpAnswer HttpServer::Answer(const HttpRequest& request) const {
  const auto route =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.path == request.path; });
  if (route == routes_.end()) return {.status = 404, .body = "not found\n"};
  if (request.method != "GET" && request.method != "HEAD") return {.status = 405, .body = "GET and HEAD only\n"};
  return route->get();
}

void HttpServer::Send(Connection* connection, int64_t now_ms) {
  while (connection->sent < connection->out.size()) {
    const ssize_t sent = send(connection->socket.get(), connection->out.data() + connection->sent,
                              connection->out.size() - connection->sent, MSG_NOSIGNAL);
    if (sent < 0) {
      if (!WouldBlock()) connection->state = Connection::State::kDone;
      return;
    }
    connection->sent += static_cast<size_t>(sent);
  }
  shutdown(connection->socket.get(), SHUT_WR);
  connection->state = Connection::State::kLingering;
  connection->deadline_ms = now_ms + kLingerMs;
}

void HttpServer::Linger(Connection* connection) {
  char buffer[kReadBytes];
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t got = recv(connection->socket.get(), buffer, sizeof(buffer), 0);
    if (got > 0) continue;
    if (got == 0 || !WouldBlock()) connection->state = Connection::State::kDone;
    return;
  }
}

}  // namespace tiercel::admin
