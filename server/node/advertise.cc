#include "server/node/advertise.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/fd.h"
#include "base/units.h"

namespace tiercel::node {

namespace {

bool IsV6(std::string_view host) { return host.find(':') != std::string_view::npos; }

Error BadAddress(std::string_view text, std::string_view why) {
  return {ErrorCode::kInvalid, fmt::format("address '{}': {}", text, why)};
}

std::string NumericHost(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    // A v4 peer of a dual-stack socket is announced as what it is.
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof(text));
    } else {
      inet_ntop(AF_INET6, &v6, text, sizeof(text));
    }
  }
  return text;
}

bool IsReachable(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const uint32_t v4 = ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
    return (v4 >> 16) != 0xA9FE;  // 169.254/16
  }
  if (address->sa_family != AF_INET6) return false;
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return !IN6_IS_ADDR_LINKLOCAL(&v6) && !IN6_IS_ADDR_MULTICAST(&v6);
}

// A data server that takes connections to `local`: bound to it, or to a wildcard that includes it.
const HostPort* ServerFor(const std::vector<HostPort>& bound, const std::string& local) {
  for (const HostPort& server : bound) {
    if (server.host == local) return &server;
  }
  for (const HostPort& server : bound) {
    if (IsWildcard(server.host) && IsV6(server.host) == IsV6(local)) return &server;
  }
  for (const HostPort& server : bound) {
    if (IsWildcard(server.host) && IsV6(server.host)) return &server;  // "::" may take v4 as well
  }
  return nullptr;
}

Result<std::string> Given(const std::string& given, const std::vector<HostPort>& bound) {
  TIERCEL_ASSIGN(HostPort address, ParseHostPort(given));
  if (IsWildcard(address.host)) return BadAddress(given, "a wildcard cannot be announced");
  if (address.port == 0) address.port = bound.front().port;
  return FormatHostPort(address);
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text) {
  HostPort address;
  std::string_view port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return BadAddress(text, "no closing bracket");
    address.host = std::string(text.substr(1, close - 1));
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return BadAddress(text, "something else than a port behind the bracket");
    if (!rest.empty()) port = rest.substr(1);
    if (!rest.empty() && port.empty()) return BadAddress(text, "no port behind the colon");
  } else if (std::count(text.begin(), text.end(), ':') > 1) {
    address.host = std::string(text);
  } else if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    address.host = std::string(text.substr(0, colon));
    port = text.substr(colon + 1);
    if (port.empty()) return BadAddress(text, "no port behind the colon");
  } else {
    address.host = std::string(text);
  }
  if (address.host.empty()) return BadAddress(text, "no host");
  if (!port.empty()) {
    const auto number = ParseUint64(port);
    if (!number || *number == 0 || *number > 65'535) return BadAddress(text, "the port is not between 1 and 65535");
    address.port = static_cast<uint16_t>(*number);
  }
  return address;
}

std::string FormatHostPort(const HostPort& address) {
  return IsV6(address.host) ? fmt::format("[{}]:{}", address.host, address.port)
                            : fmt::format("{}:{}", address.host, address.port);
}

bool IsWildcard(std::string_view host) {
  if (host.empty() || host == "*") return true;
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

Result<std::string> ChooseAdvertised(const AdvertiseInputs& inputs) {
  std::vector<HostPort> bound;
  for (const std::string& text : inputs.bound) {
    TIERCEL_ASSIGN(HostPort address, ParseHostPort(text));
    bound.push_back(std::move(address));
  }
  if (bound.empty()) return Error(ErrorCode::kInvalid, "no data port is open");
  if (!inputs.given.empty()) return Given(inputs.given, bound);
  if (!inputs.local.empty()) {
    if (const HostPort* server = ServerFor(bound, inputs.local)) {
      return FormatHostPort({inputs.local, server->port});
    }
  }
  for (const HostPort& server : bound) {
    if (!IsWildcard(server.host)) return FormatHostPort(server);
  }
  for (const std::string& local : inputs.interfaces) {
    if (const HostPort* server = ServerFor(bound, local)) return FormatHostPort({local, server->port});
  }
  return Error(ErrorCode::kInvalid,
               fmt::format("the data port is bound to {} and no address of this host is known to announce: set "
                           "data-advertise",
                           inputs.bound.front()));
}

std::vector<std::string> InterfaceAddresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  std::vector<std::string> v4, v6;
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (!IsReachable(i->ifa_addr)) continue;
    (i->ifa_addr->sa_family == AF_INET ? v4 : v6).push_back(NumericHost(i->ifa_addr));
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

std::string LocalAddressTowards(const std::string& host, uint16_t port, int64_t timeout_ms) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const UniqueFd fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    if (connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0) {
      pollfd wait{fd.get(), POLLOUT, 0};
      if (errno != EINPROGRESS || poll(&wait, 1, static_cast<int>(timeout_ms)) != 1) continue;
      int error = 0;
      socklen_t length = sizeof(error);
      if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) continue;
    }
    sockaddr_storage local{};
    socklen_t length = sizeof(local);
    if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    return NumericHost(reinterpret_cast<const sockaddr*>(&local));
  }
  return {};
}

}  // namespace tiercel::node
