// What enters the journal, what happens when it is durable, and how it is undone.
//
// Undoing goes through the entries backwards, so that each finds the state that it left. Only what the core did by
// itself (evictions, expiry, losses) stays as it is: its records are written again, and its space waits for them.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

using Kind = JournalEntry::Kind;

// ---- records

bool Master::Impl::Recorded(const std::vector<PutReplica>& replicas) const {
  return std::any_of(replicas.begin(), replicas.end(),
                     [&](const PutReplica& r) { return segments[r.segment].outlives_master; });
}

void Master::Impl::AddRecord(Seq seq, Record record) {
  record.seq = seq;
  journal.AppendRecord(std::move(record));
  signals.journal = true;
}

Record Master::Impl::PutRecord(const Object& o, bool again) const {
  Record record;
  record.again = again;
  record.kind = Record::Kind::kPut;
  record.version = Version{o.version};
  record.name_space = tables[o.table]->name_space;
  record.key = std::string(KeyOf(o));
  record.size = o.size;
  record.sum = o.sum;
  record.flags = o.Has(kHardPinned) ? 1u : 0u;
  record.expire_at_ms = o.expire_at_ms;
  if (const int64_t end = SoftPinEnd(o); end != 0) record.soft_pin_until_ms = wall_ms + (end - boot_ms);
  if (o.extra != 0) record.parent_hash = extras[o.extra].parent_hash;
  // Published after a flush that began after its put: the floor alone would take it for flushed.
  if (record.name_space < flush_floors.size() && o.version < flush_floors[record.name_space]) {
    record.number = flush_floors[record.name_space];
  }
  ForEachReplica(o, [&](uint32_t id, bool, const ExtentList* extents) {
    const Segment& s = segments[id];
    if (!s.outlives_master || s.life == Segment::Life::kGone) return;
    ReplicaInfo& info = record.replicas.emplace_back();
    info.tier = s.tier;
    info.store = s.store;
    info.place = s.place;
    TrimExtents(extents != nullptr ? *extents : ExtentsOf(o), o.size, &info.extents);
  });
  return record;
}

Record Master::Impl::DeleteRecord(const Object& o, uint32_t name_space) const {
  Record record;
  record.kind = Record::Kind::kDelete;
  record.version = Version{o.version};
  record.name_space = name_space;
  record.key = std::string(KeyOf(o));
  return record;
}

// ---- changes

// `previous` is what the put replaced, unlinked already; 0: nothing.
void Master::Impl::JournalPut(uint32_t slot, uint32_t previous) {
  Object& o = objects[slot];
  const bool old_recorded = previous != 0 && objects[previous].Has(kRecorded);
  const bool recorded = o.Has(kRecorded) || old_recorded;
  if (!options.journal || (!recorded && !journal.active())) {
    if (previous != 0) Retire(previous, SpaceState::kDying);
    return;
  }
  const uint32_t name_space = tables[o.table]->name_space;
  o.seq = journal.Number(recorded);
  journal.Append({.seq = o.seq,
                  .kind = Kind::kPut,
                  .recorded = recorded,
                  .slot = slot,
                  .previous = previous,
                  .name_space = name_space,
                  .version = o.version});
  if (o.Has(kRecorded)) AddRecord(o.seq, PutRecord(o));
  if (old_recorded) AddRecord(o.seq, DeleteRecord(objects[previous], name_space));
  journal.WaitFor(o.seq);
}

void Master::Impl::JournalUnlink(uint32_t slot, bool by_command) {
  Object& o = objects[slot];
  const bool recorded = o.Has(kRecorded);
  const uint32_t name_space = tables[o.table]->name_space;
  o.seq = journal.Number(recorded);
  journal.Append({.seq = o.seq,
                  .kind = by_command ? Kind::kUnlink : Kind::kDrop,
                  .recorded = recorded,
                  .slot = slot,
                  .name_space = name_space,
                  .version = o.version});
  if (recorded) AddRecord(o.seq, DeleteRecord(o, name_space));
  if (by_command) journal.WaitFor(o.seq);
}

