#include "tests/resp_conn/scripted_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <map>

#include "base/check.h"
#include "base/random.h"
#include "protocol/resp/encoder.h"

namespace tiercel::resp {

bool Peer::Fill() {
  if (used_ > 0) {
    buffer_.erase(0, used_);
    used_ = 0;
  }
  char bytes[65536];
  const ssize_t got = read(fd_.get(), bytes, sizeof(bytes));
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::optional<Command> Peer::Read() {
  if (!fd_) return std::nullopt;
  while (true) {
    const Decoder::Step step = decoder_.Next(std::span(buffer_).subspan(used_));
    if (step.event == Decoder::Event::kCommand) {
      Command command(decoder_.arguments().begin(), decoder_.arguments().end());
      used_ += step.consumed;
      return command;
    }
    used_ += step.consumed;
    if (step.event == Decoder::Event::kError || !Fill()) return std::nullopt;
  }
}

bool Peer::Expect(std::string_view name) {
  const auto command = Read();
  return command && command->front() == name;
}

bool Peer::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Peer::WriteByByte(std::string_view bytes) {
  for (const char& byte : bytes) {
    if (!Write({&byte, 1})) return false;
  }
  return true;
}

bool Peer::Greet() { return Expect("HELLO") && Write(kHelloReply); }

std::string BulkOf(std::string_view bytes) {
  std::string out;
  Encoder(&out, 3).Bulk(bytes);
  return out;
}

std::string ScriptedServer::UnusedPath() { return "/tmp/tiercel-resp-test-" + std::to_string(RandomId()); }

ScriptedServer::ScriptedServer(Script script, Where where, std::string path) : stop_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_storage address{};
  socklen_t size = 0;
  if (where == Where::kV4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof(*v4);
  } else if (where == Where::kV6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_loopback;
    size = sizeof(*v6);
  } else {
    path_ = std::move(path);
    auto* local = reinterpret_cast<sockaddr_un*>(&address);
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path, path_.data(), path_.size());
    size = sizeof(*local);
  }
  listener_ = UniqueFd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  TIERCEL_CHECK(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  TIERCEL_CHECK(listen(listener_.get(), 16) == 0);
  TIERCEL_CHECK(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  if (where == Where::kV4) port_ = ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (where == Where::kV6) port_ = ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  thread_ = std::thread([this, script = std::move(script)] { Serve(script); });
}

ScriptedServer::~ScriptedServer() {
  const uint64_t one = 1;
  TIERCEL_CHECK(write(stop_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
  if (!path_.empty()) unlink(path_.c_str());
}

void ScriptedServer::Serve(const Script& script) {
  for (int number = 0;; ++number) {
    pollfd fds[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(fds, 2, -1) < 0) {
    }
    if (fds[1].revents != 0) return;
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));  // refused by UNIX sockets, which need none
    Peer peer(fd);
    script(peer, number);
  }
}

void ServeAsRedis(Peer& peer, int) {
  std::map<std::string, std::string> kept;
  while (auto command = peer.Read()) {
    const std::string& name = command->front();
    std::string reply;
    Encoder encoder(&reply, 3);
    if (name == "HELLO") {
      encoder.Raw(kHelloReply);
    } else if (name == "PING") {
      encoder.Simple("PONG");
    } else if (name == "ECHO") {
      encoder.Bulk(command->at(1));
    } else if (name == "SET") {
      kept[command->at(1)] = command->at(2);
      encoder.Simple("OK");
    } else if (name == "GET") {
      encoder.Bulk(kept[command->at(1)]);
    } else {
      encoder.ErrorLine("ERR unknown command '" + name + "', with args beginning with: ");
    }
    if (!peer.Write(reply)) return;
  }
}

}  // namespace tiercel::resp
