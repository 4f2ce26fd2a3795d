#include "transfer/tcp/address.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>

#include "base/units.h"

namespace tiercel::transfer::tcp {

Result<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  const auto bad = [&] {
    return Error(ErrorCode::kInvalid, fmt::format("\"{}\" is not host:port or [v6]:port", text));
  };
  if (colon == std::string_view::npos || colon == 0) return bad();
  std::string_view host = text.substr(0, colon);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return bad();
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  const auto port = ParseUint64(text.substr(colon + 1));
  if (!port || *port == 0 || *port > 65535) return bad();
  return HostPort{.host = std::string(host), .port = static_cast<uint16_t>(*port)};
}

namespace {

Result<std::vector<SocketAddress>> GetAddresses(const std::string& host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const char* name = host.empty() ? nullptr : host.c_str();
  const int rc = getaddrinfo(name, std::to_string(port).c_str(), &hints, &found);
  if (rc != 0) return Error(ErrorCode::kUnreachable, fmt::format("resolve {}: {}", host, gai_strerror(rc)));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.length = a->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(found);
  if (addresses.empty()) return Error(ErrorCode::kUnreachable, "resolve " + host + ": no address");
  return addresses;
}

}  // namespace

Result<std::vector<SocketAddress>> Resolve(const std::string& host, uint16_t port, bool passive) {
  const int flags = passive ? AI_PASSIVE : 0;
  auto numeric = GetAddresses(host, port, flags | AI_NUMERICHOST);
  return numeric.ok() ? std::move(numeric) : GetAddresses(host, port, flags);
}

std::optional<SocketAddress> NumericAddress(const std::string& host, uint16_t port) {
  auto found = GetAddresses(host, port, AI_NUMERICHOST);
  if (!found.ok()) return std::nullopt;
  return found->front();
}

std::string AddressText(const SocketAddress& address) {
  char host[NI_MAXHOST];
  char service[NI_MAXSERV];
  if (getnameinfo(address.get(), address.length, host, sizeof(host), service, sizeof(service),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return address.family() == AF_INET6 ? fmt::format("[{}]:{}", host, service) : fmt::format("{}:{}", host, service);
}

SocketAddress LocalAddress(int socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) address.length = 0;
  return address;
}

SocketAddress PeerAddressOf(int socket) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) address.length = 0;
  return address;
}

void TuneDataSocket(int socket) {
  const int on = 1;
  const int probe_s = 5;
  const int probes = 3;
  const unsigned int give_up_ms = 20'000;
  // Each of these may fail on an unusual system; the connection works without.
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  (void)setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s));
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof(give_up_ms));
}

}  // namespace tiercel::transfer::tcp
