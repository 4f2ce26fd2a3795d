// Notes: the records of stores and segments, without which those of objects name nothing.
//
// They precede, in the journal, every put that lies there. Nobody's reply waits for one, and none is undone: what a
// failed write held of them is written again as it is by then.
#include "server/core/impl.h"

namespace tiercel::core {

using Note = JournalEntry::Note;

namespace {

bool SameNote(const StoreInfo& a, const StoreInfo& b) {
  return a.name == b.name && a.storage_id == b.storage_id && a.host == b.host && a.incarnation == b.incarnation;
}

}  // namespace

void Master::Impl::AddNote(Note note, StoreSlot store, SegmentRef place) {
  const Seq seq = journal.Number(true);
  JournalEntry entry{.seq = seq, .kind = JournalEntry::Kind::kNote, .note = note, .recorded = true, .slot = store};
  entry.version = uint64_t{place.segment} << 32 | place.epoch;
  Record record;
  TIERCEL_CHECK(FillNote(entry, &record));
  journal.Append(entry);
  AddRecord(seq, std::move(record));
}

// The record as of now; false: there is nothing to say any more.
bool Master::Impl::FillNote(const JournalEntry& entry, Record* record) const {
  const Store& store = stores[entry.slot];
  record->store = entry.slot;
  record->place = {static_cast<uint32_t>(entry.version >> 32), static_cast<uint32_t>(entry.version)};
  if (entry.note == Note::kStore) {
    record->kind = Record::Kind::kStore;
    record->place = {};
    record->name = store.info.name;
    record->storage_id = store.info.storage_id;
    record->host = store.info.host;
    record->incarnation = store.info.incarnation;
    return true;
  }
  record->kind = Record::Kind::kSegment;
  const uint32_t id = FindSegment(store, record->place);
  if (entry.note == Note::kSegmentGone) {
    record->gone = true;
    return id == 0 || !segments[id].noted;
  }
  if (id == 0) return false;
  record->name = segments[id].name;
  record->tier = segments[id].tier;
  record->size = segments[id].size;
  return true;
}

// A store none of whose segments outlives the master is of no use to the next one: it is noted with its first segment.
void Master::Impl::NoteStore(Store* store) {
  if (!options.journal || SameNote(store->noted, store->info)) return;
  store->noted = store->info;
  AddNote(Note::kStore, store->slot, {});
}

void Master::Impl::NoteSegment(uint32_t id) {
  Segment& s = segments[id];
  if (!options.journal || !s.outlives_master || s.noted) return;
  NoteStore(&stores[s.store]);
  s.noted = true;
  AddNote(Note::kSegment, s.store, s.place);
}

void Master::Impl::NoteSegmentGone(uint32_t id) {
  Segment& s = segments[id];
  if (!s.noted) return;
  s.noted = false;
  AddNote(Note::kSegmentGone, s.store, s.place);
}

}  // namespace tiercel::core
