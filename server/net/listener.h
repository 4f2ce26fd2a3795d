// Listener: one listening socket; accepted connections go to a callback, in its loop.
//
// Out of descriptors (EMFILE, ENFILE) it neither spins nor leaves the peer hanging: it gives up a descriptor kept in
// reserve, accepts, says so, closes, and pauses.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop/loop.h"
#include "tiercel/result.h"

namespace tiercel::net {

// Bound and listening. Options set here are inherited by every accepted connection.
struct BoundSocket {
  UniqueFd socket;
  std::string address;  // as it can be pasted back: "127.0.0.1:7379", "[::1]:7379", "unix:/path"
  uint16_t port = 0;
};

struct BindRequest {
  std::vector<std::string> addresses;  // "*": any; a leading '-': may fail
  uint16_t port = 0;
  int backlog = 511;
  int keepalive_s = 300;
};
// All addresses on one port. kIo naming address and cause.
Result<std::vector<BoundSocket>> BindTcp(const BindRequest& request);
Result<BoundSocket> BindUnix(const std::string& path, unsigned permissions, int backlog);

class Listener {
 public:
  struct Peer {
    std::string address, local_address, ip;  // ip is empty for UNIX sockets
    bool local = false;                      // this host: loopback or a UNIX socket
  };
  using Accepted = std::function<void(UniqueFd socket, Peer peer)>;
  using Paused = std::function<void()>;

  Listener(Loop& loop, BoundSocket bound, Accepted accepted, Paused paused);
  void Start();  // in the loop
  void Stop();   // in the loop, or after it has ended

 private:
  static constexpr int kAcceptsPerEvent = 64;
  void Wait();
  void AcceptSome();
  void OutOfDescriptors();

  asio::posix::stream_descriptor socket_;
  asio::steady_timer pause_;
  const std::string address_;
  Accepted accepted_;
  Paused paused_;
  UniqueFd reserve_;
};

}  // namespace tiercel::net
