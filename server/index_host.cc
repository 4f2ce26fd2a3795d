#include "server/index_host.h"

#include <pthread.h>

#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/log.h"

namespace tiercel::server {
namespace {

constexpr uint32_t kRecordsAHold = 512;      // a few hundred microseconds of the core's lock
constexpr int64_t kProgressEveryMs = 1'000;  // of the log

index::Fsync ToIndex(config::IndexFsync choice) {
  switch (choice) {
    case config::IndexFsync::kNo: return index::Fsync::kNo;
    case config::IndexFsync::kEverySec: return index::Fsync::kEverySec;
    case config::IndexFsync::kAlways: return index::Fsync::kAlways;
  }
  return index::Fsync::kEverySec;
}

}  // namespace

Result<std::unique_ptr<IndexHost>> IndexHost::Open(const config::Settings& settings) {
  const std::string generation_file = settings.Path("generation");
  if (!settings.index) {
    TIERCEL_ASSIGN(const uint64_t generation, index::RaiseGeneration(generation_file));
    return std::unique_ptr<IndexHost>(new IndexHost(settings, index::MakeNullIndex(), nullptr, generation));
  }
  index::IndexOptions options;
  options.dir = settings.Path("index");
  options.generation_file = generation_file;
  options.fsync = ToIndex(settings.index_fsync);
  options.repair = settings.index_repair;
  TIERCEL_ASSIGN(std::unique_ptr<index::RocksIndex> rocks, index::RocksIndex::Open(std::move(options)));
  TIERCEL_ASSIGN(const uint64_t generation, rocks->RaiseGeneration());
  index::RocksIndex* const raw = rocks.get();
  return std::unique_ptr<IndexHost>(new IndexHost(settings, std::move(rocks), raw, generation));
}

IndexHost::IndexHost(const config::Settings& settings, std::unique_ptr<core::Index> index, index::RocksIndex* rocks,
                     uint64_t generation)
    : backup_dir_(settings.Path("backup")), index_(std::move(index)), rocks_(rocks), generation_(generation) {}

IndexHost::~IndexHost() {
  awake_.store(nullptr);
  committer_.reset();
  if (saver_.joinable()) saver_.join();
}

void IndexHost::Attach(core::Master* master, net::MasterHost* host) {
  master_ = master;
  host_ = host;
  if (rocks_ != nullptr) master_->RestoreBegin();
  host_->SetCommitterWake([this] {
    if (index::Committer* committer = awake_.load(std::memory_order_acquire)) committer->Wake();
  });
}

Status IndexHost::Load(const std::function<bool()>& interrupted) {
  if (rocks_ != nullptr) {
    std::optional<net::MasterHost::Hold> hold;
    uint32_t held = 0;
    Times now = host_->Now();
    const int64_t began_ms = now.boot_ms;
    int64_t told_ms = now.boot_ms;
    const auto take = [&](core::Record& record) -> Status {
      if (held == kRecordsAHold) {
        hold.reset();
        if (interrupted()) return Error(ErrorCode::kShutdown, "stopped while the index was being loaded");
        held = 0;
      }
      if (held++ == 0) {
        now = host_->Now();
        hold.emplace(host_);
      }
      hold->master().Restore(std::move(record), now);
      return Ok();
    };
    const auto progress = [&](uint64_t done, uint64_t about) {
      if (now.boot_ms - told_ms < kProgressEveryMs) return;
      told_ms = now.boot_ms;
      Log(LogLevel::kNotice, "loading the index: {} of about {} objects", done, about);
    };
    const Result<index::LoadReport> report = rocks_->Load(take, progress);
    hold.reset();
    if (!report.ok()) return report.error();
    report_ = *report;
    const core::RestoreFigures restored = host_->With([&](core::Master& master, Times at) {
      master.RestoreDone(at);
      return master.restore_figures();
    });
    const auto dropped = [&](core::Restored why) { return restored.outcomes[static_cast<size_t>(why)]; };
    Log(LogLevel::kNotice,
        "the index is loaded in {} ms: {} objects of {} stores. Dropped: {} on segments that are no more, {} replaced, "
        "{} "
        "flushed, {} overlapping, {} out of bounds, {} damaged",
        host_->Now().boot_ms - began_ms, restored.objects, report_.stores, dropped(core::Restored::kNoSegment),
        dropped(core::Restored::kOlder), dropped(core::Restored::kFlushed), dropped(core::Restored::kOverlap),
        dropped(core::Restored::kInvalid), report_.dropped());
  }
  committer_ = std::make_unique<index::Committer>(index_.get(), master_, &host_->lock(), &SystemClock::Get(),
                                                  [this] { host_->Progressed(); });
  awake_.store(committer_.get(), std::memory_order_release);
  committer_->Wake();  // for what the restart itself changed
  return Ok();
}

// ---- saving

Status IndexHost::StartSave() {
  if (rocks_ == nullptr) return Error(ErrorCode::kInvalid, "there is nothing to save: index is no");
  const std::lock_guard guard(save_mutex_);
  if (saves_.running) return Error(ErrorCode::kRetry, "Background save already in progress");
  if (saver_.joinable()) saver_.join();
  saves_.running = true;
  saver_ = std::thread([this] { Save(); });
  return Ok();
}

void IndexHost::Save() {
  pthread_setname_np(pthread_self(), "saver");
  const Status saved = SaveTo(backup_dir_);
  if (saved.ok()) {
    Log(LogLevel::kNotice, "the index is saved in {}", backup_dir_);
  } else {
    Log(LogLevel::kWarning, "the index is not saved: {}", saved.error().message());
  }
  const std::lock_guard guard(save_mutex_);
  saves_.running = false;
  saves_.last_failed = !saved.ok();
  if (saved.ok()) saves_.last_wall_ms = host_->Now().wall_ms;
}

// The former copy stays until the new one is whole.
Status IndexHost::SaveTo(const std::string& dir) {
  const std::string next = dir + ".next", old = dir + ".old";
  std::error_code error;
  std::filesystem::remove_all(next, error);
  TIERCEL_TRY(rocks_->Checkpoint(next));
  std::filesystem::remove_all(old, error);
  std::filesystem::rename(dir, old, error);  // not there the first time
  std::filesystem::rename(next, dir, error);
  if (error) return Error(ErrorCode::kIo, "rename " + next + ": " + error.message());
  std::filesystem::remove_all(old, error);
  return Ok();
}

IndexHost::Saves IndexHost::saves() const {
  const std::lock_guard guard(save_mutex_);
  return saves_;
}

index::IndexFigures IndexHost::figures() const { return rocks_ == nullptr ? index::IndexFigures{} : rocks_->Figures(); }

}  // namespace tiercel::server
