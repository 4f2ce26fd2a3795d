// Both ends of a data connection by hand: peers that misbehave, and clients that do.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "transfer/frames.h"

namespace tiercel::transfer {

// A blocking connection. Calls end with false when the other side, or Shutdown, ends it.
class RawConnection {
 public:
  explicit RawConnection(UniqueFd socket) : socket_(std::move(socket)) {}
  // "host:port", or a path when it contains a slash. Fails the test when it cannot.
  static std::unique_ptr<RawConnection> Connect(const std::string& address);

  bool Send(std::span<const std::byte> bytes);
  bool SendText(std::string_view text) { return Send(std::as_bytes(std::span(text.data(), text.size()))); }
  bool SendWithFile(std::span<const std::byte> bytes, int file);
  bool Read(std::span<std::byte> bytes);  // all of them
  // Header and body; payload is left to the caller.
  bool ReadFrame(FrameHeader* header, FrameBytes* body);
  bool Drain(uint64_t bytes);
  void WaitClosed();  // reads until the end
  void Shutdown();
  int fd() const { return socket_.get(); }

  // As a client.
  bool Greet(const Ticket& ticket, Incarnation expected, uint8_t minor = kProtocolMinor);

 private:
  UniqueFd socket_;
};

// A peer that runs `talk` for each connection, on a thread of its own. An empty `talk` never accepts anybody.
class RawPeer {
 public:
  using Talk = std::function<void(RawConnection&)>;
  RawPeer(bool local, Talk talk);
  ~RawPeer();
  // A TCP peer that does not listen yet holds its port, so that nobody else gets it.
  static std::unique_ptr<RawPeer> Reserve(Talk talk);
  void Listen();

  const std::string& address() const { return address_; }
  int accepted() const { return accepted_; }

 private:
  RawPeer() = default;
  void Bind(bool local);
  void AcceptAll();

  std::string address_;
  bool local_ = false;
  Talk talk_;
  UniqueFd listener_;
  std::thread acceptor_;
  std::mutex mu_;
  bool stopped_ = false;
  std::list<RawConnection> connections_;
  std::vector<std::thread> threads_;
  std::atomic<int> accepted_{0};
};

// Answers HELLO as a peer of this incarnation would, claiming this minor; false when there was no HELLO.
bool AnswerHello(RawConnection& connection, Incarnation incarnation, uint8_t claimed_minor = kProtocolMinor);

// Passes bytes between clients and a server, and flips one bit of the stream on the way.
class FlippingProxy {
 public:
  enum class Direction { kToServer, kToClient };
  explicit FlippingProxy(std::string server_address);
  ~FlippingProxy();
  const std::string& address() const { return peer_->address(); }
  // The bit `bit` of the byte that is `offset` bytes behind the beginning of each connection's stream. Connections
  // made before are not touched.
  void Flip(Direction direction, uint64_t offset, int bit);
  void Clear();
  uint64_t flips() const { return flips_; }

 private:
  struct Spot {
    Direction direction;
    uint64_t offset;
    int bit;
  };
  void Pump(RawConnection& from, RawConnection& to, Direction direction, std::optional<Spot> spot);

  const std::string server_;
  std::mutex mu_;
  std::optional<Spot> spot_;
  std::atomic<uint64_t> flips_{0};
  std::unique_ptr<RawPeer> peer_;
};

std::string TemporarySocketPath();

}  // namespace tiercel::transfer
