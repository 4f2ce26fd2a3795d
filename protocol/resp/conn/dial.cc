#include "protocol/resp/conn/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "protocol/resp/conn/wait.h"

namespace tiercel::resp {
namespace {

// A peer that is gone without a word is noticed after this long at most.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepCount = 3;
constexpr unsigned kUnacknowledgedMs = 30'000;

void SetOption(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof(value)); }

void TuneTcp(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepCount);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(kUnacknowledgedMs));
}

// Where nobody listens on a port of the range from which the kernel draws clients' ports, a socket on the same host
// can be given that very port, and then reaches itself.
bool IsConnectedToItself(int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return false;
  if (own.ss_family == AF_UNIX) return false;
  return own_size == peer_size && std::memcmp(&own, &peer, own_size) == 0;
}

Result<UniqueFd> ConnectOne(const sockaddr* address, socklen_t length, std::string_view peer, Deadline deadline,
                            int stop_fd) {
  UniqueFd fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return SystemError("socket", errno);
  if (address->sa_family != AF_UNIX) TuneTcp(fd.get());
  if (connect(fd.get(), address, length) == 0) return fd;
  if (errno != EINPROGRESS && errno != EINTR) return Unreachable(peer, errno);
  const Waited waited = WaitFor(fd.get(), POLLOUT, deadline, stop_fd);
  if (waited != Waited::kReady) return WaitError(waited, peer);
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return Unreachable(peer, error);
  if (IsConnectedToItself(fd.get())) return Unreachable(peer, ECONNREFUSED);
  return fd;
}

Result<UniqueFd> DialUnix(const ConnectionOptions& options, Deadline deadline, int stop_fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.unix_socket.size() >= sizeof(address.sun_path)) {
    return Error(ErrorCode::kInvalid, "the path of a UNIX socket has at most " +
                                          std::to_string(sizeof(address.sun_path) - 1) +
                                          " bytes: " + options.unix_socket);
  }
  std::memcpy(address.sun_path, options.unix_socket.data(), options.unix_socket.size());
  return ConnectOne(reinterpret_cast<const sockaddr*>(&address), sizeof(address), options.unix_socket, deadline,
                    stop_fd);
}

std::string AddressName(const addrinfo& address, uint16_t port) {
  char host[NI_MAXHOST] = "?";
  getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  const std::string name = address.ai_family == AF_INET6 ? "[" + std::string(host) + "]" : std::string(host);
  return name + ":" + std::to_string(port);
}

}  // namespace

std::string PeerName(const ConnectionOptions& options) {
  if (options.adopted_fd >= 0 || options.adopt) return "adopted socket";
  if (!options.unix_socket.empty()) return options.unix_socket;
  const bool v6 = options.host.find(':') != std::string::npos;
  return (v6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

Result<UniqueFd> Dial(const ConnectionOptions& options, Deadline deadline, int stop_fd) {
  if (!options.unix_socket.empty()) return DialUnix(options, deadline, stop_fd);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (status != 0) return Unreachable(PeerName(options), gai_strerror(status));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);

  int left = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) ++left;
  std::string tried;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next, --left) {
    // An address that swallows packets may not use up the time of those behind it.
    const Deadline share = Now() + (deadline - Now()) / left;
    auto fd = ConnectOne(at->ai_addr, at->ai_addrlen, AddressName(*at, options.port), share, stop_fd);
    if (fd.ok() || fd.error().code() != ErrorCode::kUnreachable) return fd;
    tried += (tried.empty() ? "" : "; ") + fd.error().message();
  }
  // A single address that was given as such is named once.
  const std::string peer = PeerName(options);
  if (tried.starts_with(peer + ": ")) return Error(ErrorCode::kUnreachable, tried);
  return Error(ErrorCode::kUnreachable, "cannot connect to " + peer + ": " + tried);
}

}  // namespace tiercel::resp
