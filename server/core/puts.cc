// A put from its start to every end but the good one (put_end.cc).
//
// A put is open at its stores until they say that it is closed, whatever the master has decided: its OpenPut there
// outlives the Put here. A put of this process is closed when its writer ends it; when somebody else does (deadline,
// takeover), its writer may still be copying, and the store is asked like for any other.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

Status Master::Impl::CheckPut(const KeyRef& key, uint64_t size, const PutOptions& how) const {
  if (key.key.empty()) return Error(ErrorCode::kInvalid, "key: must have at least 1 byte");
  if (key.key.size() > kMaxKeyBytes) {
    return Error(ErrorCode::kTooBig, "key: " + std::to_string(key.key.size()) + " bytes, at most " +
                                         std::to_string(kMaxKeyBytes) + " are allowed");
  }
  if (key.name_space >= options.name_spaces) {
    return Error(ErrorCode::kInvalid, "namespace: must be below " + std::to_string(options.name_spaces));
  }
  if (size > kMaxValueBytes) {
    return Error(ErrorCode::kTooBig, "size: " + std::to_string(size) + " bytes, at most " +
                                         std::to_string(kMaxValueBytes) + " are allowed");
  }
  if (how.replicas == 0 || how.replicas > kMaxReplicas) {
    return Error(ErrorCode::kInvalid, "replicas: must be 1 to " + std::to_string(kMaxReplicas));
  }
  if (how.soft_pin_ms.has_value() && (*how.soft_pin_ms < 0 || *how.soft_pin_ms > options.soft_pin_max_ms)) {
    return Error(ErrorCode::kInvalid, "soft pin: must be 0 to " + std::to_string(options.soft_pin_max_ms) + " ms");
  }
  if (how.group.size() > kMaxNameBytes) {
    return Error(ErrorCode::kTooBig, "group: at most " + std::to_string(kMaxNameBytes) + " bytes are allowed");
  }
  if (how.parent.has_value() && (how.parent->empty() || how.parent->size() > kMaxKeyBytes)) {
    return Error(ErrorCode::kInvalid, "parent: must have 1 to " + std::to_string(kMaxKeyBytes) + " bytes");
  }
  return Ok();
}

uint32_t Master::Impl::FindOpenPut(const KeyRef& key) const {
  return puts.FindHash(key.hash,
                       [&](const Put& put) { return put.name_space == key.name_space && KeyOf(put) == key.key; });
}

// ---- metadata

bool Master::Impl::MetadataRoom(size_t key_size) const {
  if (options.metadata_max_bytes == 0) return true;
  // What one put may add: a chunk of each large table.
  constexpr uint64_t kStep = 3 * kHugeChunkBytes;
  if (MetadataBytes() + kStep <= options.metadata_max_bytes) return true;
  return objects.room() > puts.size() && keys.HasRoomFor(key_size) && pages.room() >= 2;
}

Status Master::Impl::MakeMetadataRoom(size_t key_size, uint32_t spare_slot, Times now) {
  // Memory of keys comes back in runs, once all keys of a run are gone: a few victims may free none.
  constexpr int kRounds = 16;
  constexpr uint32_t kVictims = kVictimsPerPut / kRounds;
  for (int round = 0; round < kRounds; ++round) {
    if (MetadataRoom(key_size)) return Ok();
    for (int t = 0; t < kTierCount; ++t) Evict(static_cast<Tier>(t), UINT64_MAX, kVictims, spare_slot, now);
  }
  if (MetadataRoom(key_size)) return Ok();
  return Error(ErrorCode::kMetadataFull, "the master's tables hold " + std::to_string(MetadataBytes()) +
                                             " bytes, metadata-max is " + std::to_string(options.metadata_max_bytes));
}

// ---- start

