// What stores fetch and report: closings, tasks, signs of life.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

// ---- tasks

uint64_t Master::Impl::AddTask(StoreSlot slot, Task task) {
  Store& store = stores[slot];
  if (store.work_items >= kMaxWorkPerStore) return 0;
  const uint64_t id = next_task++;
  task.store = slot;
  tasks.emplace(id, std::move(task));
  store.work.push_back(id);
  ++store.work_items;
  signals.work = true;
  return id;
}

// Offers the replica last, and has its store hash it again. False: the store's queue is full.
bool Master::Impl::AddVerify(uint32_t slot, uint32_t segment) {
  Object& o = objects[slot];
  Replica* replica = nullptr;
  if (o.places != 0) {
    for (Replica& r : places[o.places].replicas) {
      if (r.segment == segment) replica = &r;
    }
  }
  if (replica != nullptr ? replica->suspect : o.Has(kSuspectReplica)) return true;  // ordered already
  Task task;
  task.kind = WorkItem::Kind::kVerify;
  task.version = Version{o.version};
  task.hash = o.hash;
  task.name_space = tables[o.table]->name_space;
  task.key = std::string(KeyOf(o));
  task.place = segments[segment].place;
  if (AddTask(segments[segment].store, std::move(task)) == 0) return false;
  if (replica != nullptr) {
    replica->suspect = true;
  } else {
    o.Set(kSuspectReplica, true);
  }
  return true;
}

void Master::Impl::EndTasks(StoreSlot slot) {
  std::erase_if(tasks, [&](const auto& entry) { return entry.second.store == slot; });
  stores[slot].work.clear();
  stores[slot].work_items = 0;
}

void Master::Impl::ResendTasks(StoreSlot slot) {
  Store& store = stores[slot];
  for (auto& [id, task] : tasks) {
    if (task.store != slot || !task.sent) continue;
    task.sent = false;
    store.work.push_back(id);
    signals.work = true;
  }
}

// The object that the task is about and the replica's segment; 0: the task has become pointless.
uint32_t Master::Impl::FindTarget(const Task& task, uint32_t* segment) const {
  const uint32_t slot = FindAny({task.name_space, task.key, task.hash});
  if (slot == 0 || objects[slot].version != task.version.value) return 0;
  *segment = 0;
  ForEachReplica(objects[slot], [&](uint32_t s, bool, const ExtentList*) {
    if (segments[s].life == Segment::Life::kServing && segments[s].store == task.store &&
        segments[s].place == task.place) {
      *segment = s;
    }
  });
  return *segment == 0 ? 0 : slot;
}

bool Master::Impl::FillItem(const Task& task, WorkItem* item) {
  item->kind = task.kind;
  switch (task.kind) {
    case WorkItem::Kind::kDrop: item->segment = task.place; return true;
    case WorkItem::Kind::kKeys:
      FillKeys(&item->keys, &item->ticket_keys, stores[task.store], task.key_number);
      return true;
    case WorkItem::Kind::kVerify: break;
    case WorkItem::Kind::kClose: return false;
  }
  uint32_t segment = 0;
  const uint32_t slot = FindTarget(task, &segment);
  if (slot == 0) return false;
  const Object& o = objects[slot];
  item->version = task.version;
  item->name_space = task.name_space;
  item->key = task.key;
  item->size = o.size;
  item->sum = o.sum;
  item->source.tier = segments[segment].tier;
  item->source.suspect = true;
  item->source.store = task.store;
  item->source.place = task.place;
  ForEachReplica(o, [&](uint32_t s, bool, const ExtentList* extents) {
    if (s == segment) TrimExtents(extents != nullptr ? *extents : ExtentsOf(o), o.size, &item->source.extents);
  });
  return true;
}

