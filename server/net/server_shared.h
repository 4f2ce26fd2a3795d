// What all loops of a server share. Immutable after start, or atomic, or with a leaf mutex of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/net/master_host.h"
#include "server/net/ports.h"
#include "server/net/registry.h"
#include "server/net/server.h"
#include "server/net/users.h"

namespace tiercel::net {

class Worker;

// Limits as sessions read them: every command may look, CONFIG SET changes them.
struct LiveLimits {
  std::atomic<uint32_t> max_clients;
  std::atomic<int64_t> idle_timeout_ms, idle_write_timeout_ms, idle_read_timeout_ms, put_wait_ms;
  std::atomic<uint64_t> reply_budget_bytes, proto_max_bulk_len, query_buffer_limit, query_buffers_total;

  void Set(const Limits& limits);
  Limits Get() const;
};

struct ServerShared {
  ServerOptions options;  // `limits` in it is only what they were at start
  Ports ports;
  std::unique_ptr<Users> users;
  MasterHost* host = nullptr;  // nullptr without the master's role
  const Clock* clock = nullptr;
  LiveLimits limits;
  Times started;
  std::vector<std::string> addresses;
  uint16_t port = 0;

  std::atomic<core::ConnectionId> next_id{1};
  std::atomic<uint32_t> clients{0};  // of listeners
  std::atomic<uint64_t> query_buffer_bytes{0};
  std::atomic<bool> draining{false}, loading{false};
  mutable std::atomic<uint64_t> versions_refused{0};  // counted by handlers, which see this as const
  // Whether any segment of this process takes puts; looked up again when a put finds no room.
  std::atomic<bool> local_segments{true};
  Registry registry;

  // Figures are sums since the last CONFIG RESETSTAT.
  ServerFigures Figures() const;
  void ResetStats();

  // Set before the loops run.
  std::vector<Worker*> workers;

 private:
  ServerFigures Sum() const;
  mutable std::mutex stats_mutex_;
  ServerFigures baseline_;  // under stats_mutex_
};

}  // namespace tiercel::net
