#include "server/index/index_reader.h"

#include <rocksdb/env.h>

#include <filesystem>

#include "server/index/record_codec.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {
namespace {

// RocksDB's own log would be a file in the directory.
class Silent final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

struct IndexReader::Impl {
  UniqueFd owner;
  Database database;
  uint32_t format = 0;
  uint64_t lost = 0;

  Status Open(const std::string& dir);
  Status OpenDatabase(const std::string& dir);
  void CountLost(const std::string& dir);
};

Status IndexReader::Impl::OpenDatabase(const std::string& dir) {
  IndexOptions options;
  options.dir = dir;
  TIERCEL_ASSIGN(const std::vector<rocksdb::ColumnFamilyDescriptor> families, Families(options, false));
  rocksdb::DBOptions db_options = DatabaseOptions(options);
  db_options.create_if_missing = db_options.create_missing_column_families = false;
  db_options.info_log = std::make_shared<Silent>();
  std::optional<RefusalFilter> filter;
  if (const auto left = ReadSequenceNote(dir); left.has_value() && left->refused && left->database == DatabaseIn(dir)) {
    filter.emplace(left->refused_after);
    db_options.wal_filter = &*filter;
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(db_options, dir, families, &database.handles, &db,
                                                              /*error_if_wal_file_exists=*/false);
  if (!status.ok()) return ToError("open the index in " + dir, status);
  database.db.reset(db);
  for (rocksdb::ColumnFamilyHandle* handle : database.handles) {
    if (handle->GetName() == kObjectsFamily) database.objects = handle;
    if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) database.meta = handle;
  }
  return Ok();
}

void IndexReader::Impl::CountLost(const std::string& dir) {
  const std::optional<SequenceNote> left = ReadSequenceNote(dir);
  const uint64_t latest = database.db->GetLatestSequenceNumber();
  if (left.has_value() && left->database == DatabaseIn(dir) && left->sequence > latest) lost = left->sequence - latest;
}

Status IndexReader::Impl::Open(const std::string& dir) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(dir, ignored)) return Error(ErrorCode::kNotFound, dir + " is not a directory");
  if (!std::filesystem::exists(dir + "/CURRENT", ignored) && !std::filesystem::exists(dir + "/SEQUENCE", ignored)) {
    return Error(ErrorCode::kNotFound, "there is no index in " + dir);
  }
  if (std::filesystem::exists(dir + "/OWNER", ignored)) {
    TIERCEL_ASSIGN(owner, OwnDirectory(dir, /*may_be_read_only=*/true));
  }
  TIERCEL_TRY(OpenDatabase(dir));
  TIERCEL_ASSIGN(const std::optional<uint32_t> found, ReadFormat(database));
  format = found.value_or(kIndexFormat);
  if (format != kIndexFormat) {
    return Error(ErrorCode::kInvalid, "the index in " + dir + " has format " + std::to_string(format) +
                                          "; this program reads format " + std::to_string(kIndexFormat));
  }
  CountLost(dir);
  return Ok();
}

IndexReader::IndexReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IndexReader::~IndexReader() = default;

Result<std::unique_ptr<IndexReader>> IndexReader::Open(const std::string& dir) {
  auto impl = std::make_unique<Impl>();
  TIERCEL_TRY(impl->Open(dir));
  return std::unique_ptr<IndexReader>(new IndexReader(std::move(impl)));
}

uint32_t IndexReader::format() const { return impl_->format; }
uint64_t IndexReader::lost_records() const { return impl_->lost; }
Result<LoadReport> IndexReader::Scan(const RocksIndex::Take& take) { return ScanRecords(impl_->database, take, {}); }

Status IndexReader::VerifyTables() {
  const rocksdb::Status intact = impl_->database.db->VerifyChecksum();
  if (!intact.ok()) return ToError("verify the index's tables", intact);
  return Ok();
}

}  // namespace tiercel::index
