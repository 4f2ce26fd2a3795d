#include "tests/index/test_fs.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace tiercel::index {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

IOStatus NoPower() { return IOStatus::IOError("the power is off"); }

class TestFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  TestFile(TestFs* fs, std::string name, std::unique_ptr<rocksdb::FSWritableFile> file)
      : FSWritableFileOwnerWrapper(std::move(file)), fs_(fs), name_(std::move(name)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus ready = fs_->BeforeAppend(name_); !ready.ok()) {
      // As a full disk does it: some of it gets there.
      if (ready.IsNoSpace() && data.size() > 1) {
        const size_t half = data.size() / 2;
        if (target()->Append(Slice(data.data(), half), options, debug).ok()) fs_->Appended(name_, half);
      }
      return ready;
    }
    IOStatus done = target()->Append(data, options, debug);
    if (done.ok()) fs_->Appended(name_, data.size());
    return done;
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus ready = fs_->BeforeSync(name_); !ready.ok()) return ready;
    IOStatus done = target()->Sync(options, debug);
    if (done.ok()) fs_->Synced(name_);
    return done;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    if (IOStatus ready = fs_->BeforeSync(name_); !ready.ok()) return ready;
    IOStatus done = target()->Fsync(options, debug);
    if (done.ok()) fs_->Synced(name_);
    return done;
  }

 private:
  TestFs* const fs_;
  const std::string name_;
};

class TestDirectory final : public rocksdb::FSDirectory {
 public:
  TestDirectory(TestFs* fs, std::string name, std::unique_ptr<rocksdb::FSDirectory> directory)
      : fs_(fs), name_(std::move(name)), directory_(std::move(directory)) {}
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus done = directory_->Fsync(options, debug);
    if (done.ok()) fs_->DirectorySynced(name_);
    return done;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& how) override {
    IOStatus done = directory_->FsyncWithDirOptions(options, debug, how);
    if (done.ok()) fs_->DirectorySynced(name_);
    return done;
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override { return directory_->Close(options, debug); }
  size_t GetUniqueId(char* id, size_t max) const override { return directory_->GetUniqueId(id, max); }

 private:
  TestFs* const fs_;
  const std::string name_;
  std::unique_ptr<rocksdb::FSDirectory> directory_;
};

std::string ReadFile(const std::string& name) {
  std::ostringstream all;
  all << std::ifstream(name, std::ios::binary).rdbuf();
  return all.str();
}

std::string Tidy(const std::string& name) {
  std::string tidy = std::filesystem::path(name).lexically_normal().string();
  while (tidy.size() > 1 && tidy.ends_with('/')) tidy.pop_back();
  return tidy;
}

}  // namespace

// ---- failures

void TestFs::FailAppends(std::string suffix, IOStatus how) {
  const std::lock_guard hold(mutex_);
  append_failure_ = Failure{std::move(suffix), std::move(how)};
}

void TestFs::FailSyncs(std::string suffix, IOStatus how) {
  const std::lock_guard hold(mutex_);
  sync_failure_ = Failure{std::move(suffix), std::move(how)};
}

void TestFs::HoldSyncs(std::string suffix) {
  const std::lock_guard hold(mutex_);
  held_ = std::move(suffix);
}

void TestFs::AwaitHeldSync() {
  std::unique_lock hold(mutex_);
  changed_.wait(hold, [&] { return held_syncs_ > 0; });
}

void TestFs::Heal() {
  const std::lock_guard hold(mutex_);
  append_failure_.reset();
  sync_failure_.reset();
  held_.reset();
  changed_.notify_all();
}

uint64_t TestFs::syncs(const std::string& suffix) {
  const std::lock_guard hold(mutex_);
  uint64_t count = 0;
  for (const auto& [name, syncs] : syncs_) count += name.ends_with(suffix) ? syncs : 0;
  return count;
}

IOStatus TestFs::BeforeAppend(const std::string& name) {
  const std::lock_guard hold(mutex_);
  if (off_) return NoPower();
  if (append_failure_ && name.ends_with(append_failure_->suffix)) return append_failure_->how;
  return IOStatus::OK();
}

