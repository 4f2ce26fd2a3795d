// The keeper: syncs the log once a second, takes the figures, holds the reserve again.
#include <pthread.h>
#include <rocksdb/file_system.h>

#include "base/log.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {

// ---- what fails in the background

void Listener::OnBackgroundError(rocksdb::BackgroundErrorReason, rocksdb::Status* error) {
  if (error->IsShutdownInProgress()) return;  // it was closed under a compaction
  if (IsDamage(*error)) impl_->background_damaged = true;
  // Whatever its severity: the next write fails, the core becomes read-only, and Resume begins anew.
  Log(LogLevel::kWarning, "index: background error: {}", error->ToString());
  if (error->IsNoSpace()) {
    impl_->background_full = true;
    impl_->reserve.Release();
  }
  {
    const std::lock_guard hold(impl_->state_lock);
    ++impl_->figures.background_errors;
    impl_->background_error = error->ToString();
    impl_->background_failed = true;
  }
  impl_->changed.notify_all();
}

// ---- syncing
//
// The log's files are synced by handles of our own. RocksDB's SyncWAL would use the writer's, and one that has just
// failed on the committer's thread, or on a flush's, must not be touched again: an assertion in it stops the process.

namespace {

rocksdb::IOStatus SyncFile(rocksdb::FileSystem* fs, const std::string& path) {
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus done = fs->ReopenWritableFile(path, rocksdb::FileOptions(), &file, nullptr);
  if (!done.ok()) return done;
  done = file->Sync(rocksdb::IOOptions(), nullptr);
  (void)file->Close(rocksdb::IOOptions(), nullptr);
  return done;
}

// REQUIRES: no log is deleted meanwhile (opening would make it again).
rocksdb::IOStatus SyncLogs(rocksdb::FileSystem* fs, const std::string& dir) {
  const rocksdb::IOOptions how;
  std::vector<std::string> names;
  rocksdb::IOStatus done = fs->GetChildren(dir, how, &names, nullptr);
  for (const std::string& name : names) {
    if (done.ok() && name.ends_with(".log")) done = SyncFile(fs, dir + "/" + name);
  }
  if (!done.ok()) return done;
  std::unique_ptr<rocksdb::FSDirectory> directory;  // a log's name is part of it
  done = fs->NewDirectory(dir, how, &directory, nullptr);
  return done.ok() ? directory->Fsync(how, nullptr) : done;
}

}  // namespace

Status RocksIndex::Impl::Sync() {
  const std::lock_guard one_at_a_time(sync_lock);
  {
    const std::lock_guard hold(state_lock);
    // Writes that come from here on may be too late for this sync: they count anew.
    syncing_since = unsynced_since;
    unsynced_since.reset();
  }
  const std::shared_lock open(db_lock);
  if (database.db == nullptr) return Error(ErrorCode::kIndexReadOnly, "the index is closed");
  rocksdb::Status synced = database.db->DisableFileDeletions();
  if (synced.ok()) {
    synced = SyncLogs(database.db->GetFileSystem(), options.dir);
    (void)database.db->EnableFileDeletions(/*force=*/false);
  }
  {
    const std::lock_guard hold(state_lock);
    syncing_since.reset();
    if (synced.ok()) {
      figures.last_sync_ms = clock->Now().boot_ms;
    } else {
      // What it covered may never reach the disk: no more until the log has been begun anew.
      ++figures.sync_errors;
      background_error = "sync the log: " + synced.ToString();
      background_full = background_full || synced.IsNoSpace();
      background_failed = true;
    }
  }
  changed.notify_all();
  if (synced.ok()) return Ok();
  return ToError("sync the index's log", synced);
}

// ---- figures

void RocksIndex::Impl::TakeFigures() {
  uint64_t in_tables = 0, log = 0;
  {
    const std::shared_lock open(db_lock);
    if (database.db == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* family : database.handles) {
      uint64_t bytes = 0;
      if (database.db->GetIntProperty(family, "rocksdb.total-sst-files-size", &bytes)) in_tables += bytes;
    }
    rocksdb::VectorLogPtr files;
    if (database.db->GetSortedWalFiles(files).ok()) {
      for (const auto& file : files) log += file->SizeFileBytes();
    }
  }
  const uint64_t held = reserve.held_bytes();
  const std::lock_guard hold(state_lock);
  figures.table_bytes = in_tables;
  figures.log_bytes = log;
  figures.reserve_bytes = held;
}

IndexFigures RocksIndex::Figures() const {
  const std::lock_guard hold(impl_->state_lock);
  IndexFigures figures = impl_->figures;
  figures.records = impl_->live_records;
  return figures;
}

// ---- the thread

void RocksIndex::Impl::Keep() {
  pthread_setname_np(pthread_self(), "index-keeper");
  const auto interval = std::chrono::milliseconds(options.sync_every_ms);
  auto next = std::chrono::steady_clock::now() + interval;
  for (bool last = false; !last;) {
    bool dirty = false;
    {
      std::unique_lock hold(state_lock);
      changed.wait_until(hold, next, [&] { return stopping; });
      last = stopping;
      dirty = unsynced_since.has_value();
    }
    next = std::chrono::steady_clock::now() + interval;
    // At the end all modes sync; a failure has been noted and shows at the next write.
    if (dirty && (options.fsync == Fsync::kEverySec || last) && !background_failed) (void)Sync();
    if (!background_full) (void)reserve.Hold();
    TakeFigures();
  }
}

Status RocksIndex::Sync() { return impl_->Sync(); }

}  // namespace tiercel::index
