// Server: the RESP front end: listeners, loops, sessions.
//
//   MasterHost host(&master, &SystemClock::Get());         // not with `roles store`
//   auto users = Users::Create(requirepass, user_specs);
//   auto server = Server::Create(options, ports, std::move(*users), &host);
//   (*server)->Start();                                     // loops run, listeners accept
//   (*server)->AdoptConnection(fd, ...);                    // the embedded store's end of a socket pair
//   ...
//   (*server)->Drain(5000); (*server)->Stop();
//
// Threads: Create, Start and Stop from one thread; the rest from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "server/net/master_host.h"
#include "server/net/ports.h"
#include "server/net/users.h"
#include "tiercel/result.h"

namespace tiercel::net {

// What CONFIG SET may change while running. Every bound of a connection stands here.
struct Limits {
  uint32_t max_clients = 10'000;  // connections of listeners; adopted ones are not counted
  int64_t idle_timeout_ms = 0;    // `timeout`: closes who sends nothing for so long; 0: never. Parked ones are spared
  // Replies that are encoded but not sent. Beyond it a connection is not read further until it is below again; one
  // reply may exceed it by its own length (values above 16 KiB are not buffered but streamed).
  uint64_t reply_budget_bytes = 1 << 20;
  // A connection with unsent replies that takes no byte for so long is closed and counted.
  int64_t idle_write_timeout_ms = 60'000;
  // A large SET or a command that is half received and gets no byte for so long is closed.
  int64_t idle_read_timeout_ms = 300'000;
  uint64_t proto_max_bulk_len = uint64_t{512} << 20;  // largest value or argument, bytes
  // One command without its large values (those go straight into place): arguments of less than 32 KiB each.
  uint64_t query_buffer_limit = uint64_t{64} << 20;
  // Query buffers of all connections together, as far as one is above 1 MiB.
  uint64_t query_buffers_total = uint64_t{512} << 20;
  int64_t put_wait_ms = 200;  // how long a SET waits for space, or for another's put of its key
};

struct ServerOptions {
  std::vector<std::string> binds = {"127.0.0.1", "-::1"};  // addresses or names; "-ADDR": may be missing
  uint16_t port = 0;                                       // 0: the system picks one, the same for all binds
  bool listen_tcp = true;
  std::string unix_socket;        // path; empty: none
  unsigned unix_permissions = 0;  // 0: as the umask leaves it
  uint32_t io_threads = 1;
  int backlog = 511;
  int tcp_keepalive_s = 300;
  bool protected_mode = true;  // without a password only this host is served
  uint32_t databases = 16;     // namespaces for SELECT
  std::string version = "0.1.0";
  std::string run_id;  // 40 hex digits; made up when empty
  std::string config_file, executable;
  Limits limits;
};

// A connection that did not come through a listener.
struct AdoptOptions {
  std::string user = "default";
  std::string name = "store";
  bool store_right = true;
  bool in_process = true;
};

// For metrics: sums over all loops.
struct ServerFigures {
  uint64_t connections = 0, connections_received = 0, connections_rejected = 0;
  uint64_t closed_idle = 0, closed_slow_reader = 0, closed_protocol_error = 0, closed_corrupt = 0;
  uint64_t commands = 0, bytes_in = 0, bytes_out = 0, reads = 0, writes = 0;
  uint64_t values_received = 0, values_sent = 0;            // streamed ones
  uint64_t value_bytes_received = 0, value_bytes_sent = 0;  // streamed ones
  uint64_t parked = 0, accept_pauses = 0;
  uint64_t versions_refused = 0;  // clients and stores of an unknown protocol major
  struct Command {
    std::string name;
    uint64_t calls = 0, usec = 0, failed = 0, rejected = 0;
  };
  std::vector<Command> by_command;                         // those called at least once
  std::vector<std::pair<std::string, uint64_t>> by_error;  // first word -> replies
};

class Server {
 public:
  // Binds and listens. `host` nullptr: a process without the master's role. kIo or kInvalid naming the address.
  static Result<std::unique_ptr<Server>> Create(const ServerOptions& options, const Ports& ports,
                                                std::unique_ptr<Users> users, MasterHost* host);
  virtual ~Server() = default;  // stops

  virtual void Start() = 0;
  // Stops accepting and taking puts (-UNREACHABLE), lets what is under way finish, at most so long, then closes.
  virtual void Drain(int64_t timeout_ms) = 0;
  // Closes everything and joins the loops. Idempotent.
  virtual void Stop() = 0;

  virtual uint16_t port() const = 0;                       // 0 when no TCP listener
  virtual std::vector<std::string> addresses() const = 0;  // as they can be pasted back
  virtual void AdoptConnection(UniqueFd socket, const AdoptOptions& options) = 0;

  virtual Limits limits() const = 0;
  virtual void SetLimits(const Limits& limits) = 0;
  virtual Users& users() = 0;
  virtual ServerFigures Figures() const = 0;
  virtual void ResetStats() = 0;
  // While true only the commands allowed during loading are answered, the others -LOADING.
  virtual void SetLoading(bool loading) = 0;
};

}  // namespace tiercel::net
