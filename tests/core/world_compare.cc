// What is compared after each step.
#include <gtest/gtest.h>

#include "tests/core/world.h"

namespace tiercel::core::sim {

void World::Fail(const std::string& what) const {
  if (!testing::Test::HasFailure()) ADD_FAILURE() << "step " << step_ << ": " << what;
}

void World::RefreshSegments() {
  segments_.clear();
  serving_.clear();
  for (const SegmentInfo& s : master_->Segments()) {
    const StoreInfo& store = master_->store(s.store);
    const ModelReplica here = Renamed({store.incarnation, s.place});
    serving_.insert(here);
    if (!s.expected && store.state != StoreInfo::State::kAway && store.state != StoreInfo::State::kJoining) {
      segments_.insert(here);
    }
  }
}

bool World::ReplicaReadable(const ModelReplica& replica) const { return segments_.contains(replica); }

bool World::ModelReadable(const ModelObject& object) const {
  if (object.expire_at_ms != 0 && object.expire_at_ms <= now().wall_ms) return false;
  return std::any_of(object.replicas.begin(), object.replicas.end(),
                     [&](const ModelReplica& r) { return ReplicaReadable(r); });
}

// What the core removed by itself: was it allowed to?
void World::TakeEvents() {
  RefreshSegments();
  for (const Event& event : master_->TakeEvents()) {
    const KeyId id{event.name_space, event.key};
    const auto it = model_.objects.find(id);
    Tell("event %d of %u/%s", static_cast<int>(event.kind), id.name_space, id.key.c_str());
    switch (event.kind) {
      case Event::Kind::kEvicted: {
        if (it == model_.objects.end()) return Fail("what was evicted was there: " + id.key);
        const ModelObject& object = it->second;
        if (model_.LeaseOf(object.version) > now().boot_ms) Fail("a leased object was evicted");
        if (object.hard_pin) Fail("a pinned object was evicted");
        if (model_.reads.contains(object.version)) Fail("an object was evicted under a reader");
        removed_.emplace_back(*it);
        model_.objects.erase(it);
        break;
      }
      case Event::Kind::kExpired:
        if (it == model_.objects.end()) {
          // Its last replicas had gone before, of which the core has not told one by one.
          if (--dropped_early_[id] < 0) return Fail("what expired was there: " + id.key);
          break;
        }
        if (it->second.expire_at_ms == 0 || it->second.expire_at_ms > now().wall_ms) Fail("expired before its time");
        removed_.emplace_back(*it);
        model_.objects.erase(it);
        break;
      case Event::Kind::kReplicaLost: {
        // One event for each replica, in the core's time; the model drops at once all that are lost or known to be bad.
        int64_t removed = 0;
        if (it != model_.objects.end()) {
          const Version version = it->second.version;
          removed = static_cast<int64_t>(std::erase_if(it->second.replicas, [&](const ModelReplica& r) {
            return !serving_.contains(r) || found_bad_.contains({version, r});
          }));
          if (it->second.replicas.empty()) {
            removed_.emplace_back(*it);
            model_.objects.erase(it);
          }
        }
        int64_t& early = dropped_early_[id];
        early += removed - 1;
        if (early < 0) return Fail("what lost a replica was there: " + id.key);
        break;
      }
      default: break;
    }
  }
}

void World::CompareKey(const KeyId& id) {
  ObjectInfo info;
  const bool found = master_->Lookup(Ref(id), {.lease = false, .touch = false}, now(), &info);
  const auto it = model_.objects.find(id);
  const bool readable = it != model_.objects.end() && ModelReadable(it->second);
  if (found != readable) return Fail(id.key + (found ? " is there and should not be" : " is not there"));
  if (scanning_ && !readable && id.name_space == scan_space_) must_meet_.erase(id.key);
  if (!found) return;
  const ModelObject& object = it->second;
  if (info.version != object.version) return Fail(id.key + " has another version");
  if (info.size != object.size || info.sum != object.version.value * 3) return Fail(id.key + " has another value");
  if (info.expire_at_ms != object.expire_at_ms) return Fail(id.key + " has another time to live");
  std::vector<ModelReplica> got, expected;
  for (const ReplicaInfo& r : info.replicas) {
    got.push_back(Renamed({master_->store(r.store).incarnation, r.place}));
    if (r.extents.bytes() != StoredBytes(info.size)) Fail("a replica covers the value exactly");
  }
  for (const ModelReplica& r : object.replicas) {
    if (ReplicaReadable(r)) expected.push_back(r);
  }
  std::sort(got.begin(), got.end());
  std::sort(expected.begin(), expected.end());
  if (got != expected) Fail(id.key + " has other replicas");
}

// Bytes under a lease, or under a read in this process, are those of the version; or their store refuses.
void World::CheckReader(const Reader& reader) {
  if (!reader.in_process && now().boot_ms >= reader.until_ms) return;
  for (size_t i = 0; i < reader.stores.size(); ++i) {
    SimStore* store = StoreOf(reader.stores[i]);
    if (store == nullptr) continue;
    // A segment that was given up is not promised to anybody; memory that went bad is found out by its checksum.
    const ModelReplica replica = Renamed({reader.stores[i], reader.info.replicas[i].place});
    if (!serving_.contains(replica) || bad_.contains({reader.info.version, replica})) continue;
    const auto right = store->Read(reader.stores[i], reader.info.version, reader.info.replicas[i]);
    if (right.has_value() && !*right) {
      return Fail("wrong bytes under a lease: " + reader.key.key + " version " +
                  std::to_string(reader.info.version.value));
    }
  }
}

void World::Compare() {
  TakeEvents();
  master_->CheckInvariants(now());
  std::map<uint32_t, uint64_t> sizes;
  for (const KeyId& id : keys_) CompareKey(id);
  for (const auto& [id, object] : model_.objects) {
    const bool has_replica = std::any_of(object.replicas.begin(), object.replicas.end(),
                                         [&](const ModelReplica& r) { return ReplicaReadable(r); });
    sizes[id.name_space] += has_replica ? 1 : 0;  // what has expired counts until it is taken away
  }
  for (uint32_t ns = 0; ns < options_.name_spaces; ++ns) {
    if (master_->Size(ns) != sizes[ns]) Fail("the size of a namespace is right at once");
  }
  for (const Reader& reader : readers_) CheckReader(reader);
}

void World::Drain() {
  for (const Reader& reader : readers_) {
    if (reader.in_process) master_->EndRead(reader.info.version, now());
  }
  readers_.clear();
  model_.reads.clear();
  for (Client& c : clients_) {
    if (!c.over) (void)master_->PutRevoke(c.caller, c.put, now());
  }
  clients_.clear();
  Begin();
  master_->FlushAll(now());
  for (int round = 0; round < 8; ++round) {
    if (master_->index_read_only()) master_->JournalResumed(now());
    for (;;) {
      const auto batch = master_->TakeJournal(1000, 1 << 20);
      if (batch.empty()) break;
      master_->Durable(batch.back().seq, now());
    }
    if (master_->durable() < master_->last()) master_->Durable(master_->last(), now());
    clock_.Advance(options_.lease_max_ms);
    for (SimStore& s : stores_) {
      s.up = true;
      s.hung = false;
      s.views.clear();
      JoinStore(&s);
      for (int i = 0; i < 20; ++i) {
        const auto answer = master_->StoreWork(s.slot, s.info.incarnation, 100, now());
        if (!answer.ok()) break;
        std::vector<Version> closed;
        for (const WorkItem& item : answer->items) {
          closed.insert(closed.end(), item.puts.begin(), item.puts.end());
          if (item.id != 0) (void)master_->StoreDone(s.slot, s.info.incarnation, item.id, item.kind, true, 0, now());
        }
        (void)master_->StoreClosed(s.slot, s.info.incarnation, closed, now());
      }
    }
    for (int i = 0; i < 100 && master_->Tick(now(), 1000) <= now().boot_ms; ++i) {
    }
  }
  master_->CheckInvariants(now());
  for (const SegmentInfo& s : master_->Segments()) {
    if (s.bytes.free != s.size)
      Fail("when all has ended all is free: " + s.name + " dying " + std::to_string(s.bytes.dying) + " fencing " +
           std::to_string(s.bytes.fencing) + " parked " + std::to_string(s.bytes.parked) + " live " +
           std::to_string(s.bytes.live));
  }
  if (master_->open_puts() != 0) Fail("no put is open");
}

}  // namespace tiercel::core::sim
