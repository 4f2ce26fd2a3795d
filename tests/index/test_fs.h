// A file system for RocksDB that fails on demand and loses what was not synced, on top of the real one.
//
// Power loss: PowerOff makes every change fail from then on; once the database is closed, LoseUnsynced puts the files
// into the state that a disk may show afterwards: only bytes that were synced, only names whose directory was.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace tiercel::index {

class TestFs final : public rocksdb::FileSystemWrapper {
 public:
  TestFs() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "TestFs"; }

  // ---- failures, of files whose names end in `suffix` ("" is all)
  void FailAppends(std::string suffix, rocksdb::IOStatus how);
  void FailSyncs(std::string suffix, rocksdb::IOStatus how);
  void Heal();
  // Syncs of such files wait until Heal.
  void HoldSyncs(std::string suffix);
  void AwaitHeldSync();
  // Syncs of such files that went well, since the start.
  uint64_t syncs(const std::string& suffix);

  // ---- power
  void PowerOff();
  void LoseUnsynced();

  // ---- FileSystem
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* directory,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

  // ---- of the files that it hands out
  rocksdb::IOStatus BeforeAppend(const std::string& name);
  rocksdb::IOStatus BeforeSync(const std::string& name);
  void Appended(const std::string& name, uint64_t bytes);
  void Synced(const std::string& name);
  void DirectorySynced(const std::string& name);

 private:
  struct File {
    uint64_t size = 0, synced = 0;
    bool named = false;                       // its directory was synced since it got its name
    std::optional<std::string> renamed_over;  // what the name held before, until then
  };
  struct Failure {
    std::string suffix;
    rocksdb::IOStatus how;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  bool off_ = false;
  std::optional<Failure> append_failure_, sync_failure_;
  std::optional<std::string> held_;
  int held_syncs_ = 0;
  std::map<std::string, File> files_;
  std::map<std::string, uint64_t> syncs_;  // by name
};

}  // namespace tiercel::index