void Master::Impl::JournalChange(uint32_t slot, uint8_t old_flags, int64_t old_expire_ms, int64_t old_soft_pin_ms) {
  Object& o = objects[slot];
  if (!Journaled(o)) return;
  o.seq = journal.Number(o.Has(kRecorded));
  journal.Append({.seq = o.seq,
                  .kind = Kind::kChange,
                  .old_flags = old_flags,
                  .recorded = o.Has(kRecorded),
                  .slot = slot,
                  .version = o.version,
                  .old_expire_ms = old_expire_ms,
                  .old_soft_pin_ms = old_soft_pin_ms});
  if (o.Has(kRecorded)) AddRecord(o.seq, PutRecord(o, true));
  journal.WaitFor(o.seq);
}

// ---- durable

void Master::Impl::Durable(Seq up_to, Times now) {
  At(now);
  journal.Durable(up_to, [&](const JournalEntry& entry) {
    switch (entry.kind) {
      case Kind::kPut:
        if (entry.previous != 0) Retire(entry.previous, SpaceState::kDying);
        break;
      case Kind::kUnlink:
      case Kind::kDrop: Retire(entry.slot, SpaceState::kDying); break;
      case Kind::kRelease: Settle(entry.held); break;
      case Kind::kFlush: tables[entry.slot]->gated = false; break;
      case Kind::kChange: break;
    }
  });
}

// ---- undone

void Master::Impl::UndoPut(const JournalEntry& entry, Times now) {
  Object& o = objects[entry.slot];
  puts.ForgetEnded(o.version);
  if (o.state == ObjectState::kLive) {
    tables[o.table]->table.Erase(o.hash, entry.slot);
    Detach(entry.slot);
    o.state = ObjectState::kUnlinked;
    ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
      Move(s, SpaceState::kLive, SpaceState::kDying, AllocatedBytes(o.size));
    });
  }
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList*) {
    Move(s, SpaceState::kDying, SpaceState::kFencing, AllocatedBytes(o.size));
  });
  Retire(entry.slot, SpaceState::kFencing);
  if (entry.previous != 0) Relink(entry.previous, now);
}

void Master::Impl::UndoChange(const JournalEntry& entry) {
  Object& o = objects[entry.slot];
  if (o.state != ObjectState::kLive || o.version != entry.version) return;  // evicted meanwhile, which stays
  o.seq = 0;
  SetExpiry(entry.slot, entry.old_expire_ms);
  SetSoftPin(entry.slot, entry.old_soft_pin_ms);
  SetHardPin(entry.slot, (entry.old_flags & kHardPinned) != 0);
}

// An entry that is not undone enters the journal anew.
void Master::Impl::WriteAgain(const JournalEntry& entry) {
  Object& o = objects[entry.slot];
  const bool same = o.version == entry.version && o.state != ObjectState::kFree;
  if (entry.kind == Kind::kRelease && !same) return Settle(entry.held);
  TIERCEL_CHECK(same);
  if (!entry.recorded) {
    if (entry.kind == Kind::kRelease) return Settle(entry.held);
    return Retire(entry.slot, SpaceState::kDying);
  }
  JournalEntry again = entry;
  again.seq = o.seq = journal.Number(true);
  journal.Append(again);
  if (entry.kind == Kind::kDrop) {
    AddRecord(again.seq, DeleteRecord(o, entry.name_space));
  } else if (o.state == ObjectState::kLive) {
    AddRecord(again.seq, PutRecord(o, true));
  }
}

void Master::Impl::JournalFailed(Times now) {
  At(now);
  ++counters.journal_failures;
  const std::deque<JournalEntry> failed = journal.Fail();
  std::vector<JournalEntry> kept;  // newest first
  for (auto entry = failed.rbegin(); entry != failed.rend(); ++entry) {
    switch (entry->kind) {
      case Kind::kPut:
        std::erase_if(kept, [&](const JournalEntry& e) { return e.kind == Kind::kDrop && e.slot == entry->slot; });
        UndoPut(*entry, now);
        break;
      case Kind::kUnlink: Relink(entry->slot, now); break;
      case Kind::kChange: UndoChange(*entry); break;
      case Kind::kFlush: Unflush(*entry); break;
      case Kind::kDrop:
      case Kind::kRelease: kept.push_back(*entry); break;
    }
  }
  for (auto entry = kept.rbegin(); entry != kept.rend(); ++entry) {
    journal.BeginCommand();
    WriteAgain(*entry);
  }
  journal.BeginCommand();
}

}  // namespace tiercel::core
