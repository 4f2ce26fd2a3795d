// The index of the simulation, and what a master's death at any moment must leave behind: all that was durable, nothing
// that was not, and of what the core removed by itself either.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/world.h"

namespace tiercel::core::sim {

void World::Write(const Record& record) {
  switch (record.kind) {
    case Record::Kind::kPut:
      if (record.again != index_puts_.contains(record.version.value))
        Fail("a record says whether it has a predecessor");
      index_puts_[record.version.value] = record;
      break;
    case Record::Kind::kDelete: index_puts_.erase(record.version.value); break;
    case Record::Kind::kStore: index_stores_[record.store] = record; break;
    case Record::Kind::kSegment: {
      const std::pair place{record.store, record.place.segment};
      const auto it = index_segments_.find(place);
      if (!record.gone) {
        index_segments_[place] = record;
      } else if (it != index_segments_.end() && it->second.place == record.place) {
        index_segments_.erase(it);
      }
      break;
    }
    case Record::Kind::kNamespace: index_floors_[record.name_space] = record.number; break;
    case Record::Kind::kGeneration: break;
  }
}

void World::Restore() {
  master_->RestoreBegin();
  for (const auto& [ns, floor] : index_floors_) {
    Record record;
    record.kind = Record::Kind::kNamespace;
    record.name_space = ns;
    record.number = floor;
    master_->Restore(std::move(record), now());
  }
  for (const auto& [slot, record] : index_stores_) {
    if (master_->Restore(Record(record), now()) != Restored::kRestored) Fail("stores come back");
  }
  for (const auto& [place, record] : index_segments_) {
    if (master_->Restore(Record(record), now()) != Restored::kRestored) Fail("segments come back");
  }
  for (const auto& [version, record] : index_puts_) {
    switch (master_->Restore(Record(record), now())) {
      case Restored::kRestored: ++restored_; break;
      case Restored::kNoSegment:  // its segments' end was durable before its own
      case Restored::kFlushed: break;
      case Restored::kOlder: Fail("one record of a key"); break;
      case Restored::kOverlap: Fail("no byte has two owners"); break;
      case Restored::kInvalid: Fail("records are sound"); break;
    }
  }
  master_->RestoreDone(now());
}

// The master's process ends; what was on its way to the index has arrived, or has not.
void World::RestartMaster() {
  if (!options_.journal || !Chance(20)) return;
  ++restarts_;
  if (!batch_.empty() && Chance(50)) {
    for (const Record& record : batch_) Write(record);
    model_.Durable(batch_.back().seq);
  }
  Tell("the master restarts, %zu records", index_puts_.size());
  batch_.clear();
  failures_left_ = 0;
  taken_ = 0;
  scanning_ = false;
  readers_.clear();  // leases are forgotten; checksums decide copies
  model_.reads.clear();
  model_.leased_until.clear();
  dropped_early_.clear();
  found_bad_.clear();  // a bad replica whose removal was not durable is back, and to be found again
  for (Client& c : clients_) c.over = true;
  for (SimStore& s : stores_) {
    s.joined = false;
    s.items.clear();
  }
  ++seeds_.generation;
  master_ = std::make_unique<Master>(options_, seeds_);
  Restore();
  ModelRestart();
  removed_.clear();
  RefreshSegments();
}

void World::ModelRestart() {
  model_.UndoAll();
  RenameAll();
  // An object that the core had removed by itself is back if the index had not heard of it.
  for (auto& [id, object] : removed_) {
    const auto record = index_puts_.find(object.version.value);
    if (record == index_puts_.end() || model_.objects.contains(id)) continue;
    // What of its last changes was durable nobody knows any more but the index.
    object.expire_at_ms = record->second.expire_at_ms;
    object.hard_pin = (record->second.flags & 1u) != 0;
    model_.objects[id] = object;
  }
  std::set<uint64_t> seen;
  for (auto it = model_.objects.begin(); it != model_.objects.end();) {
    ModelObject& object = it->second;
    const auto record = index_puts_.find(object.version.value);
    std::vector<ModelReplica> kept;
    if (record != index_puts_.end()) {
      seen.insert(object.version.value);
      if (record->second.key != it->first.key || record->second.size != object.size) Fail("a record tells the truth");
      for (const ReplicaInfo& r : record->second.replicas) {
        const auto segment = index_segments_.find({r.store, r.place.segment});
        if (segment == index_segments_.end() || segment->second.place != r.place) continue;
        kept.push_back(Renamed({master_->store(r.store).incarnation, r.place}));
      }
    }
    // Whatever lies on a segment that the index knows was recorded.
    for (const ModelReplica& r : object.replicas) {
      const bool known = std::any_of(index_segments_.begin(), index_segments_.end(), [&](const auto& entry) {
        return Renamed({master_->store(entry.second.store).incarnation, entry.second.place}) == r;
      });
      if (known && std::find(kept.begin(), kept.end(), r) == kept.end()) Fail("what was durable is not forgotten");
    }
    object.replicas = std::move(kept);
    it = object.replicas.empty() ? model_.objects.erase(it) : std::next(it);
  }
  for (const auto& [version, record] : index_puts_) {
    if (seen.contains(version)) continue;
    // Flushed, and not taken apart yet.
    const auto floor = index_floors_.find(record.name_space);
    const bool flushed = floor != index_floors_.end() && version < floor->second && record.number < floor->second;
    const bool lost = std::none_of(record.replicas.begin(), record.replicas.end(), [&](const ReplicaInfo& r) {
      const auto segment = index_segments_.find({r.store, r.place.segment});
      return segment != index_segments_.end() && segment->second.place == r.place;
    });
    if (!flushed && !lost) Fail("nothing comes back that was removed: " + record.key);
  }
}

// A store came back on the same storage: the model calls its replicas by its newest incarnation, whichever the master
// knows it by (after a restart, an older one).
void World::Rename(Incarnation before, const SimStore& store) {
  ++reincarnations_;
  for (const SegmentJoin& s : store.segments) {
    // A restarted master may know an older name than the model calls it by.
    const ModelReplica known = Renamed({before, {s.id, s.epoch}});
    if (known.store != store.info.incarnation) renames_.push_back({known.store, store.info.incarnation, known.place});
  }
  RenameAll();
  for (auto& [id, object] : removed_) {
    for (ModelReplica& r : object.replicas) r = Renamed(r);
  }
  for (Client& c : clients_) {
    for (size_t i = 0; i < c.homes.size(); ++i) c.homes[i] = Renamed({c.homes[i], c.replicas[i].place}).store;
  }
  for (auto* set : {&bad_, &found_bad_}) {
    std::set<std::pair<Version, ModelReplica>> all;
    for (const auto& [version, replica] : *set) all.emplace(version, Renamed(replica));
    *set = std::move(all);
  }
}

ModelReplica World::Renamed(ModelReplica replica) const {
  for (const SameStorage& s : renames_) {
    if (replica.store == s.before && replica.place == s.place) replica.store = s.after;
  }
  return replica;
}

// Also after undoing, which brings back what was written down under older names.
void World::RenameAll() {
  for (auto& [id, object] : model_.objects) {
    for (ModelReplica& r : object.replicas) r = Renamed(r);
  }
}

}  // namespace tiercel::core::sim
