// The settings of a running server: CONFIG GET, SET and REWRITE.
//
// Readers take a snapshot, which never changes under them. Changes are made one at a time: all of a CONFIG SET or none
// of it, cross-checked as a whole, then offered to the listeners in turn. All methods are thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/config/settings.h"
#include "tiercel/result.h"

namespace tiercel::config {

class LiveConfig {
 public:
  using Row = std::pair<std::string, std::string>;
  // Applies what differs between the two. When it fails, the listeners before it are called again with the two
  // exchanged, and the change is refused with its message. Must not call Set, Rewrite or AddListener.
  using Listener = std::function<Status(const Settings& before, const Settings& after)>;

  explicit LiveConfig(Settings settings);

  std::shared_ptr<const Settings> settings() const;

  // Rows of all directives and aliases that match any of the glob patterns, in any case, each once. Passwords are among
  // them, as in Redis.
  std::vector<Row> Get(std::span<const std::string_view> patterns) const;

  // The message of an error is what Redis says behind "ERR ".
  Status Set(std::span<const Row> changes);

  // Writes what Set has changed into the configuration file; every other line, comments too, stays as it is. The file
  // is replaced as a whole.
  Status Rewrite();

  void AddListener(Listener listener);

 private:
  Status Notify(const Settings& before, const Settings& after);  // under change_mutex_

  std::mutex change_mutex_;  // held by Set, Rewrite and AddListener, also over listeners and file writes
  std::vector<Listener> listeners_;
  std::set<std::string> changed_;  // names that Set has changed

  mutable std::mutex mutex_;  // leaf
  std::shared_ptr<const Settings> settings_;
};

}  // namespace tiercel::config
