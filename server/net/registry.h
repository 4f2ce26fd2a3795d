// Registry: all client connections of the server, for CLIENT LIST, INFO, KILL and CLUSTER-wide questions.
//
// A row is shared by its session (which writes it, on its loop) and by who looks at it from another loop. Numbers
// are relaxed atomics; texts change rarely and stand under the row's own mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "protocol/resp/command_table.h"
#include "server/core/types.h"

namespace tiercel::net {

struct ClientRow {
  core::ConnectionId id = 0;
  int fd = -1;
  int64_t connected_ms = 0;  // boot clock
  std::string peer_address, local_address;

  std::atomic<int64_t> last_active_ms{0};
  std::atomic<const resp::CommandSpec*> last_command{nullptr};
  std::atomic<const char*> last_subcommand{nullptr};
  std::atomic<uint32_t> name_space{0};
  std::atomic<int> protocol{2};
  std::atomic<uint64_t> query_bytes{0}, output_bytes{0};
  std::atomic<bool> parked{false}, no_evict{false}, no_touch{false};

  mutable std::mutex mutex;
  std::string user, name, lib_name, lib_version;  // under mutex

  // Posts to the session's loop; set before the row is published. Empty: not a client's, and not to be killed.
  std::function<void()> kill;
};

class Registry {
 public:
  void Add(std::shared_ptr<ClientRow> row) {
    std::lock_guard lock(mutex_);
    rows_.emplace(row->id, std::move(row));
  }
  void Remove(core::ConnectionId id) {
    std::lock_guard lock(mutex_);
    rows_.erase(id);
  }
  std::vector<std::shared_ptr<ClientRow>> All() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<ClientRow>> all;
    all.reserve(rows_.size());
    for (const auto& [id, row] : rows_) all.push_back(row);
    return all;
  }
  std::shared_ptr<ClientRow> Find(core::ConnectionId id) const {
    std::lock_guard lock(mutex_);
    const auto it = rows_.find(id);
    return it == rows_.end() ? nullptr : it->second;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return rows_.size();
  }

 private:
  mutable std::mutex mutex_;                                       // leaf
  std::map<core::ConnectionId, std::shared_ptr<ClientRow>> rows_;  // in order of arrival
};

}  // namespace tiercel::net