void Master::Impl::Verified(const Task& task, bool ok, Times now) {
  uint32_t segment = 0;
  const uint32_t slot = FindTarget(task, &segment);
  if (slot == 0) return;
  if (!ok) {
    ++counters.replicas_corrupt;
    DropReplica(slot, segment, now);
    return;
  }
  Object& o = objects[slot];
  if (o.places == 0) {
    o.Set(kSuspectReplica, false);
    return;
  }
  for (Replica& r : places[o.places].replicas) {
    if (r.segment == segment) r.suspect = false;
  }
}

// ---- closings

void Master::Impl::QueueClose(Store* store, uint64_t put) {
  store->to_close.push_back(put);
  signals.work = true;
}

// CLOSE items without an answer go out again.
void Master::Impl::ResendCloses(Store* store) {
  store->open.ForEach([&](uint64_t put, OpenPut& open) {
    if (open.state != OpenPut::State::kCloseSent) return;
    open.state = OpenPut::State::kCloseQueued;
    QueueClose(store, put);
  });
}

// A store that does not close a put in time must join again, which repeats the order. Nothing is freed by that.
void Master::Impl::CheckReleaseTimeout(Store* store, Times now) {
  if (now.boot_ms < store->next_release_check_ms || store->must_rejoin) return;
  const int64_t limit_ms = options.put_start_release_timeout_ms;
  store->next_release_check_ms = now.boot_ms + std::max<int64_t>(1000, limit_ms / 16);
  bool late = false;
  store->open.ForEach([&](uint64_t, OpenPut& open) {
    if (open.state == OpenPut::State::kOpen || now.boot_ms - open.close_since_ms < limit_ms) return;
    late = true;
    open.close_since_ms = now.boot_ms;
  });
  if (!late || !store->ready) return;
  store->must_rejoin = true;
  store->connected = false;
  if (store->info.state == StoreInfo::State::kServing) SetStoreState(store, StoreInfo::State::kSuspect);
}

// ---- the store's commands

Result<WorkAnswer> Master::Impl::StoreWork(StoreSlot slot, Incarnation incarnation, uint32_t max, Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  WorkAnswer answer;
  while (!store->to_close.empty() && answer.items.size() < max) {
    WorkItem item;
    item.kind = WorkItem::Kind::kClose;
    while (!store->to_close.empty() && item.puts.size() < kClosesPerItem) {
      const uint64_t put = store->to_close.front();
      store->to_close.pop_front();
      OpenPut* open = store->open.Find(put);
      if (open == nullptr || open->state != OpenPut::State::kCloseQueued) continue;
      open->state = OpenPut::State::kCloseSent;
      item.puts.push_back(Version{put});
    }
    if (!item.puts.empty()) answer.items.push_back(std::move(item));
  }
  while (!store->work.empty() && answer.items.size() < max) {
    const uint64_t id = store->work.front();
    store->work.pop_front();
    const auto it = tasks.find(id);
    if (it == tasks.end()) continue;
    WorkItem item;
    if (!FillItem(it->second, &item)) {
      tasks.erase(it);
      --store->work_items;
      continue;
    }
    item.id = id;
    it->second.sent = true;
    answer.items.push_back(std::move(item));
  }
  answer.floor = Floor(store);
  answer.time_ms = now.boot_ms;
  return answer;
}

void Master::Impl::StoreWorkLost(StoreSlot slot, Incarnation incarnation) {
  if (slot >= stores.size() || stores[slot].info.incarnation != incarnation) return;
  if (stores[slot].info.state == StoreInfo::State::kGone) return;
  ResendCloses(&stores[slot]);
  ResendTasks(slot);
}

