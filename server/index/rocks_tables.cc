// Which table files there are, for the day on which one is missing. Noted as RocksDB makes and drops them, on its
// threads, a few times a minute at most.
#include <rocksdb/convenience.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "base/log.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {

void RocksIndex::Impl::ChangeTables(const std::function<void(TableNotes*)>& change) {
  const std::lock_guard hold(tables_lock);
  change(&tables);
  if (const Status written = WriteTableNotes(options.dir, tables); !written.ok()) {
    // The next change writes all of it again; until then less is known about damage, and nothing is wrong.
    Log(LogLevel::kWarning, "index: {}", written.error().message());
  }
}

namespace {

// Nothing when some cannot be read: then what was noted before is as good.
std::optional<TableNotes> LiveTables(const Database& database) {
  TableNotes live;
  for (rocksdb::ColumnFamilyHandle* family : database.handles) {
    rocksdb::TablePropertiesCollection collection;
    if (!database.db->GetPropertiesOfAllTables(family, &collection).ok()) return std::nullopt;
    for (const auto& [path, properties] : collection) {
      const std::optional<uint64_t> number = TableNumber(path);
      if (number) live[*number] = {.entries = properties->num_entries, .deletions = properties->num_deletions};
    }
  }
  return live;
}

}  // namespace

// Once open: those that an earlier run left behind are forgotten, those that recovery made are known.
void RocksIndex::Impl::NoteLiveTables() {
  std::optional<TableNotes> live = LiveTables(database);
  if (!live) return;
  std::set<uint64_t> there;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options.dir, ignored)) {
    if (const auto number = TableNumber(entry.path().string())) there.insert(*number);
  }
  ChangeTables([&](TableNotes* notes) {
    std::erase_if(*notes, [&](const auto& known) { return !there.contains(known.first); });
    notes->merge(*live);
  });
}

// What happens while it closes is not told to the listener, so it is looked up when everything has come to rest.
void RocksIndex::Impl::CloseDatabase() {
  if (database.db == nullptr) return;
  rocksdb::CancelAllBackgroundWork(database.db.get(), /*wait=*/true);
  if (const std::optional<TableNotes> live = LiveTables(database)) {
    ChangeTables([&](TableNotes* notes) {
      for (auto& [number, known] : *notes) known.superseded = !live->contains(number);
      notes->insert(live->begin(), live->end());
    });
  }
  const std::unique_lock hold(db_lock);  // waits for a sync or a checkpoint that is under way
  database.Close();
}

namespace {

// Told after the table has become part of the index; it may have left it since.
void Add(const std::string& path, const rocksdb::TableProperties& properties, TableNotes* notes) {
  std::error_code ignored;
  const std::optional<uint64_t> number = TableNumber(path);
  if (!number || notes->contains(*number) || !std::filesystem::exists(path, ignored)) return;
  (*notes)[*number] = {.entries = properties.num_entries, .deletions = properties.num_deletions};
}

}  // namespace

void Listener::OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) {
  impl_->ChangeTables([&](TableNotes* notes) { Add(info.file_path, info.table_properties, notes); });
}

void Listener::OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) {
  const std::optional<uint64_t> number = TableNumber(info.file_path);
  if (!number) return;
  impl_->ChangeTables([&](TableNotes* notes) { notes->erase(*number); });
}

void Listener::OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) {
  if (!info.status.ok()) return;
  impl_->ChangeTables([&](TableNotes* notes) {
    for (const std::string& output : info.output_files) {
      const auto properties = info.table_properties.find(output);
      if (properties != info.table_properties.end()) Add(output, *properties->second, notes);
    }
    for (const std::string& input : info.input_files) {
      // A table that was only moved to another level is its own successor.
      const auto& outputs = info.output_files;
      const std::optional<uint64_t> number = TableNumber(input);
      if (!number || std::find(outputs.begin(), outputs.end(), input) != outputs.end()) continue;
      if (const auto known = notes->find(*number); known != notes->end()) known->second.superseded = true;
    }
  });
}

}  // namespace tiercel::index