IOStatus TestFs::BeforeSync(const std::string& name) {
  std::unique_lock hold(mutex_);
  if (held_ && name.ends_with(*held_)) {
    ++held_syncs_;
    changed_.notify_all();
    changed_.wait(hold, [&] { return !held_.has_value(); });
    --held_syncs_;
  }
  if (off_) return NoPower();
  if (sync_failure_ && name.ends_with(sync_failure_->suffix)) return sync_failure_->how;
  return IOStatus::OK();
}

// ---- what is where

void TestFs::Appended(const std::string& name, uint64_t bytes) {
  const std::lock_guard hold(mutex_);
  files_[name].size += bytes;
}

void TestFs::Synced(const std::string& name) {
  const std::lock_guard hold(mutex_);
  files_[name].synced = files_[name].size;
  ++syncs_[name];
}

void TestFs::DirectorySynced(const std::string& name) {
  const std::lock_guard hold(mutex_);
  if (off_) return;
  for (auto& [file, state] : files_) {
    if (std::filesystem::path(file).parent_path() != name) continue;
    state.named = true;
    state.renamed_over.reset();
  }
}

IOStatus TestFs::NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                 std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* debug) {
  {
    const std::lock_guard hold(mutex_);
    if (off_) return NoPower();
    files_[Tidy(name)] = File();
  }
  std::unique_ptr<rocksdb::FSWritableFile> real;
  IOStatus opened = target()->NewWritableFile(name, options, &real, debug);
  if (opened.ok()) *file = std::make_unique<TestFile>(this, Tidy(name), std::move(real));
  return opened;
}

IOStatus TestFs::ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* debug) {
  {
    const std::lock_guard hold(mutex_);
    if (off_) return NoPower();
  }
  std::unique_ptr<rocksdb::FSWritableFile> real;
  IOStatus opened = target()->ReopenWritableFile(name, options, &real, debug);
  if (opened.ok()) *file = std::make_unique<TestFile>(this, Tidy(name), std::move(real));
  return opened;
}

IOStatus TestFs::NewDirectory(const std::string& name, const IOOptions& options,
                              std::unique_ptr<rocksdb::FSDirectory>* directory, IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> real;
  IOStatus opened = target()->NewDirectory(name, options, &real, debug);
  if (opened.ok()) *directory = std::make_unique<TestDirectory>(this, Tidy(name), std::move(real));
  return opened;
}

IOStatus TestFs::RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                            IODebugContext* debug) {
  const std::lock_guard hold(mutex_);
  if (off_) return NoPower();
  std::error_code ignored;
  std::optional<std::string> before;
  if (std::filesystem::exists(to, ignored)) before = ReadFile(to);
  IOStatus renamed = target()->RenameFile(from, to, options, debug);
  if (!renamed.ok()) return renamed;
  File moved = files_[Tidy(from)];
  files_.erase(Tidy(from));
  moved.named = false;
  moved.renamed_over = std::move(before);
  files_[Tidy(to)] = std::move(moved);
  return renamed;
}

IOStatus TestFs::DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* debug) {
  const std::lock_guard hold(mutex_);
  if (off_) return NoPower();
  files_.erase(Tidy(name));
  return target()->DeleteFile(name, options, debug);
}

// ---- power

void TestFs::PowerOff() {
  const std::lock_guard hold(mutex_);
  off_ = true;
}

void TestFs::LoseUnsynced() {
  const std::lock_guard hold(mutex_);
  for (const auto& [name, state] : files_) {
    std::error_code ignored;
    if (!std::filesystem::exists(name, ignored)) continue;
    if (state.named) {
      TIERCEL_CHECK(truncate(name.c_str(), static_cast<off_t>(state.synced)) == 0);
    } else if (state.renamed_over) {
      std::ofstream(name, std::ios::binary | std::ios::trunc) << *state.renamed_over;
    } else {
      std::filesystem::remove(name, ignored);
    }
  }
  files_.clear();
  off_ = false;
}

}  // namespace tiercel::index
