// Which table files there are, for the day on which one is missing. Noted as RocksDB makes and drops them, on its
// threads, a few times a minute at most.
#include <algorithm>
#include <filesystem>

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

Status RocksIndex::Impl::NoteLiveTables() {
  TableNotes live;
  for (rocksdb::ColumnFamilyHandle* family : database.handles) {
    rocksdb::TablePropertiesCollection collection;
    if (const rocksdb::Status s = database.db->GetPropertiesOfAllTables(family, &collection); !s.ok()) {
      return ToError("read the index's tables", s);
    }
    for (const auto& [path, properties] : collection) {
      const std::optional<uint64_t> number = TableNumber(path);
      if (number) live[*number] = {.entries = properties->num_entries, .deletions = properties->num_deletions};
    }
  }
  // Those that were made since the opening have been noted already.
  ChangeTables([&](TableNotes* notes) { notes->merge(live); });
  return Ok();
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
      if (const auto note = notes->find(*number); note != notes->end()) note->second.superseded = true;
    }
  });
}

}  // namespace tiercel::index
