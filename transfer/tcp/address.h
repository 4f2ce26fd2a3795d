// Addresses of data ports: "host:port", "[v6]:port".
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "tiercel/result.h"

namespace tiercel::transfer::tcp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
Result<HostPort> ParseHostPort(std::string_view text);

// All addresses of a host, numeric ones without asking anybody; otherwise it may take as long as the system's resolver
// likes (Resolver bounds that). `passive`: for listening; an empty host is all.
Result<std::vector<SocketAddress>> Resolve(const std::string& host, uint16_t port, bool passive);
std::optional<SocketAddress> NumericAddress(const std::string& host, uint16_t port);

// "127.0.0.1:7380", "[::1]:7380".
std::string AddressText(const SocketAddress& address);
SocketAddress LocalAddress(int socket);
SocketAddress PeerAddressOf(int socket);

// No delay; cubic where this process may choose it (bbr, the default on some systems, costs 10 to 15 % on a local
// network); the kernel gives up on a peer that has vanished after a few seconds. For a socket that is not connected
// yet, or that listens: what it accepts inherits all of it.
void TuneDataSocket(int socket);

}  // namespace tiercel::transfer::tcp
