// One pass over everything, with reads ahead and past the cache.
#include <rocksdb/iterator.h>

#include "server/index/record_codec.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {
namespace {

constexpr uint64_t kProgressEvery = 10'000;

rocksdb::ReadOptions ScanOptions() {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  read.verify_checksums = true;
  read.readahead_size = size_t{2} << 20;
  read.total_order_seek = true;
  return read;
}

// False: the entry is dropped and counted.
bool Admit(DecodeFault fault, LoadReport* report) {
  if (fault == DecodeFault::kChecksum) ++report->bad_checksum;
  if (fault == DecodeFault::kMalformed) ++report->malformed;
  return fault == DecodeFault::kNone;
}

void Count(const core::Record& record, LoadReport* report) {
  using Kind = core::Record::Kind;
  if (record.kind == Kind::kStore) ++report->stores;
  if (record.kind == Kind::kSegment) ++report->segments;
  if (record.kind == Kind::kNamespace) ++report->namespaces;
}

Status ScanMeta(const Database& database, const RocksIndex::Take& take, LoadReport* report) {
  const std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator(ScanOptions(), database.meta));
  core::Record record;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string_view key = it->key().ToStringView();
    if (key == FormatKey()) continue;
    if (!Admit(DecodeMeta(key, it->value().ToStringView(), &record), report)) continue;
    Count(record, report);
    TIERCEL_TRY(take(record));
  }
  if (!it->status().ok()) return ToError("read the index", it->status());
  return Ok();
}

Status ScanObjects(const Database& database, const RocksIndex::Take& take, const RocksIndex::Progress& progress,
                   LoadReport* report) {
  uint64_t about = 0;
  if (progress) database.db->GetIntProperty(database.objects, "rocksdb.estimate-num-keys", &about);
  const std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator(ScanOptions(), database.objects));
  core::Record record;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    if (!Admit(DecodeObject(it->key().ToStringView(), it->value().ToStringView(), &record), report)) continue;
    ++report->objects;
    TIERCEL_TRY(take(record));
    if (progress && report->objects % kProgressEvery == 0) progress(report->objects, std::max(about, report->objects));
  }
  if (!it->status().ok()) return ToError("read the index", it->status());
  return Ok();
}

}  // namespace

Result<LoadReport> ScanRecords(const Database& database, const RocksIndex::Take& take,
                               const RocksIndex::Progress& progress) {
  LoadReport report;
  TIERCEL_TRY(ScanMeta(database, take, &report));
  TIERCEL_TRY(ScanObjects(database, take, progress, &report));
  return report;
}

Result<std::optional<uint32_t>> ReadFormat(const Database& database) {
  std::string value;
  const rocksdb::Status found = database.db->Get({}, database.meta, FormatKey(), &value);
  if (found.ok()) {
    const std::optional<uint32_t> format = DecodeFormat(value);
    if (!format) return Error(ErrorCode::kChecksum, "the index's format number is damaged");
    return format;
  }
  if (!found.IsNotFound()) return ToError("read the index's format", found);
  for (rocksdb::ColumnFamilyHandle* family : database.handles) {
    const std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator(ScanOptions(), family));
    it->SeekToFirst();
    if (it->Valid()) return std::optional<uint32_t>(0);
    if (!it->status().ok()) return ToError("read the index", it->status());
  }
  return std::optional<uint32_t>();
}

Status WriteFormat(const Database& database, uint32_t format) {
  rocksdb::WriteOptions sync;
  sync.sync = true;
  const rocksdb::Status put = database.db->Put(sync, database.meta, FormatKey(), FormatValue(format));
  if (!put.ok()) return ToError("write the index's format", put);
  return Ok();
}

}  // namespace tiercel::index