void Master::Impl::FillPlan(const Put& put, PutPlan* plan, Times now) const {
  plan->outcome = PutOutcome::kCreated;
  plan->put = Version{put.version};
  plan->deadline_ms = put.last_sign_ms + options.put_start_discard_timeout_ms - now.boot_ms;
  plan->size = put.size;
  plan->sum = 0;
  plan->age_ms = now.boot_ms - put.started_ms;
  plan->replicas.resize(put.replicas.size());
  for (size_t i = 0; i < put.replicas.size(); ++i) {
    const Segment& s = segments[put.replicas[i].segment];
    ReplicaInfo& info = plan->replicas[i];
    info.tier = s.tier;
    info.suspect = stores[s.store].info.state != StoreInfo::State::kServing;
    info.store = s.store;
    info.place = s.place;
    info.extents.clear();
    TrimExtents(put.replicas[i].extents, put.size, &info.extents);
  }
}

Status Master::Impl::PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& how, Times now,
                              PutPlan* plan) {
  At(now);
  TIERCEL_TRY(CheckPut(key, size, how));
  uint32_t existing = FindAny(key);
  if (existing != 0 && !Readable(objects[existing], now)) existing = 0;
  if (existing != 0 && !how.replace) {
    const Object& o = objects[existing];
    NoteSeq(o);
    plan->outcome = PutOutcome::kExists;
    plan->put = Version{o.version};
    plan->size = o.size;
    plan->sum = o.sum;
    plan->replicas.clear();
    return Ok();
  }
  if (const uint32_t open = FindOpenPut(key); open != 0) {
    const Put& other = puts[open];
    if (!other.orphan && now.boot_ms - other.last_sign_ms < options.put_start_discard_timeout_ms) {
      plan->outcome = PutOutcome::kBusy;
      plan->put = Version{other.version};
      plan->age_ms = now.boot_ms - other.started_ms;
      plan->replicas.clear();
      return Ok();
    }
    ++counters.puts_taken_over;
    VoidPut(open, false, now);
  }
  if (caller.connection != 0 && puts.CountOf(caller.connection) >= options.max_open_puts_per_connection) {
    return Error(ErrorCode::kRetry, "this connection has " + std::to_string(options.max_open_puts_per_connection) +
                                        " puts open: retry after 100 ms");
  }
  if (how.hard_pin) TIERCEL_TRY(CheckPinBudget(how.tier, PinnedBytes(size) * how.replicas));
  TIERCEL_TRY(MakeMetadataRoom(key.key.size(), existing, now));

  const uint32_t slot = puts.Allocate();
  Put& put = puts[slot];
  const PlaceRequest request{size, how.tier, how.replicas, how.strict, how.in_process, how.prefer, how.exclude};
  if (Status placed = Place(request, existing, now, &put.replicas); !placed.ok()) {
    puts.Free(slot);
    if (GiveUpOrphans(now) == 0) return placed;
    return Error(ErrorCode::kRetry, "puts whose writers are gone are being given up: retry after 10 ms");
  }
  put.version = next_version++;
  if (journal.read_only() && options.journal && Recorded(put.replicas)) {
    DropPut(slot, false);
    return Error(ErrorCode::kIndexReadOnly, "the index cannot be written at the moment");
  }
  put.hash = key.hash;
  put.size = size;
  put.user = caller.user;
  put.connection = caller.connection;
  put.name_space = key.name_space;
  put.key = keys.Store(key.key);
  put.key_size = static_cast<uint16_t>(key.key.size());
  put.in_process = how.in_process;
  put.hard_pin = how.hard_pin;
  put.tier = how.tier;
  put.started_ms = put.last_sign_ms = now.boot_ms;
  put.expire_at_ms = how.expire_at_ms.value_or(0);
  put.soft_pin_ms = how.soft_pin_ms.value_or(0);
  put.priority = how.priority;
  if (how.parent.has_value()) put.parent_hash = KeySeed(key.name_space, *how.parent);
  put.group = how.group;
  if (how.hard_pin) {
    put.pin_budget_bytes = PinnedBytes(size) * put.replicas.size();
    tier(how.tier).hard_pin_reserved += put.pin_budget_bytes;
  }
  for (const PutReplica& replica : put.replicas) {
    Store& store = stores[segments[replica.segment].store];
    store.open[put.version] = OpenPut();
    store.open_order.push_back(put.version);
  }
  puts.Enter(slot);
  ++counters.puts_created;
  FillPlan(put, plan, now);
  return Ok();
}

