// The good end of a put: what its writer reports becomes the key's value.
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

Result<uint32_t> Master::Impl::PutEnd(const Caller& caller, Version put_id, uint64_t sum,
                                      std::span<const ReplicaFailure> failed, Times now) {
  At(now);
  const uint32_t slot = puts.FindVersion(put_id.value);
  if (slot == 0) {
    const PutTable::Ended* ended = puts.FindEnded(put_id.value);
    if (ended == nullptr) return Error(ErrorCode::kNoPut, "put " + std::to_string(put_id.value) + " is not open");
    if (ended->user != caller.user) {
      return Error(ErrorCode::kNotOwner, "put " + std::to_string(put_id.value) + " belongs to somebody else");
    }
    journal.WaitFor(ended->seq);
    if (ended->published == 0) return Error(ErrorCode::kPutFailed, "all replicas of the put had failed");
    return ended->published;
  }
  Put& put = puts[slot];
  TIERCEL_TRY(Owns(caller, put));
  const size_t planned = put.replicas.size();
  for (const ReplicaFailure& failure : failed) {
    if (failure.index >= planned) {
      return Error(ErrorCode::kInvalid,
                   "index " + std::to_string(failure.index) + ": the put has " + std::to_string(planned) + " replicas");
    }
  }
  if (journal.read_only() && options.journal && Recorded(put.replicas)) {
    puts.Touch(slot, now.boot_ms);
    return Error(ErrorCode::kIndexReadOnly, "the index cannot be written at the moment");
  }
  puts.Leave(slot);
  for (const PutReplica& replica : put.replicas) EndAtStore(put, replica, true, now);
  const uint32_t kept = SettleFailures(&put, failed);
  if (kept == 0) {
    ++counters.puts_failed;
    puts.Remember({put.version, put.user, 0, 0});
    DropPut(slot, false);
    return Error(ErrorCode::kPutFailed, "all " + std::to_string(planned) + " replicas of the put have failed");
  }
  ++counters.puts_ended;
  const Seq seq = PublishPut(slot, sum, now);
  puts.Remember({put.version, put.user, seq, kept});
  DropPut(slot, true);
  return kept;
}

// Gives the space of failed replicas to quarantine, and takes them out of the put; how many are left.
uint32_t Master::Impl::SettleFailures(Put* put, std::span<const ReplicaFailure> failed) {
  size_t kept = 0;
  for (size_t i = 0; i < put->replicas.size(); ++i) {
    PutReplica& replica = put->replicas[i];
    const ReplicaFailure* failure = nullptr;
    for (const ReplicaFailure& f : failed) {
      if (f.index == i && (failure == nullptr || f.reason == ErrorCode::kInUse)) failure = &f;
    }
    if (failure == nullptr && segments[replica.segment].life != Segment::Life::kGone) {
      if (kept != i) put->replicas[kept] = std::move(replica);
      ++kept;
      continue;
    }
    const bool in_use = failure != nullptr && failure->reason == ErrorCode::kInUse;
    if (in_use) ++counters.replicas_in_use;
    // What was reported as unpinned before this arrived is not waited for.
    const SpaceState state = in_use && !replica.unpinned ? SpaceState::kParked : SpaceState::kFencing;
    Move(replica.segment, SpaceState::kReserved, state, replica.extents.bytes());
    Release(replica.segment, std::move(replica.extents), put->version, state, 0);
  }
  put->replicas.resize(kept);
  return static_cast<uint32_t>(kept);
}

// Makes the put's replicas (all good) the key's value. Takes the key and the extents out of the put.
Seq Master::Impl::PublishPut(uint32_t put_slot, uint64_t sum, Times now) {
  Put& put = puts[put_slot];
  const uint32_t slot = objects.Allocate();
  Object& o = objects[slot];
  o = Object();
  o.hash = put.hash;
  o.version = put.version;
  o.size = put.size;
  o.sum = sum;
  o.expire_at_ms = put.expire_at_ms;
  o.key = put.key;
  o.key_size = put.key_size;
  o.state = ObjectState::kLive;
  o.created_ms = o.used_ms = now.boot_ms;
  o.Set(kHardPinned, put.hard_pin);
  o.Set(kRecorded, options.journal && Recorded(put.replicas));
  const uint64_t bytes = AllocatedBytes(put.size);
  for (const PutReplica& replica : put.replicas) Move(replica.segment, SpaceState::kReserved, SpaceState::kLive, bytes);
  o.segment = put.replicas[0].segment;
  if (put.replicas.size() == 1 && put.replicas[0].extents.size() <= 1) {
    if (bytes > 0) o.offset = put.replicas[0].extents[0].offset;
  } else {
    o.places = places.Allocate();
    std::vector<Replica>& replicas = places[o.places].replicas;
    replicas.reserve(put.replicas.size());
    for (PutReplica& replica : put.replicas) {
      side_bytes += replica.extents.size() > 1 ? replica.extents.size() * sizeof(Extent) : 0;
      replicas.push_back({replica.segment, false, std::move(replica.extents)});
    }
    side_bytes += replicas.capacity() * sizeof(Replica);
  }
  if (put.soft_pin_ms > 0 || put.parent_hash != 0 || put.priority != 0 || !put.group.empty()) {
    Extra& extra = ExtraOf(slot);
    extra.parent_hash = put.parent_hash;
    extra.priority = put.priority;
    extra.group = std::move(put.group);
    side_bytes += extra.group.capacity();
    extra.soft_pin_until_ms = now.boot_ms + put.soft_pin_ms;
    o.Set(kSoftPinned, put.soft_pin_ms > 0);
  }

  NameTable* table = MakeTable(put.name_space);
  o.table = name_spaces[put.name_space];
  const KeyRef key{put.name_space, KeyOf(o), o.hash};
  const uint32_t previous = FindAny(key);
  if (previous == 0) {
    table->table.Insert(o.hash, slot);
  } else {
    if (Readable(objects[previous], now)) ++counters.replaced_objects;
    table->table.Replace(o.hash, previous, slot);
    Unlink(previous, Why::kReplaced, now);
  }
  tier(put.tier).hard_pin_reserved -= put.pin_budget_bytes;
  put.pin_budget_bytes = 0;
  put.replicas.clear();
  Reattach(slot, now);
  Publish(Event::Kind::kSet, put.name_space, key.key);
  JournalPut(slot, previous);
  return o.seq;
}

}  // namespace tiercel::core
