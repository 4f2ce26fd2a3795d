// Damage: saying how much is lost, and serving the rest when told to.
//
// Tables are given up as a whole. Picking the good blocks of a bad one would bring back records that newer tables had
// deleted, as giving it up may bring back what its own deletions covered; the log says so. Given-up files are moved to
// `lost/`, not deleted.
#include <rocksdb/sst_file_reader.h>

#include <filesystem>

#include "base/log.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;

struct Damage {
  std::vector<std::string> bad;         // on disk and unreadable
  std::vector<std::string> superseded;  // on disk and no longer part of the index
  uint64_t missing = 0;                 // noted and not on disk
  uint64_t records = 0;                 // of the bad and the missing ones
  size_t tables() const { return bad.size() + missing; }
};

// Verifies one table block by block; `properties` is filled when at least those can be read.
bool IsIntact(const IndexOptions& options, const std::string& path, TableNote* note) {
  rocksdb::Options how(DatabaseOptions(options), FamilyOptions(options, kObjectsFamily));
  rocksdb::SstFileReader reader(how);
  if (!reader.Open(path).ok()) return false;
  if (const auto properties = reader.GetTableProperties()) {
    *note = {.entries = properties->num_entries, .deletions = properties->num_deletions};
  }
  return reader.VerifyChecksum().ok();
}

Damage FindDamage(const IndexOptions& options) {
  Damage damage;
  TableNotes noted = ReadTableNotes(options.dir);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(options.dir, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::optional<uint64_t> number = TableNumber(name);
    if (!number) continue;
    const auto known = noted.find(*number);
    TableNote note = known != noted.end() ? known->second : TableNote();
    if (note.superseded) {
      damage.superseded.push_back(name);
    } else if (!IsIntact(options, entry.path().string(), &note)) {
      damage.bad.push_back(name);
      damage.records += note.records();
    }
    if (known != noted.end()) noted.erase(known);
  }
  for (const auto& [number, note] : noted) {
    if (note.superseded) continue;
    ++damage.missing;
    damage.records += note.records();
  }
  return damage;
}

// Makes the list of tables anew from the tables themselves, and the log into tables. All lie in level 0 then, with
// sequence numbers that overlap, which only a full compaction makes an ordinary database again.
Status Rebuild(const IndexOptions& options) {
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const std::string& name : {rocksdb::kDefaultColumnFamilyName, std::string(kObjectsFamily)}) {
    families.emplace_back(name, FamilyOptions(options, name));
    families.back().options.force_consistency_checks = false;
    families.back().options.disable_auto_compactions = true;
  }
  const std::string what = "repair the index in " + options.dir;
  const rocksdb::DBOptions how = DatabaseOptions(options);
  const rocksdb::Status repaired = rocksdb::RepairDB(options.dir, how, families, families[0].options);
  if (!repaired.ok()) return ToError(what, repaired);
  Database database;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(how, options.dir, families, &database.handles, &db);
  if (!opened.ok()) return ToError(what, opened);
  database.db.reset(db);
  rocksdb::CompactRangeOptions all;
  all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  for (rocksdb::ColumnFamilyHandle* family : database.handles) {
    const rocksdb::Status compacted = db->CompactRange(all, family, nullptr, nullptr);
    if (!compacted.ok()) return ToError(what, compacted);
  }
  return Ok();
}

}  // namespace

Status RocksIndex::Impl::RefuseDamage(const std::string& what) {
  const Damage damage = FindDamage(options);
  const std::optional<SequenceNote> left = ReadSequenceNote(options.dir);
  std::string lost =
      "records lost at least: " + std::to_string(damage.records) + " in " + std::to_string(damage.tables()) + " tables";
  if (damage.tables() == 0 && left.has_value()) {
    lost = "of " + std::to_string(left->sequence) + " records ever written it is not known how many are lost";
  }
  return Error(ErrorCode::kChecksum, "the index in " + options.dir + " is damaged (" + what + "); " + lost +
                                         "; index-repair yes serves the rest");
}

Status RocksIndex::Impl::Repair() {
  const Damage damage = FindDamage(options);
  std::error_code failed_move;
  fs::create_directories(options.dir + "/lost", failed_move);
  for (const auto* files : {&damage.bad, &damage.superseded}) {
    for (const std::string& name : *files) {
      fs::rename(options.dir + "/" + name, options.dir + "/lost/" + name, failed_move);
      if (failed_move) {
        return Error(ErrorCode::kIo, "move " + options.dir + "/" + name + ": " + failed_move.message());
      }
    }
  }
  TIERCEL_TRY(Rebuild(options));
  Log(LogLevel::kWarning,
      "index: {} tables with {} records are lost; of what was deleted shortly before, some may be back",
      damage.tables(), damage.records);
  const std::lock_guard hold(state_lock);
  figures.lost_in_tables += damage.records;
  return Ok();
}

}  // namespace tiercel::index
