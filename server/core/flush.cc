// Clearing namespaces: the table is exchanged for an empty one, and the old one taken apart in steps.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

uint64_t Master::Impl::Flush(uint32_t name_space, Times now) {
  At(now);
  NameTable* table = TableOf(name_space);
  if (table == nullptr || table->table.size() == 0) return 0;
  const uint32_t id = name_spaces[name_space];
  const uint64_t removed = placements.readable(id);
  if (name_space >= flush_floors.size()) flush_floors.resize(name_space + 1);
  const uint64_t old_floor = flush_floors[name_space];
  // A number of its own: an object that survived the flush before (see PutRecord) does not survive this one.
  flush_floors[name_space] = next_version++;
  name_spaces[name_space] = 0;
  table->attached = false;
  graveyard.push_back(id);
  const bool recorded = options.journal && table->recorded > 0;
  if (recorded || (options.journal && journal.active())) {
    const Seq seq = journal.Number(recorded);
    journal.Append({.seq = seq,
                    .kind = JournalEntry::Kind::kFlush,
                    .recorded = recorded,
                    .slot = id,
                    .name_space = name_space,
                    .version = old_floor});
    table->gated = true;
    if (recorded) {
      Record record;
      record.kind = Record::Kind::kNamespace;
      record.name_space = name_space;
      record.number = flush_floors[name_space];
      AddRecord(seq, std::move(record));
    }
    journal.WaitFor(seq);
  } else {
    uint32_t budget = kSyncReclaim;
    TakeApart(&budget, now);
  }
  return removed;
}

// Namespaces with records first: the others then enter the journal too, and all are undone together.
uint64_t Master::Impl::FlushAll(Times now) {
  uint64_t removed = 0;
  for (const bool recorded : {true, false}) {
    for (uint32_t ns = 0; ns < name_spaces.size(); ++ns) {
      const NameTable* table = TableOf(ns);
      if (table != nullptr && (table->recorded > 0) == recorded) removed += Flush(ns, now);
    }
  }
  return removed;
}

void Master::Impl::Unflush(const JournalEntry& entry) {
  // What was put there since has been undone before.
  if (const uint32_t since = name_spaces[entry.name_space]; since != 0) FreeTable(since);
  name_spaces[entry.name_space] = entry.slot;
  flush_floors[entry.name_space] = entry.version;
  std::erase(graveyard, entry.slot);
  tables[entry.slot]->attached = true;
  tables[entry.slot]->gated = false;
  tables[entry.slot]->hint = 0;
}

void Master::Impl::FreeTable(uint32_t id) {
  TIERCEL_CHECK(tables[id]->table.size() == 0);
  tables[id].reset();
  free_tables.push_back(id);
}

void Master::Impl::TakeApart(uint32_t* budget, Times now) {
  for (size_t i = 0; i < graveyard.size() && *budget > 0;) {
    const uint32_t id = graveyard[i];
    NameTable& table = *tables[id];
    if (table.gated) {
      ++i;
      continue;
    }
    uint32_t slot;
    while (*budget > 0 && (slot = table.table.First(&table.hint)) != 0) {
      --*budget;
      Unlink(slot, Why::kFlushed, now);
    }
    if (table.table.size() > 0) continue;
    FreeTable(id);
    graveyard.erase(graveyard.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace tiercel::core
