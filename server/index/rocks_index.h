// The index in RocksDB: what a restarted master needs to know of objects, stores, segments, namespaces, generations.
//
// One directory, one owner. Written by the committer alone, in batches that are in the write-ahead log as a whole or
// not at all; read once, at the start, by Load. Nothing is looked up in between, which is what the tuning relies on.
//
// What is damaged is never taken for what is absent: an index that lost tables is refused until `repair` says to
// serve the rest, a value that is not what was written is dropped and counted, and a log that is shorter than it was
// shows as lost_records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "server/core/record.h"

namespace rocksdb {
class Env;
}

namespace tiercel::index {

struct Migration;

enum class Fsync : uint8_t {
  kNo,        // the system decides; a killed process loses nothing all the same
  kEverySec,  // a power cut costs a second, and at most two when the disk is slow: then writes wait
  kAlways,    // every batch is on the disk before it is answered
};

struct IndexOptions {
  std::string dir;              // made when it is not there, its parent is not
  std::string generation_file;  // holds the generation too, so that losing either place does not turn it back
  Fsync fsync = Fsync::kEverySec;
  bool repair = false;  // serve what is left of a damaged index
  // Held back so that an index whose disk is full can still tidy up; 0: none.
  uint64_t reserve_bytes = uint64_t{64} << 20;
  const Clock* clock = nullptr;  // of Figures' times; default: the system's
  // For tests: what RocksDB takes for the file system; how often the log is synced; other formats than the program's.
  rocksdb::Env* env = nullptr;
  int64_t sync_every_ms = 1000;
  std::span<const Migration> migrations = {};
  uint32_t format = 0;                               // 0: kIndexFormat
  uint64_t write_buffer_bytes = 0, table_bytes = 0;  // 0: the defaults
};

struct LoadReport {
  uint64_t stores = 0, segments = 0, namespaces = 0, objects = 0;
  // Dropped by reason.
  uint64_t bad_checksum = 0;  // not what was written under its key
  uint64_t malformed = 0;     // intact, but nothing that this program writes
  uint64_t dropped() const { return bad_checksum + malformed; }
};

// What INFO and the metrics tell. Refreshed about once a second; cheap to ask for.
struct IndexFigures {
  uint64_t records = 0;        // objects; exact once loaded
  uint64_t table_bytes = 0;    // on disk, without the log
  uint64_t log_bytes = 0;      // write-ahead log
  uint64_t reserve_bytes = 0;  // 0 while it is given up
  int64_t last_sync_ms = 0;    // boot clock; 0: not yet
  uint64_t batches = 0, records_written = 0;
  uint64_t write_errors = 0, sync_errors = 0, background_errors = 0;
  uint64_t sync_waits = 0;  // writes that waited for a slow disk to catch up
  uint64_t resumes = 0;
  uint64_t lost_records = 0;    // changes that had been written and were not found again at the start
  uint64_t lost_in_tables = 0;  // entries of tables that repair had to give up
  bool read_only = false;
};

class RocksIndex final : public core::Index {
 public:
  // kNameInUse: another process owns the directory. kInvalid: its format is newer, or has no way to this one.
  // kChecksum: damaged, and `repair` is off. kIo: cannot be read or written.
  static Result<std::unique_ptr<RocksIndex>> Open(IndexOptions options);
  ~RocksIndex() override;  // syncs

  // The generation of this run: above all that were before, durable in both places when it returns.
  Result<uint64_t> RaiseGeneration();

  // Gives all records: generation, stores, segments, namespaces, then objects by rising version. The record may be
  // moved from.
  // kChecksum when a table turns out to be damaged on the way (what was given is not all, so it must not be served).
  // `progress`, if any, is called about every 10,000 objects. An error of `take` ends it.
  // REQUIRES: before the first Write (RaiseGeneration may come before).
  using Take = std::function<Status(core::Record& record)>;
  using Progress = std::function<void(uint64_t done, uint64_t about)>;
  Result<LoadReport> Load(const Take& take, const Progress& progress = {});

  bool keeps_records() const override { return true; }
  Status Write(std::span<const core::Record> batch) override;
  Status Resume() override;

  // What was written before is on the disk when it returns.
  Status Sync();
  // A copy that opens as an index of its own, in a directory that is not there yet. Beside writes, any thread.
  Status Checkpoint(const std::string& dir);
  IndexFigures Figures() const;

  struct Impl;

 private:
  explicit RocksIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tiercel::index
