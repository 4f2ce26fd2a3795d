// Tuned for one writer that never reads: large batches in rising order of keys, deletions soon after, and one scan of
// everything at the start.
#include <rocksdb/memtablerep.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <set>

#include "server/index/rocks_impl.h"

namespace tiercel::index {
namespace {

constexpr uint64_t kWriteBufferBytes = uint64_t{32} << 20;
// A damaged table is lost as a whole, so tables are small.
constexpr uint64_t kTableBytes = uint64_t{8} << 20;
constexpr int kWriteBuffers = 4;
// Bounds what a start has to replay.
constexpr uint64_t kMaxLogBytes = uint64_t{128} << 20;
constexpr size_t kCacheBytes = size_t{8} << 20;
constexpr int kLevel0Compact = 4, kLevel0Slow = 40, kLevel0Stop = 80;

}  // namespace

rocksdb::DBOptions DatabaseOptions(const IndexOptions& options) {
  rocksdb::DBOptions o;
  if (options.env != nullptr) o.env = options.env;
  o.create_if_missing = true;
  o.create_missing_column_families = true;
  o.paranoid_checks = true;
  // The log ends at the first thing that is not right: a prefix of what was written, in whole batches.
  o.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  o.max_total_wal_size = kMaxLogBytes;
  // Both families together: else the one that is rarely written keeps the log of the other.
  o.atomic_flush = true;
  o.max_background_jobs = 2;
  o.allow_concurrent_memtable_write = false;  // one writer
  o.enable_write_thread_adaptive_yield = false;
  o.max_bgerror_resume_count = 0;  // see Resume
  o.skip_stats_update_on_db_open = true;
  o.stats_dump_period_sec = 0;
  o.stats_persist_period_sec = 0;
  o.bytes_per_sync = uint64_t{1} << 20;
  o.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  o.max_log_file_size = size_t{1} << 20;
  o.keep_log_file_num = 3;
  return o;
}

rocksdb::ColumnFamilyOptions FamilyOptions(const IndexOptions& options, const std::string& family) {
  rocksdb::ColumnFamilyOptions o;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kCacheBytes);
  table.block_size = 16 * 1024;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  o.compression = rocksdb::kNoCompression;
  o.target_file_size_base = options.table_bytes != 0 ? options.table_bytes : kTableBytes;
  if (family == kObjectsFamily) {
    o.write_buffer_size = options.write_buffer_bytes != 0 ? options.write_buffer_bytes : kWriteBufferBytes;
    o.max_write_buffer_number = kWriteBuffers;
    o.level0_file_num_compaction_trigger = kLevel0Compact;
    o.level0_slowdown_writes_trigger = kLevel0Slow;
    o.level0_stop_writes_trigger = kLevel0Stop;
    // Entries are appended and sorted when the buffer is flushed; nobody looks anything up in between.
    o.memtable_factory = std::make_shared<rocksdb::VectorRepFactory>();
  } else {
    o.write_buffer_size = size_t{1} << 20;
  }
  return o;
}

Result<std::vector<rocksdb::ColumnFamilyDescriptor>> Families(const IndexOptions& options, bool create) {
  std::vector<std::string> there;
  if (!create) {
    const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(DatabaseOptions(options), options.dir, &there);
    if (!listed.ok()) return ToError("index directory " + options.dir, listed);
  }
  std::set<std::string> names(there.begin(), there.end());
  names.insert(rocksdb::kDefaultColumnFamilyName);
  names.insert(kObjectsFamily);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : names) families.emplace_back(name, FamilyOptions(options, name));
  return families;
}

bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsPathNotFound() || status.IsNotFound();
}

Error ToError(const std::string& what, const rocksdb::Status& status) {
  std::string text = what + ": " + status.ToString();
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return Error(IsDamage(status) ? ErrorCode::kChecksum : ErrorCode::kIo, std::move(text));
}

}  // namespace tiercel::index