Status Master::Impl::StoreDone(StoreSlot slot, Incarnation incarnation, uint64_t id, WorkItem::Kind kind, bool ok,
                               Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  const auto it = tasks.find(id);
  if (it == tasks.end()) return Error(ErrorCode::kNoTask, "task " + std::to_string(id) + " is unknown or done");
  if (it->second.store != slot) {
    return Error(ErrorCode::kNotOwner, "task " + std::to_string(id) + " is another store's");
  }
  if (!it->second.sent) return Error(ErrorCode::kNoTask, "task " + std::to_string(id) + " was not handed out");
  if (it->second.kind != kind) return Error(ErrorCode::kInvalid, "task " + std::to_string(id) + " is of another kind");
  const Task task = std::move(it->second);
  tasks.erase(it);
  --store->work_items;
  switch (kind) {
    case WorkItem::Kind::kVerify: Verified(task, ok, now); break;
    case WorkItem::Kind::kKeys:
      if (!ok || task.key_number < store->sealing_key) break;
      store->sealing_key = task.key_number;
      store->seal = DeriveStoreKey(*store, task.key_number);
      UpdateTicketKey();
      break;
    case WorkItem::Kind::kDrop:
    case WorkItem::Kind::kClose: break;
  }
  return Ok();
}

Status Master::Impl::StoreClosed(StoreSlot slot, Incarnation incarnation, std::span<const Version> closed, Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  for (const Version put : closed) {
    const OpenPut* open = store->open.Find(put.value);
    // Only an answer counts: a put that nobody ordered closed may get bytes still.
    if (open != nullptr && open->state != OpenPut::State::kOpen) CloseSeen(store, put.value);
  }
  return Ok();
}

Status Master::Impl::StoreClosedBelow(StoreSlot slot, Incarnation incarnation, Version floor, Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  if (floor.value < store->closed_below) return Ok();
  for (const uint32_t id : store->segments) {
    if (segments[id].closed) signals.space = true;
    segments[id].closed = false;
  }
  return Ok();
}

Status Master::Impl::StoreAlive(StoreSlot slot, Incarnation incarnation, std::span<const Version> alive, Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  for (const Version put : alive) {
    const uint32_t found = puts.FindVersion(put.value);
    if (found != 0 && store->open.Contains(put.value)) puts.Touch(found, now.boot_ms);
  }
  return Ok();
}

// ---- ranges that were held beyond their life

namespace {

bool Overlaps(const ExtentList& extents, Extent range) {
  return std::any_of(extents.begin(), extents.end(), [&](const Extent& e) {
    return e.offset < range.offset + range.length && range.offset < e.offset + e.length;
  });
}

}  // namespace

void Master::Impl::Unpark(uint32_t id) {
  Held& h = held[id];
  Move(h.segment, SpaceState::kParked, SpaceState::kFencing, h.bytes);
  h.state = SpaceState::kFencing;
  if (h.waits == Held::Waits::kUnpin) Settle(id);  // else it waits for something else, which will settle it
}

void Master::Impl::UnpinAll(uint32_t segment) {
  const std::vector<uint32_t> parked = std::move(segments[segment].parked);
  segments[segment].parked.clear();
  for (const uint32_t id : parked) Unpark(id);
}

Status Master::Impl::StoreUnpinned(StoreSlot slot, Incarnation incarnation, SegmentRef place, Extent extent,
                                   Times now) {
  TIERCEL_ASSIGN(Store * store, Heard(slot, incarnation, now));
  const uint32_t id = FindSegment(*store, place);
  if (id == 0) return Error(ErrorCode::kNoSegment, "no such segment, or its epoch is over");
  Segment& s = segments[id];
  if (extent.offset > s.size || extent.length > s.size - extent.offset) {
    return Error(ErrorCode::kOutOfRange, "the range does not lie in the segment");
  }
  // Any part of it will do: the store refuses a write to what is still in use, and the range is parked again.
  std::vector<uint32_t> ended;
  std::erase_if(s.parked, [&](uint32_t parked) {
    if (!Overlaps(held[parked].extents, extent)) return false;
    ended.push_back(parked);
    return true;
  });
  for (const uint32_t parked : ended) Unpark(parked);
  // A put that was refused there, whose writer has not said so yet.
  store->open.ForEach([&](uint64_t version, OpenPut&) {
    const uint32_t put = puts.FindVersion(version);
    if (put == 0) return;
    for (PutReplica& replica : puts[put].replicas) {
      if (replica.segment == id && Overlaps(replica.extents, extent)) replica.unpinned = true;
    }
  });
  return Ok();
}

}  // namespace tiercel::core
