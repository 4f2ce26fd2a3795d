// A client's connection to a RESP server: pipelining, several threads, reconnection with back-off.
//
// There is no thread behind it: a caller that waits for its reply reads the socket itself, and hands the reading
// over to another waiter when its own reply has come (leader and followers). Futures need someone who waits;
// `Drive` lets a thread of the owner do that.
//
// Replies of calls under way when the connection breaks fail with kUnreachable; nothing is sent twice by itself.
// The next call reconnects (at once, then with back-off) within its own deadline. A call of which no byte has been
// sent when the connection breaks is not lost with it: it goes out on the next one.
//
// Large arguments are sent from the caller's memory and large replies received in the reply's: no copy in between.
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
  std::string unix_socket;  // instead of host and port
  int adopted_fd = -1;      // instead of either: a connected socket; then there is no reconnection
  // Instead of all of these: gives a connected socket each time that one is needed, -1 when there is none now. Called
  // by whoever drives the connection, without its lock.
  std::function<int()> adopt = {};
  std::string user, password;  // AUTH when a password is set
  std::string client_name;     // CLIENT SETNAME when set
  // Commands that every new connection sends after it has logged in. One that is answered with an error fails the
  // connect: so a call never runs without what they set.
  std::vector<std::vector<std::string>> greeting;
  int64_t connect_timeout_ms = 3000;
  int64_t backoff_first_ms = 100, backoff_cap_ms = 2000;
  uint64_t max_pending = 65'536;  // calls awaiting replies; beyond: kRetry
};

class Connection {
 public:
  // Does not connect yet.
  static std::unique_ptr<Connection> Create(ConnectionOptions options);
  // Calls under way fail with kShutdown; waits until all threads have left. Not from within a callback.
  virtual ~Connection() = default;

  // Sends one command and waits for its reply. An error reply is a Reply of kind kError; a failure of the
  // connection is an Error: kDeadline, kUnreachable (naming what was tried), kRetry (max_pending), kShutdown, or what
  // a peer that refuses the log-in says (kWrongPass, kNoAuth). After kDeadline the command may still be carried out.
  // Thread-safe.
  virtual Result<Reply> Call(std::span<const std::string_view> arguments, int64_t timeout_ms) = 0;
  // Several commands in as few writes as they fit; replies in order. All fail together when the connection breaks.
  virtual Result<std::vector<Reply>> Pipeline(std::span<const std::vector<std::string_view>> commands,
                                              int64_t timeout_ms) = 0;
  // Copies the arguments and does not wait. The callback runs exactly once, in a thread that drives (in Close's or the
  // destructor's when nobody does); when the call is refused (kRetry, kShutdown), before CallAsync returns.
  // REQUIRES: somebody drives.
  virtual void CallAsync(std::span<const std::string_view> arguments, int64_t timeout_ms,
                         std::function<void(Result<Reply>)> done) = 0;
  // Sends, reads and runs callbacks of CallAsync until the time is over or the connection is closed; for the owner's
  // background thread. Sleeps while there is nothing to drive.
  virtual void Drive(int64_t timeout_ms) = 0;
  virtual uint64_t pending() const = 0;
  virtual bool connected() const = 0;
  // Raised by every successful connect (and hand-shake): tells an owner that the peer may be another process.
  virtual uint64_t epoch() const = 0;
  // Wakes every waiter with kShutdown and refuses further calls.
  virtual void Close() = 0;
};

}  // namespace tiercel::resp
