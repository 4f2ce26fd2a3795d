#include "tests/transfer/raw.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "base/check.h"

namespace tiercel::transfer {

std::string TemporarySocketPath() {
  static std::atomic<int> next{0};
  return "/tmp/tiercel-transfer-" + std::to_string(getpid()) + "-" + std::to_string(next++) + ".sock";
}

std::unique_ptr<RawConnection> RawConnection::Connect(const std::string& address) {
  UniqueFd fd;
  int rc = -1;
  if (address.find('/') != std::string::npos) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::strncpy(to.sun_path, address.c_str(), sizeof(to.sun_path) - 1);
    fd = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    rc = connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    const size_t colon = address.rfind(':');
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    fd = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    rc = connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to));
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  TIERCEL_CHECK(rc == 0, "a raw connection");
  return std::make_unique<RawConnection>(std::move(fd));
}

bool RawConnection::Send(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawConnection::SendWithFile(std::span<const std::byte> bytes, int file) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &file, sizeof(int));
  return sendmsg(fd(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

bool RawConnection::Read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = recv(fd(), bytes.data(), bytes.size(), 0);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

bool RawConnection::ReadFrame(FrameHeader* header, FrameBytes* body) {
  std::byte bytes[kHeaderBytes];
  if (!Read(bytes)) return false;
  Result<FrameHeader> decoded = DecodeHeader(bytes);
  if (!decoded.ok()) return false;
  *header = *decoded;
  body->resize(header->body_bytes);
  return Read(*body) && BodyIsIntact(*header, *body);
}

bool RawConnection::Drain(uint64_t bytes) {
  std::vector<std::byte> scratch(64 * 1024);
  while (bytes > 0) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes, scratch.size()));
    if (!Read({scratch.data(), n})) return false;
    bytes -= n;
  }
  return true;
}

void RawConnection::WaitClosed() {
  std::byte scratch[4096];
  while (recv(fd(), scratch, sizeof(scratch), 0) > 0) {
  }
}

void RawConnection::Shutdown() { shutdown(fd(), SHUT_RDWR); }

bool RawConnection::Greet(const Ticket& ticket, Incarnation expected, uint8_t minor) {
  FrameBytes out;
  AppendHello(minor, {.ticket = ticket, .expected = expected}, &out);
  FrameHeader header;
  FrameBytes body;
  return Send(out) && ReadFrame(&header, &body) && header.type == FrameType::kHelloOk;
}

RawPeer::RawPeer(bool local, Talk talk) : talk_(std::move(talk)) {
  Bind(local);
  Listen();
}

std::unique_ptr<RawPeer> RawPeer::Reserve(Talk talk) {
  auto peer = std::unique_ptr<RawPeer>(new RawPeer);
  peer->talk_ = std::move(talk);
  peer->Bind(false);
  return peer;
}

void RawPeer::Bind(bool local) {
  local_ = local;
  if (local) {
    address_ = TemporarySocketPath();
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strncpy(at.sun_path, address_.c_str(), sizeof(at.sun_path) - 1);
    listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    TIERCEL_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0);
    return;
  }
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TIERCEL_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0);
  socklen_t length = sizeof(at);
  TIERCEL_CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0);
  address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
}

void RawPeer::Listen() {
  TIERCEL_CHECK(listen(listener_.get(), 64) == 0);
  if (talk_) acceptor_ = std::thread([this] { AcceptAll(); });
}

void RawPeer::AcceptAll() {
  for (;;) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    std::lock_guard lock(mu_);
    if (stopped_) return;
    ++accepted_;
    RawConnection* connection = &connections_.emplace_back(std::move(socket));
    threads_.emplace_back([this, connection] {
      talk_(*connection);
      connection->Shutdown();
    });
  }
}

RawPeer::~RawPeer() {
  {
    std::lock_guard lock(mu_);
    stopped_ = true;
    for (RawConnection& connection : connections_) connection.Shutdown();
  }
  shutdown(listener_.get(), SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  if (local_) unlink(address_.c_str());
}

bool AnswerHello(RawConnection& connection, Incarnation incarnation, uint8_t claimed_minor) {
  FrameHeader header;
  FrameBytes body;
  if (!connection.ReadFrame(&header, &body) || header.type != FrameType::kHello) return false;
  FrameBytes out;
  AppendHelloOk(claimed_minor,
                {.incarnation = incarnation, .minor = std::min(claimed_minor, kProtocolMinor), .grant_time_ms = 0},
                &out);
  return connection.Send(out);
}

FlippingProxy::FlippingProxy(std::string server_address) : server_(std::move(server_address)) {
  peer_ = std::make_unique<RawPeer>(false, [this](RawConnection& client) {
    std::optional<Spot> spot;
    {
      std::lock_guard lock(mu_);
      spot = spot_;
    }
    auto server = RawConnection::Connect(server_);
    std::thread back([&] { Pump(*server, client, Direction::kToClient, spot); });
    Pump(client, *server, Direction::kToServer, spot);
    back.join();
  });
}

FlippingProxy::~FlippingProxy() { peer_.reset(); }

void FlippingProxy::Flip(Direction direction, uint64_t offset, int bit) {
  std::lock_guard lock(mu_);
  spot_ = Spot{direction, offset, bit};
}

void FlippingProxy::Clear() {
  std::lock_guard lock(mu_);
  spot_.reset();
}

void FlippingProxy::Pump(RawConnection& from, RawConnection& to, Direction direction, std::optional<Spot> spot) {
  std::vector<std::byte> buffer(256 * 1024);
  uint64_t passed = 0;
  for (;;) {
    const ssize_t n = recv(from.fd(), buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    const auto got = static_cast<uint64_t>(n);
    if (spot && spot->direction == direction && spot->offset >= passed && spot->offset < passed + got) {
      buffer[spot->offset - passed] ^= std::byte(1 << spot->bit);
      ++flips_;
    }
    passed += got;
    if (!to.Send({buffer.data(), static_cast<size_t>(got)})) break;
  }
  from.Shutdown();
  to.Shutdown();
}

}  // namespace tiercel::transfer
