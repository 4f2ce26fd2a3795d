#include "server/net/listener.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/ip/address.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace tiercel::net {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);
constexpr std::string_view kNoDescriptors = "-ERR max number of clients reached\r\n";

struct Target {
  sockaddr_storage address{};
  socklen_t length = 0;
  std::string name;  // as the operator wrote it
  bool optional = false;
};

void SetOption(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); }

std::string Describe(const sockaddr_storage& address, std::string* ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    *ip = text.data();
    return fmt::format("{}:{}", *ip, ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    *ip = text.data();
    return fmt::format("{}:{}", *ip, ntohs(v6.sin6_port));
  }
  ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  *ip = text.data();
  return fmt::format("[{}]:{}", *ip, ntohs(v6.sin6_port));
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

void SetPort(sockaddr_storage* address, uint16_t port) {
  if (address->ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  }
}

Status Resolve(const std::string& text, std::vector<Target>* out) {
  const bool optional = text.size() > 1 && text.front() == '-';
  const std::string name = optional ? text.substr(1) : text;
  if (name == "*") {
    TIERCEL_TRY(Resolve("0.0.0.0", out));
    return Resolve("-::", out);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  std::string plain = name;
  if (plain.size() > 2 && plain.front() == '[' && plain.back() == ']') plain = plain.substr(1, plain.size() - 2);
  if (const int failed = ::getaddrinfo(plain.c_str(), nullptr, &hints, &found); failed != 0) {
    if (optional) return Ok();
    return Error(ErrorCode::kInvalid, fmt::format("bind {}: {}", name, ::gai_strerror(failed)));
  }
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    Target target;
    std::memcpy(&target.address, at->ai_addr, at->ai_addrlen);
    target.length = at->ai_addrlen;
    target.name = name;
    target.optional = optional;
    out->push_back(std::move(target));
  }
  ::freeaddrinfo(found);
  return Ok();
}

Result<BoundSocket> BindOne(Target target, uint16_t port, bool v6_only, const BindRequest& request, int* error) {
  SetPort(&target.address, port);
  const int family = target.address.ss_family;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string what = fmt::format("bind {} port {}", target.name, port);
  const auto fail = [&] {
    *error = errno;
    return SystemError(what, *error);
  };
  if (!fd) return fail();
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (family == AF_INET6) SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, v6_only ? 1 : 0);
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (request.keepalive_s > 0) {
    SetOption(fd.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
    SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPIDLE, request.keepalive_s);
    SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, request.keepalive_s / 3));
    SetOption(fd.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  }
  // Pacing by bandwidth estimates costs large values 10 to 15 % on a local network; refused without the module.
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&target.address), target.length) != 0) return fail();
  if (::listen(fd.get(), request.backlog) != 0) return fail();
  BoundSocket bound;
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0) return fail();
  std::string ip;
  bound.address = Describe(own, &ip);
  bound.port = PortOf(own);
  bound.socket = std::move(fd);
  return bound;
}

bool MayBeMissing(int error) {
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT || error == EPROTONOSUPPORT || error == EINVAL;
}

}  // namespace

Result<std::vector<BoundSocket>> BindTcp(const BindRequest& request) {
  std::vector<Target> targets;
  for (const std::string& address : request.addresses) TIERCEL_TRY(Resolve(address, &targets));
  const bool has_v4 = std::any_of(targets.begin(), targets.end(),
                                  [](const Target& target) { return target.address.ss_family == AF_INET; });
  // With port 0 the system picks one for the first address; another may have it taken: then all begin again.
  constexpr int kPortsTried = 16;
  for (int attempt = 0;; ++attempt) {
    std::vector<BoundSocket> bound;
    uint16_t port = request.port;
    bool again = false;
    for (const Target& target : targets) {
      int error = 0;
      Result<BoundSocket> one = BindOne(target, port, has_v4, request, &error);
      if (one.ok()) {
        port = one->port;
        bound.push_back(std::move(*one));
        continue;
      }
      if (target.optional && MayBeMissing(error)) continue;
      if (request.port == 0 && error == EADDRINUSE && attempt < kPortsTried) {
        again = true;
        break;
      }
      return one.error();
    }
    if (again) continue;
    if (bound.empty()) return Error(ErrorCode::kIo, "bind: no address of this host is among those given");
    return bound;
  }
}

Result<BoundSocket> BindUnix(const std::string& path, unsigned permissions, int backlog) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error(ErrorCode::kInvalid,
                 fmt::format("unixsocket {}: longer than {} bytes", path, sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const std::string what = fmt::format("unixsocket {}", path);
  // What a former process left behind is removed; a socket that somebody serves is not.
  {
    UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe) return SystemError(what, errno);
    struct stat status{};
    if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      if (::connect(probe.get(), name, sizeof(address)) == 0) return SystemError(what, EADDRINUSE);
      ::unlink(path.c_str());
    }
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return SystemError(what, errno);
  if (::bind(fd.get(), name, sizeof(address)) != 0) return SystemError(what, errno);
  if (permissions != 0 && ::chmod(path.c_str(), permissions) != 0) return SystemError(what, errno);
  if (::listen(fd.get(), backlog) != 0) return SystemError(what, errno);
  return BoundSocket{std::move(fd), "unix:" + path, 0};
}

Listener::Listener(Loop& loop, BoundSocket bound, Accepted accepted, Paused paused)
    : socket_(loop.context(), bound.socket.Release()),
      pause_(loop.context()),
      address_(std::move(bound.address)),
      accepted_(std::move(accepted)),
      paused_(std::move(paused)),
      reserve_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

void Listener::Start() { Wait(); }

void Listener::Stop() {
  asio::error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
}

void Listener::Wait() {
  if (!socket_.is_open()) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) AcceptSome();
  });
}

void Listener::AcceptSome() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    UniqueFd fd(::accept4(socket_.native_handle(), reinterpret_cast<sockaddr*>(&address), &length,
                          SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        OutOfDescriptors();
        return;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      break;  // EAGAIN, or an error of that connection alone
    }
    Peer peer;
    if (address.ss_family == AF_INET || address.ss_family == AF_INET6) {
      peer.address = Describe(address, &peer.ip);
      asio::error_code bad;
      peer.local = asio::ip::make_address(peer.ip, bad).is_loopback();
      sockaddr_storage own{};
      socklen_t own_length = sizeof(own);
      std::string own_ip;
      if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_length) == 0) {
        peer.local_address = Describe(own, &own_ip);
      }
    } else {
      peer.address = peer.local_address = address_.substr(5) + ":0";  // as Redis shows them
      peer.local = true;
    }
    accepted_(std::move(fd), std::move(peer));
  }
  Wait();
}

void Listener::OutOfDescriptors() {
  reserve_.Reset();
  {
    UniqueFd fd(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) static_cast<void>(::send(fd.get(), kNoDescriptors.data(), kNoDescriptors.size(), MSG_NOSIGNAL));
  }
  reserve_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  paused_();
  pause_.expires_after(kPause);
  pause_.async_wait([this](const asio::error_code& error) {
    if (!error) Wait();
  });
}

}  // namespace tiercel::net
