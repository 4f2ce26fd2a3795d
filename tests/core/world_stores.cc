// What stores do in the simulation: join, work, hang, die, leave, hold views.
#include "tests/core/world.h"

namespace tiercel::core::sim {

SimStore* World::StoreOf(Incarnation incarnation) {
  for (SimStore& s : stores_) {
    if (s.info.incarnation == incarnation) return &s;
  }
  return nullptr;
}

// A new process: other memory, other epochs, unless its memory was kept for it.
void World::Restart(SimStore* store, bool keep_memory) {
  store->info.incarnation = Incarnation{next_incarnation_++};
  store->up = true;
  store->hung = store->joined = false;
  store->floor = Version{};
  store->closed.clear();
  store->close_orders.clear();
  store->close_reports.clear();
  store->views.clear();
  store->items.clear();
  if (keep_memory) return;
  store->info.storage_id = "storage-" + std::to_string(next_incarnation_);
  store->memory.clear();
  for (SegmentJoin& s : store->segments) {
    s.epoch = next_epoch_++;
    store->memory[s.id].assign(s.size, 0xAA);
  }
}

void World::JoinStore(SimStore* store) {
  StoreJoinRequest request;
  request.store = store->info;
  const auto known = master_->FindStore(store->info.name);
  const Incarnation before = known.has_value() ? master_->store(*known).incarnation : Incarnation{};
  const auto reply = master_->StoreJoin(request, now());
  if (!reply.ok()) {
    if (reply.error().code() != ErrorCode::kNameInUse) Fail("joining: " + reply.error().ToString());
    return;
  }
  Tell("%s joins", store->info.name.c_str());
  store->slot = reply->slot;
  store->joined = true;
  store->RaiseFloor(Version{reply->generation << kCounterBits});
  store->RaiseFloor(reply->floor);
  Status status = master_->StoreSegments(store->slot, store->info.incarnation, store->segments, now());
  if (!status.ok() && status.error().code() == ErrorCode::kOldEpoch) {
    // It left before: what it offers now is new.
    for (SegmentJoin& s : store->segments) {
      s.epoch = next_epoch_++;
      store->memory[s.id].assign(s.size, 0xAA);
    }
    store->views.clear();
    if (!master_->StoreJoin(request, now()).ok()) return Fail("joining again");
    status = master_->StoreSegments(store->slot, store->info.incarnation, store->segments, now());
  }
  if (!status.ok()) return Fail("segments: " + status.error().ToString());
  status = master_->StoreReady(store->slot, store->info.incarnation, Version{reply->generation << kCounterBits}, now());
  if (!status.ok() && master_->store(store->slot).state != StoreInfo::State::kLeaving) {
    Fail("ready: " + status.error().ToString());
  }
  if (before && before != store->info.incarnation) Rename(before, *store);
}

void World::StoreWork() {
  SimStore& store = stores_[Draw(stores_.size())];
  if (!store.up) {
    store.up = Chance(20);
    return;
  }
  if (!store.joined) return JoinStore(&store);
  if (Chance(10)) {
    if (!master_->StorePing(store.slot, store.info.incarnation, now()).ok()) store.joined = false;
    return;
  }
  const auto answer = master_->StoreWork(store.slot, store.info.incarnation, static_cast<uint32_t>(1 + Draw(8)), now());
  if (!answer.ok()) {
    if (answer.error().code() != ErrorCode::kStaleIncarnation) Fail("work: " + answer.error().ToString());
    store.joined = false;
    return;
  }
  if (answer->floor < store.floor) Fail("the floor only rises");
  DropWork(&store, answer->items);
  if (store.hung) return;
  store.RaiseFloor(answer->floor);
  for (const Version put : store.close_orders) store.Close(put);
  store.close_orders.clear();
  if (Chance(80)) {
    const std::vector<Version> reports = std::move(store.close_reports);
    store.close_reports.clear();
    if (!master_->StoreClosed(store.slot, store.info.incarnation, reports, now()).ok()) Fail("closed");
  }
  for (const WorkItem& item : store.items) {
    bool ok = true;
    if (item.kind == WorkItem::Kind::kVerify) {
      ok = store.Read(store.info.incarnation, item.version, item.source).value_or(false);
    }
    const Status done = master_->StoreDone(store.slot, store.info.incarnation, item.id, item.kind, ok, 0, now());
    if (!done.ok() && done.error().code() != ErrorCode::kNoTask) Fail("done: " + done.error().ToString());
    if (done.ok() && !ok) found_bad_.insert({item.version, Renamed({store.info.incarnation, item.source.place})});
  }
  store.items.clear();
}

void World::DropWork(SimStore* store, std::vector<WorkItem> items) {
  for (WorkItem& item : items) {
    if (item.kind == WorkItem::Kind::kClose) {
      store->close_orders.insert(store->close_orders.end(), item.puts.begin(), item.puts.end());
    } else {
      store->items.push_back(std::move(item));
    }
  }
}

void World::StoreFault() {
  const uint64_t at = Draw(stores_.size());
  SimStore& store = stores_[at];
  const uint64_t fault = Draw(6);
  Tell("fault %d of %s", static_cast<int>(fault), store.info.name.c_str());
  switch (fault) {
    case 0:  // killed, and started again
      if (Chance(70)) master_->StoreDisconnected(store.slot, store.info.incarnation, now());
      Restart(&store, backed_[static_cast<size_t>(at)] && Chance(60));
      break;
    case 1:  // cut off, unnoticed
      store.up = false;
      store.joined = false;
      break;
    case 2:  // back
      store.up = true;
      store.hung = false;
      break;
    case 3:  // its connections break; what was fetched on them is forgotten by neither side
      master_->StoreDisconnected(store.slot, store.info.incarnation, now());
      store.joined = false;
      store.items.clear();
      break;
    case 4: store.hung = !store.hung; break;
    default:
      if (store.joined) master_->StoreWorkLost(store.slot, store.info.incarnation, now());
      store.items.clear();
      break;
  }
}

void World::Leave() {
  SimStore& store = stores_[Draw(stores_.size())];
  const std::string segment = Chance(50) ? store.segments[Draw(store.segments.size())].name : "";
  const Status status = master_->StoreLeave(store.info.name, segment, Chance(50) ? 0 : 500, now());
  Tell("%s leaves: '%s'", store.info.name.c_str(), segment.c_str());
  if (status.ok() || status.error().code() == ErrorCode::kNoSegment) return;
  if (status.error().code() != ErrorCode::kNoStore) Fail("leave: " + status.error().ToString());
}

// Somebody maps a range that he holds a lease on, and keeps it for longer.
void World::Views() {
  SimStore& store = stores_[Draw(stores_.size())];
  if (!store.views.empty() && Chance(60)) {
    const auto [place, extent] = store.views.back();
    store.views.pop_back();
    if (store.joined && store.up) {
      (void)master_->StoreUnpinned(store.slot, store.info.incarnation, place, extent, now());
    }
    return;
  }
  if (readers_.empty() || store.views.size() > 3) return;
  const Reader& reader = readers_[Draw(readers_.size())];
  for (size_t i = 0; i < reader.stores.size(); ++i) {
    if (reader.stores[i] != store.info.incarnation || reader.info.replicas[i].extents.empty()) continue;
    if (now().boot_ms < reader.until_ms)
      store.views.emplace_back(reader.info.replicas[i].place, reader.info.replicas[i].extents[0]);
  }
}

// A reader finds a bad replica (or believes so); sometimes memory does go bad.
void World::Report() {
  if (readers_.empty()) return;
  const Reader& reader = readers_[Draw(readers_.size())];
  if (reader.stores.empty()) return;
  const size_t at = Draw(reader.stores.size());
  const ModelReplica replica = Renamed({reader.stores[at], reader.info.replicas[at].place});
  SimStore* store = StoreOf(reader.stores[at]);
  const auto object = model_.Find(reader.key);
  if (Chance(20) && store != nullptr && store->Memory(replica.place) != nullptr && reader.info.size > 0 &&
      object.has_value() && object->version == reader.info.version && serving_.contains(replica)) {
    (*store->Memory(replica.place))[reader.info.replicas[at].extents[0].offset] ^= 1;
    bad_.insert({reader.info.version, replica});
  }
  const ErrorCode kinds[] = {ErrorCode::kChecksum, ErrorCode::kUnreachable, ErrorCode::kLeaseExpired};
  (void)master_->Report(Ref(reader.key), reader.info.version, reader.stores[at], reader.info.replicas[at].place,
                        kinds[Draw(3)], now());
}

}  // namespace tiercel::core::sim
