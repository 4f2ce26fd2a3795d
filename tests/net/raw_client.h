// A client of a few lines: raw bytes out, replies in. Blocking, with a hang guard.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/resp/encoder.h"
#include "protocol/resp/reply.h"

namespace tiercel::net::test {

inline constexpr int kHangGuardS = 60;

class RawClient {
 public:
  explicit RawClient(uint16_t port) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Finish(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  explicit RawClient(const std::string& unix_path) {
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, unix_path.c_str(), unix_path.size() + 1);
    Finish(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }
  struct Adopt {
    int fd;
  };
  explicit RawClient(Adopt adopt) : fd_(adopt.fd) { Finish(0); }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  int fd() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void Reset() {  // RST instead of FIN
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }
  void ShutdownWrite() { ::shutdown(fd_, SHUT_WR); }

  // False when the peer has closed.
  bool SendRaw(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  static std::string Encode(const std::vector<std::string>& words) {
    std::string out;
    resp::AppendCommandHeader(words.size(), &out);
    for (const std::string& word : words) resp::AppendArgument(word, &out);
    return out;
  }
  bool Send(const std::vector<std::string>& words) { return SendRaw(Encode(words)); }

  // Everything until the peer closes.
  std::string ReadAll() {
    std::string all = std::exchange(raw_, {});
    char buffer[65536];
    ssize_t n;
    while ((n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0) all.append(buffer, static_cast<size_t>(n));
    EXPECT_TRUE(n == 0 || errno == ECONNRESET) << "hang guard: " << std::strerror(errno);
    return all;
  }
  // Exactly n bytes, or what came before the end.
  std::string ReadBytes(size_t n) {
    std::string out;
    while (out.size() < n) {
      char buffer[65536];
      const ssize_t got = ::recv(fd_, buffer, std::min(sizeof(buffer), n - out.size()), 0);
      if (got <= 0) break;
      out.append(buffer, static_cast<size_t>(got));
    }
    return out;
  }
  bool AtEnd() {
    char c;
    const ssize_t n = ::recv(fd_, &c, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }

  resp::Reply Read() {
    while (true) {
      auto reply = parser_.Next();
      if (!reply.ok()) {
        ADD_FAILURE() << "not RESP: " << reply.error().message();
        return Broken();
      }
      if (reply->has_value()) return std::move(**reply);
      char buffer[65536];
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (n <= 0) return Broken();
      parser_.Feed({buffer, static_cast<size_t>(n)});
    }
  }
  resp::Reply Do(const std::vector<std::string>& words) {
    Send(words);
    return Read();
  }
  // The reply as one readable line.
  std::string Text(const std::vector<std::string>& words) { return Show(Do(words)); }

  static std::string Show(const resp::Reply& reply) {
    using Kind = resp::Reply::Kind;
    switch (reply.kind) {
      case Kind::kNull: return "(nil)";
      case Kind::kSimple: return "+" + reply.text;
      case Kind::kError: return "-" + reply.text;
      case Kind::kInteger: return ":" + std::to_string(reply.integer);
      case Kind::kBulk: return "\"" + reply.text + "\"";
      case Kind::kVerbatim: return "=\"" + reply.text + "\"";
      case Kind::kDouble: return "," + std::to_string(reply.number);
      case Kind::kBoolean: return reply.integer != 0 ? "#t" : "#f";
      case Kind::kBigNumber: return "(" + reply.text;
      default: break;
    }
    std::string out = reply.kind == Kind::kMap ? "{" : reply.kind == Kind::kSet ? "~[" : "[";
    for (size_t i = 0; i < reply.items.size(); ++i) out += (i > 0 ? " " : "") + Show(reply.items[i]);
    return out + (reply.kind == Kind::kMap ? "}" : "]");
  }

 private:
  static resp::Reply Broken() {
    resp::Reply reply;
    reply.kind = resp::Reply::Kind::kError;
    reply.text = "CLOSED";
    return reply;
  }
  void Finish(int connected) {
    EXPECT_EQ(connected, 0) << std::strerror(errno);
    const timeval guard{kHangGuardS, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &guard, sizeof(guard));
  }

  int fd_ = -1;
  std::string raw_;
  resp::ReplyParser parser_{{.max_bulk_bytes = uint64_t{4} << 30}};
};

// Bytes that differ everywhere.
inline std::string Pattern(size_t n, uint64_t seed) {
  std::string out(n, '\0');
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < n; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out[i] = static_cast<char>(x);
  }
  return out;
}

}  // namespace tiercel::net::test
