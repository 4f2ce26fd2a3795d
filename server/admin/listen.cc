#include "server/admin/listen.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace tiercel::admin {
namespace {

// A port that is free for one address may be taken for another; then all start over with another one.
constexpr int kAttempts = 10;

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<Addresses> Resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return Error(ErrorCode::kIo, "resolve " + host + ": " + gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

Result<Listener> ListenOn(const addrinfo& where, const std::string& name) {
  Listener listener{.socket = UniqueFd(socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
                    .address = {}};
  if (!listener.socket) return SystemError("socket for " + name, errno);
  const int on = 1;
  setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Otherwise :: would take IPv4's port as well, and the two could not be bound side by side.
  if (where.ai_family == AF_INET6) setsockopt(listener.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(listener.socket.get(), where.ai_addr, where.ai_addrlen) != 0 || listen(listener.socket.get(), 64) != 0) {
    // Not SystemError: nobody is to try another replica because of this.
    return Error(ErrorCode::kIo, "listen on " + name + ": " + std::strerror(errno));
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, host, sizeof(host), port, sizeof(port),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return Error(ErrorCode::kIo, "name the socket for " + name);
  }
  listener.port = static_cast<uint16_t>(std::stoi(port));
  const std::string shown = where.ai_family == AF_INET6 ? fmt::format("[{}]", host) : std::string(host);
  listener.address = shown + ":" + port;
  return listener;
}

Result<std::vector<Listener>> ListenOnAll(const std::vector<std::string>& binds, uint16_t port) {
  std::vector<Listener> listeners;
  const auto listen_on = [&](const std::string& host) -> Status {
    const uint16_t wanted = port != 0 || listeners.empty() ? port : listeners.front().port;
    TIERCEL_ASSIGN(const Addresses found, Resolve(host, wanted));
    TIERCEL_ASSIGN(Listener listener, ListenOn(*found, fmt::format("{} port {}", host, wanted)));
    listeners.push_back(std::move(listener));
    return Ok();
  };
  for (const std::string& bind : binds) {
    const bool optional = bind.starts_with('-');
    const std::string host = bind.substr(optional ? 1 : 0);
    Status status = host == "*" ? listen_on("0.0.0.0") : listen_on(host);
    if (!status.ok() && !optional) return std::move(status).error();
    if (host == "*") (void)listen_on("::");  // hosts without IPv6
  }
  if (listeners.empty()) return Error(ErrorCode::kIo, "no address to listen on is there");
  return listeners;
}

}  // namespace

Result<std::vector<Listener>> Listen(const std::vector<std::string>& binds, uint16_t port) {
  for (int attempt = 1;; ++attempt) {
    Result<std::vector<Listener>> listeners = ListenOnAll(binds, port);
    if (listeners.ok() || port != 0 || attempt == kAttempts) return listeners;
  }
}

}  // namespace tiercel::admin
