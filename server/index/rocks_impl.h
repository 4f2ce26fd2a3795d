// Inside of RocksIndex; the only header that includes RocksDB's.
//
// Threads: the committer calls Write and Resume; the keeper (one thread of our own) syncs the log, takes figures and
// notes tables; RocksDB's threads call the listener; anyone may ask for a checkpoint or figures. `db_lock` keeps the
// database open for those who hold it shared; the committer, who alone closes and opens it, needs it only for that.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/index/rocks_index.h"
#include "server/index/side_files.h"

namespace tiercel::index {

inline constexpr char kObjectsFamily[] = "objects";

// Writes wait rather than leave more than this many intervals unsynced with `everysec`.
inline constexpr int kMaxUnsyncedIntervals = 2;

// An open database and its column families, closed in the right order.
struct Database {
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* meta = nullptr;
  rocksdb::ColumnFamilyHandle* objects = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // all, those of other formats too
  Database() = default;
  Database(Database&&) = default;
  Database& operator=(Database&& other) noexcept;
  ~Database() { Close(); }
  void Close();
};

// Keeps batches that failed and were undone from coming back out of the log.
class RefusalFilter final : public rocksdb::WalFilter {
 public:
  explicit RefusalFilter(uint64_t refused_after) : refused_after_(refused_after) {}
  WalProcessingOption LogRecord(const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*, bool*) const override;
  const char* Name() const override { return "tiercel.refusal"; }

 private:
  const uint64_t refused_after_;
};

// What RocksDB does on its own threads and how it goes wrong there.
class Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(RocksIndex::Impl* impl) : impl_(impl) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  // Coming back is Resume's, so that it happens at one place and the core knows.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status, bool* automatic) override {
    *automatic = false;
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override;
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override;

 private:
  RocksIndex::Impl* const impl_;
};

struct RocksIndex::Impl {
  explicit Impl(IndexOptions opened_with);
  ~Impl();

  // ---- opening (rocks_open.cc)
  Status Open();
  Status PrepareDirectory();
  Status OpenChecked();   // repairs when it may, migrates, finds out what was lost
  Status OpenDatabase();  // as it is
  Status CheckFormat();
  Status NoteLosses();
  uint32_t format() const;

  // ---- damage (rocks_repair.cc)
  Status RefuseDamage(const std::string& what);
  Status Repair();

  // ---- writing (rocks_write.cc)
  Status Write(std::span<const core::Record> batch);
  void Encode(std::span<const core::Record> batch);
  Status KeepGenerations(std::span<const core::Record> batch);
  Status Fail(const std::string& what, bool no_space);
  void AwaitSync();
  Result<uint64_t> StoredGeneration();

  // ---- coming back (rocks_resume.cc)
  Status Resume();
  Status Reopen();

  // ---- the keeper (rocks_keeper.cc)
  void Keep();
  Status Sync();
  void TakeFigures();

  // ---- which tables there are (rocks_tables.cc)
  void NoteLiveTables();
  void CloseDatabase();
  void ChangeTables(const std::function<void(TableNotes*)>& change);

  const IndexOptions options;
  const Clock* const clock;
  UniqueFd owner;
  Reserve reserve;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<SequenceFile> sequence_file;

  std::shared_mutex db_lock;
  Database database;

  // ---- the committer's
  SequenceNote note;
  bool repaired = false;
  uint64_t generation = 0;  // the highest that the database holds
  bool failed = false;
  bool was_full = false;
  rocksdb::WriteBatch write_batch;
  std::string key_buffer, value_buffer;

  // ---- shared
  std::atomic<bool> background_failed{false}, background_full{false}, background_damaged{false};
  std::atomic<uint64_t> live_records{0};

  std::mutex tables_lock;  // leaf
  TableNotes tables;
  std::mutex sync_lock;           // one sync at a time; taken before db_lock
  mutable std::mutex state_lock;  // leaf
  std::condition_variable changed;
  bool stopping = false;
  // Since when there are writes that no sync has begun to cover, and since when those that a running one covers.
  std::optional<std::chrono::steady_clock::time_point> unsynced_since, syncing_since;
  IndexFigures figures;
  std::string background_error;
  std::thread keeper;
};

// ---- options (rocks_options.cc)

rocksdb::DBOptions DatabaseOptions(const IndexOptions& options);
rocksdb::ColumnFamilyOptions FamilyOptions(const IndexOptions& options, const std::string& family);
// All families that the directory has and that this program wants, in the order of their names.
Result<std::vector<rocksdb::ColumnFamilyDescriptor>> Families(const IndexOptions& options, bool create);

// ---- errors

// The index's files are not what was written, as opposed to a disk that cannot be read.
bool IsDamage(const rocksdb::Status& status);
Error ToError(const std::string& what, const rocksdb::Status& status);

// ---- reading everything (scan.cc)

// Gives what an open database holds. A damaged table ends it with kChecksum.
Result<LoadReport> ScanRecords(const Database& database, const RocksIndex::Take& take,
                               const RocksIndex::Progress& progress);
// Format number; 0 when there is none though there is something, nothing when the database is empty.
Result<std::optional<uint32_t>> ReadFormat(const Database& database);
Status WriteFormat(const Database& database, uint32_t format);

}  // namespace tiercel::index