// ---- ends

// What the store must hear of the put's end; the OpenPut is gone at once when its writer is known to have finished.
void Master::Impl::EndAtStore(const Put& put, const PutReplica& replica, bool writer_ended, Times now) {
  const Segment& s = segments[replica.segment];
  Store& store = stores[s.store];
  OpenPut* open = store.open.Find(put.version);
  if (open == nullptr) return;
  if (put.in_process && writer_ended) {
    store.open.Erase(put.version);
  } else if (open->state == OpenPut::State::kOpen) {
    open->state = OpenPut::State::kCloseQueued;
    open->close_since_ms = now.boot_ms;
    QueueClose(&store, put.version);
  }
}

void Master::Impl::DropPut(uint32_t slot, bool keep_key) {
  Put& put = puts[slot];
  for (PutReplica& replica : put.replicas) {
    Move(replica.segment, SpaceState::kReserved, SpaceState::kFencing, replica.extents.bytes());
    Release(replica.segment, std::move(replica.extents), put.version, SpaceState::kFencing, 0);
  }
  put.replicas.clear();
  if (!keep_key && put.key_size > 0) keys.Free(put.key);
  tier(put.tier).hard_pin_reserved -= put.pin_budget_bytes;
  puts.Free(slot);
}

void Master::Impl::VoidPut(uint32_t slot, bool writer_ended, Times now) {
  const Put& put = puts[slot];
  puts.Leave(slot);
  for (const PutReplica& replica : put.replicas) EndAtStore(put, replica, writer_ended, now);
  DropPut(slot, false);
}

// Who may end a put: its user, from any connection; a put of this process only the connection that it serves.
Status Master::Impl::Owns(const Caller& caller, const Put& put) const {
  if (caller.user == put.user && (!put.in_process || caller.connection == put.connection)) return Ok();
  return Error(ErrorCode::kNotOwner, "put " + std::to_string(put.version) + " belongs to somebody else");
}

Result<PutPlan> Master::Impl::PutRenew(const Caller& caller, Version put, Times now) {
  At(now);
  const uint32_t slot = puts.FindVersion(put.value);
  if (slot == 0) return Error(ErrorCode::kNoPut, "put " + std::to_string(put.value) + " is not open");
  TIERCEL_TRY(Owns(caller, puts[slot]));
  puts.Touch(slot, now.boot_ms);
  PutPlan plan;
  FillPlan(puts[slot], &plan, now);
  return plan;
}

Result<bool> Master::Impl::PutRevoke(const Caller& caller, Version put, Times now) {
  At(now);
  const uint32_t slot = puts.FindVersion(put.value);
  if (slot == 0) {
    const PutTable::Ended* ended = puts.FindEnded(put.value);
    if (ended != nullptr && ended->user != caller.user) {
      return Error(ErrorCode::kNotOwner, "put " + std::to_string(put.value) + " belongs to somebody else");
    }
    return false;
  }
  TIERCEL_TRY(Owns(caller, puts[slot]));
  ++counters.puts_revoked;
  VoidPut(slot, true, now);
  return true;
}

void Master::Impl::ConnectionClosed(ConnectionId connection, Times now) {
  At(now);
  if (connection == 0) return;
  for (uint32_t slot = puts.FirstOf(connection); slot != 0; slot = puts[slot].connection_next) {
    if (puts[slot].orphan) continue;
    puts.Orphan(slot);
    orphans.push_back(puts[slot].version);
    ++counters.puts_orphaned;
  }
}

// Somebody needs what they hold: their deadline is not waited for. The oldest first, a bounded number; how many.
uint32_t Master::Impl::GiveUpOrphans(Times now) {
  constexpr uint32_t kAtOnce = 64;
  uint32_t given_up = 0;
  while (!orphans.empty() && given_up < kAtOnce) {
    const uint32_t slot = puts.FindVersion(orphans.front());
    orphans.pop_front();
    if (slot == 0) continue;  // ended otherwise
    ++given_up;
    ++counters.puts_given_up;
    VoidPut(slot, false, now);
  }
  return given_up;
}

}  // namespace tiercel::core
