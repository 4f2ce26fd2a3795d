// What the front end asks of the rest of the process, answered by the configuration and the main program.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/config/live_config.h"
#include "server/index/committer.h"
#include "server/index_host.h"
#include "server/net/ports.h"
#include "server/signals.h"

namespace tiercel::server {

class ConfigBridge final : public net::ConfigPort {
 public:
  explicit ConfigBridge(config::LiveConfig* live) : live_(live) {}
  std::vector<Row> Get(std::string_view pattern) const override { return live_->Get({&pattern, 1}); }
  Status Set(std::span<const Row> changes) override { return live_->Set(changes); }

 private:
  config::LiveConfig* const live_;
};

class ProcessBridge final : public net::ProcessPort {
 public:
  explicit ProcessBridge(IndexHost* index) : index_(index) {}
  void Shutdown() override { RequestStop(); }
  Status StartSave() override {
    if (index_ == nullptr) return Error(ErrorCode::kInvalid, "there is nothing to save: this process is no master");
    return index_->StartSave();
  }
  Saves saves() const override { return index_ == nullptr ? Saves{} : index_->saves(); }

 private:
  IndexHost* const index_;  // nullptr: no master's role
};

// The generation file; several loops may have to write it.
class GenerationFile final : public net::GenerationPort {
 public:
  explicit GenerationFile(std::string path) : path_(std::move(path)) {}
  Status KeepAtLeast(uint64_t generation) override {
    std::lock_guard lock(mutex_);
    return index::KeepGeneration(path_, generation);
  }

 private:
  const std::string path_;
  std::mutex mutex_;
};

}  // namespace tiercel::server
