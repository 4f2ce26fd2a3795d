// IndexHost: the index of this master and what runs beside it: opening, loading, committing, saving.
//
// Order at the start: Open, generation, the master and its host, Attach, Load (while the front end answers -LOADING),
// then changes may come. Load takes the core's lock in short holds.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/config/settings.h"
#include "server/core/master.h"
#include "server/index/committer.h"
#include "server/index/rocks_index.h"
#include "server/net/master_host.h"
#include "server/net/ports.h"

namespace tiercel::server {

class IndexHost {
 public:
  // With `index no`: an index that keeps nothing. Errors as of RocksIndex::Open.
  static Result<std::unique_ptr<IndexHost>> Open(const config::Settings& settings);
  ~IndexHost();  // waits for a save under way

  uint64_t generation() const { return generation_; }
  bool keeps_records() const { return index_->keeps_records(); }

  // Before the first Hold of `host`. Neither is owned; both outlive this.
  void Attach(core::Master* master, net::MasterHost* host);
  // Fills the master; then records may be written. `interrupted` is asked now and then: kShutdown when it says so.
  Status Load(const std::function<bool()>& interrupted);

  // BGSAVE: a copy of the index in dir/backup, which takes the place of the one before; made by a thread of its own.
  // kInvalid: nothing is kept; kRetry: one is being made.
  Status StartSave();
  using Saves = net::ProcessPort::Saves;
  Saves saves() const;
  index::IndexFigures figures() const;  // all 0 when nothing is kept
  const index::LoadReport& load_report() const { return report_; }

 private:
  IndexHost(const config::Settings& settings, std::unique_ptr<core::Index> index, index::RocksIndex* rocks,
            uint64_t generation);
  void Save();
  Status SaveTo(const std::string& dir);

  const std::string backup_dir_;
  const std::unique_ptr<core::Index> index_;
  index::RocksIndex* const rocks_;  // index_, or nullptr
  const uint64_t generation_;
  core::Master* master_ = nullptr;
  net::MasterHost* host_ = nullptr;
  index::LoadReport report_;
  std::unique_ptr<index::Committer> committer_;
  std::atomic<index::Committer*> awake_{nullptr};  // committer_, once it is there

  mutable std::mutex save_mutex_;
  Saves saves_;
  std::thread saver_;
};

}  // namespace tiercel::server
