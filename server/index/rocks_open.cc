#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/check.h"
#include "base/log.h"
#include "server/index/committer.h"
#include "server/index/migrate.h"
#include "server/index/record_codec.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;

// Anything of a database: without its CURRENT file it is damaged, not new.
bool HasRemains(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".sst") || name.ends_with(".log") || name.starts_with("MANIFEST-")) return true;
  }
  const std::optional<SequenceNote> note = ReadSequenceNote(dir);
  return note.has_value() && note->sequence > 0;
}

bool HasCurrent(const std::string& dir) {
  std::error_code ignored;
  return fs::exists(dir + "/CURRENT", ignored);
}

}  // namespace

// ---- Database

Database& Database::operator=(Database&& other) noexcept {
  if (this != &other) {
    Close();
    db = std::move(other.db);
    meta = other.meta;
    objects = other.objects;
    handles = std::move(other.handles);
    other.handles.clear();
  }
  return *this;
}

void Database::Close() {
  if (db == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  handles.clear();
  meta = objects = nullptr;
  (void)db->Close();  // what matters was synced before, and a failed disk may refuse it
  db.reset();
}

// ---- Impl

RocksIndex::Impl::Impl(IndexOptions opened_with)
    : options(std::move(opened_with)),
      clock(options.clock != nullptr ? options.clock : &SystemClock::Get()),
      reserve(options.dir, options.reserve_bytes),
      listener(std::make_unique<Listener>(this)) {}

RocksIndex::Impl::~Impl() {
  if (keeper.joinable()) {
    {
      const std::lock_guard hold(state_lock);
      stopping = true;
    }
    changed.notify_all();
    keeper.join();
  }
  CloseDatabase();  // before what its threads tell the listener goes to
}

uint32_t RocksIndex::Impl::format() const { return options.format != 0 ? options.format : kIndexFormat; }

Status RocksIndex::Impl::PrepareDirectory() {
  if (mkdir(options.dir.c_str(), 0755) != 0 && errno != EEXIST) {
    return SystemError("create index directory " + options.dir, errno);
  }
  TIERCEL_ASSIGN(owner, OwnDirectory(options.dir));
  if (!reserve.Hold()) {
    Log(LogLevel::kWarning, "index: the disk of {} has too little free space to hold {} bytes in reserve", options.dir,
        reserve.wanted_bytes());
  }
  return Ok();
}

Status RocksIndex::Impl::OpenDatabase() {
  TIERCEL_CHECK(database.db == nullptr);
  background_failed = background_full = background_damaged = false;  // what a former one had to say is over
  const bool create = !HasCurrent(options.dir);
  TIERCEL_ASSIGN(const std::vector<rocksdb::ColumnFamilyDescriptor> families, Families(options, create));
  rocksdb::DBOptions db_options = DatabaseOptions(options);
  // Shared with a database that may outlive a failed opening by a moment, but never this object.
  db_options.listeners.push_back(std::shared_ptr<rocksdb::EventListener>(listener.get(), [](auto*) {}));
  std::optional<RefusalFilter> filter;
  if (const auto left = ReadSequenceNote(options.dir);
      left.has_value() && left->refused && left->database == DatabaseIn(options.dir)) {
    filter.emplace(left->refused_after);
    db_options.wal_filter = &*filter;
  }
  // Opening moves the log into tables. It is not tried without space: RocksDB may stop the process over it.
  if (reserve.FreeNow() < reserve.wanted_bytes() && reserve.held_bytes() > 0) {
    Log(LogLevel::kWarning, "index: the disk of {} is nearly full; giving up the reserve to open it", options.dir);
    reserve.Release();
  }
  Database opened;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(db_options, options.dir, families, &opened.handles, &db);
  if (!status.ok()) return ToError("open the index in " + options.dir, status);
  opened.db.reset(db);
  for (rocksdb::ColumnFamilyHandle* handle : opened.handles) {
    if (handle->GetName() == kObjectsFamily) opened.objects = handle;
    if (handle->GetName() == rocksdb::kDefaultColumnFamilyName) opened.meta = handle;
  }
  const std::unique_lock hold(db_lock);
  database = std::move(opened);
  return Ok();
}

Status RocksIndex::Impl::CheckFormat() {
  TIERCEL_ASSIGN(const std::optional<uint32_t> found, ReadFormat(database));
  // Repair may have given up the table with the number; what it left has this program's format or is dropped.
  if (!found.has_value() || (*found == 0 && repaired)) return WriteFormat(database, format());
  if (*found > format()) {
    return Error(ErrorCode::kInvalid, "the index in " + options.dir + " has format " + std::to_string(*found) +
                                          "; this program reads up to format " + std::to_string(format()) +
                                          " and leaves it alone");
  }
  return Migrate(database, *found, format(), options.migrations.empty() ? Migrations() : options.migrations);
}

// The log's own checksums show what is broken, not what is missing: that takes a witness.
Status RocksIndex::Impl::NoteLosses() {
  const uint64_t id = DatabaseIn(options.dir);
  const uint64_t latest = database.db->GetLatestSequenceNumber();
  const std::optional<SequenceNote> left = sequence_file->Read();
  uint64_t lost = 0;
  if (left.has_value() && left->database == id && left->sequence > latest) lost = left->sequence - latest;
  if (lost > 0) {
    Log(LogLevel::kWarning, "index: the last {} records written before the restart are lost from the log", lost);
  }
  {
    const std::lock_guard hold(state_lock);
    figures.lost_records += std::max(lost, figures.lost_in_tables);
  }
  // Opening has moved the log's contents into tables, so what was refused is gone for good.
  note = {.database = id, .sequence = latest};
  if (!sequence_file->Write(note)) return SystemError("write SEQUENCE in " + options.dir, errno);
  // A mark of refusal that came back after a power cut would take batches with it that are accepted from here on.
  return sequence_file->Sync();
}

Status RocksIndex::Impl::OpenChecked() {
  Status opened = Ok();
  if (!HasCurrent(options.dir) && HasRemains(options.dir)) {
    opened = Error(ErrorCode::kChecksum, options.dir + " holds an index without its file CURRENT");
  } else {
    opened = OpenDatabase();
  }
  if (opened.ok() && options.repair) {
    if (const rocksdb::Status intact = database.db->VerifyChecksum(); !intact.ok()) {
      opened = ToError("verify the index in " + options.dir, intact);
      CloseDatabase();
    }
  }
  if (!opened.ok()) {
    if (opened.error().code() != ErrorCode::kChecksum) return opened;
    if (!options.repair) return RefuseDamage(opened.error().message());
    Log(LogLevel::kWarning, "index: {}; repairing", opened.error().message());
    TIERCEL_TRY(Repair());
    repaired = true;
    TIERCEL_TRY(OpenDatabase());
  }
  if (Status known = CheckFormat(); !known.ok()) {
    return known.error().code() == ErrorCode::kChecksum ? RefuseDamage(known.error().message()) : known;
  }
  return NoteLosses();
}

Status RocksIndex::Impl::Open() {
  TIERCEL_TRY(PrepareDirectory());
  TIERCEL_ASSIGN(SequenceFile file, SequenceFile::Open(options.dir));
  sequence_file = std::make_unique<SequenceFile>(std::move(file));
  tables = ReadTableNotes(options.dir);
  TIERCEL_TRY(OpenChecked());
  uint64_t about = 0;
  database.db->GetIntProperty(database.objects, "rocksdb.estimate-num-keys", &about);
  live_records = about;
  NoteLiveTables();
  generation = StoredGeneration().value_or(0);  // if that is damaged, RaiseGeneration says so
  TakeFigures();
  keeper = std::thread([this] { Keep(); });
  return Ok();
}

// ---- RocksIndex

RocksIndex::RocksIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RocksIndex::~RocksIndex() = default;

Result<std::unique_ptr<RocksIndex>> RocksIndex::Open(IndexOptions options) {
  TIERCEL_CHECK(!options.dir.empty());
  TIERCEL_CHECK(options.sync_every_ms > 0);
  auto impl = std::make_unique<Impl>(std::move(options));
  TIERCEL_TRY(impl->Open());
  return std::unique_ptr<RocksIndex>(new RocksIndex(std::move(impl)));
}

Result<LoadReport> RocksIndex::Load(const Take& take, const Progress& progress) {
  Result<LoadReport> report = ScanRecords(impl_->database, take, progress);
  if (!report.ok()) {
    if (report.error().code() != ErrorCode::kChecksum) return report;
    // Nothing more can be done with it, and what its threads go on tidying cannot be counted.
    impl_->failed = impl_->background_damaged = true;
    impl_->CloseDatabase();
    return impl_->RefuseDamage(report.error().message()).error();
  }
  if (report->dropped() > 0) {
    Log(LogLevel::kWarning, "index: dropped {} records with a wrong checksum and {} that are malformed",
        report->bad_checksum, report->malformed);
  }
  impl_->live_records = report->objects;
  const std::lock_guard hold(impl_->state_lock);
  impl_->figures.records = report->objects;
  return report;
}

}  // namespace tiercel::index
