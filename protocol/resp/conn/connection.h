// A client's connection to a RESP server: pipelining, several threads, reconnection with back-off.
//
// There is no thread behind it: a caller that waits for its reply reads the socket itself, and hands the reading
// over to another waiter when its own reply has come (leader and followers). Futures need someone who waits;
// `Drive` lets a thread of the owner do that.
//
// Replies of calls under way when the connection breaks fail with kUnreachable; nothing is sent twice by itself.
// The next call reconnects (at once, then with back-off) within its own deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/resp/reply.h"
#include "tiercel/result.h"

namespace tiercel::resp {

struct ConnectionOptions {
  std::string host;  // name, v4 or v6 address without brackets
  uint16_t port = 0;
  std::string unix_socket;     // instead of host and port
  int adopted_fd = -1;         // instead of either: a connected socket; then there is no reconnection
  std::string user, password;  // AUTH when a password is set
  std::string client_name;     // CLIENT SETNAME when set
  int64_t connect_timeout_ms = 3000;
  int64_t backoff_first_ms = 100, backoff_cap_ms = 2000;
  uint64_t max_pending = 65'536;  // calls awaiting replies; beyond: kRetry
};

class Connection {
 public:
  // Does not connect yet.
  static std::unique_ptr<Connection> Create(ConnectionOptions options);
  virtual ~Connection() = default;  // calls under way fail with kShutdown

  // Sends one command and waits for its reply. An error reply is a Reply of kind kError; a failure of the
  // connection is an Error. Thread-safe.
  virtual Result<Reply> Call(std::span<const std::string_view> arguments, int64_t timeout_ms) = 0;
  // Several commands in one write; replies in order. All fail together when the connection breaks.
  virtual Result<std::vector<Reply>> Pipeline(std::span<const std::vector<std::string_view>> commands,
                                              int64_t timeout_ms) = 0;
  // Does not wait; the callback runs once on some thread that drives. REQUIRES: somebody drives.
  virtual void CallAsync(std::span<const std::string_view> arguments, int64_t timeout_ms,
                         std::function<void(Result<Reply>)> done) = 0;
  // Reads replies until `stop` is true or the time is over; for the owner's background thread.
  virtual void Drive(int64_t timeout_ms) = 0;
  virtual uint64_t pending() const = 0;
  virtual bool connected() const = 0;
  // Raised by every successful connect (and hand-shake): tells an owner that the peer may be another process.
  virtual uint64_t epoch() const = 0;
  // Wakes every waiter with kShutdown and refuses further calls.
  virtual void Close() = 0;
};

}  // namespace tiercel::resp
