#include "transfer/tcp/server.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/fd.h"
#include "transfer/session/stream_server.h"
#include "transfer/tcp/address.h"

namespace tiercel::transfer::tcp {
namespace {

constexpr int kBacklog = 512;

Result<UniqueFd> Listen(const SocketAddress& address) {
  const std::string where = AddressText(address);
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return SystemError("create a socket for " + where, errno);
  const int on = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (address.family() == AF_INET6 && setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)) {
    return SystemError("prepare a socket for " + where, errno);
  }
  // Accepted sockets inherit this, and must not get it later: bbr, once begun, leaves its pacing timer behind.
  TuneDataSocket(socket.get());
  if (bind(socket.get(), address.get(), address.length) != 0) return SystemError("bind " + where, errno);
  if (listen(socket.get(), kBacklog) != 0) return SystemError("listen on " + where, errno);
  return socket;
}

void SetPort(SocketAddress* address, uint16_t port) {
  if (address->family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address->storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address->storage)->sin_port = htons(port);
  }
}

uint16_t PortOf(const SocketAddress& address) {
  return ntohs(address.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                                            : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace

Result<std::unique_ptr<Server>> MakeServer(const ServerOptions& options, Target* target) {
  std::vector<UniqueFd> listeners;
  StreamServer::Options server;
  uint16_t port = options.port;
  for (const std::string& host : options.bind) {
    TIERCEL_ASSIGN(const std::vector<SocketAddress> addresses, Resolve(host, port, /*passive=*/true));
    SocketAddress address = addresses.front();
    SetPort(&address, port);
    TIERCEL_ASSIGN(UniqueFd listener, Listen(address));
    const SocketAddress bound = LocalAddress(listener.get());
    port = PortOf(bound);
    if (listeners.empty()) server.address = AddressText(bound);
    listeners.push_back(std::move(listener));
  }
  if (listeners.empty()) return Error(ErrorCode::kInvalid, "a data port without an address");
  server.name = "data";
  server.threads = options.threads;
  server.limits = options.limits;
  server.peer_text = [](int socket) { return AddressText(PeerAddressOf(socket)); };
  return std::unique_ptr<Server>(new StreamServer(std::move(server), std::move(listeners), target));
}

}  // namespace tiercel::transfer::tcp
