// The master's state, and its operations by file.
//
//   puts.cc, put_end.cc     a put's life                  journal_undo.cc   what became durable, what is undone
//   placing.cc              where replicas go             scan.cc           walking the key space
//   lookup.cc               look-ups, leases, reads       flush.cc          clearing namespaces
//   remove.cc               unlinking, releasing space    stores.cc         joining, leaving, silence
//   space.cc                what waits to become free     segments.cc       segments' lives
//   ttl_pins.cc             times to live, pins           store_work.cc     work for stores
//   evict.cc                victims                       grants.cc         keys, grants, tickets
//   sweep.cc, tick.cc       what is done in steps         figures.cc, check.cc   numbers, invariants
//   restore.cc              starting with an index        notes.cc          records of stores and segments
//
// How an object is found: name_spaces[ns] -> table -> record (Slab<Object>), key in the arena. Presence is decided
// when somebody looks, by a few rules that are each O(1) to change: the namespace's table may have been exchanged
// (flush), the time may have come (expiry), the segments may be gone or away (stores). What is not present any
// more is taken apart later, in bounded steps, and counts are kept so that they are right at once (Placements).
//
// How space comes back: Release() is the only way from LIVE or RESERVED; it frees the bytes when nothing stands
// against it, or makes a Held that goes through the conditions one by one (Settle).
//
// Rejected: a record and a hash map node per object with a timer wheel entry for each lease (twice the memory, and
// renewing leases is the most frequent operation); reference counts from segments to objects to find those of a lost
// store (a sweep over the slab costs as much in all and nothing before).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/core/flat_map.h"
#include "server/core/journal.h"
#include "server/core/key_arena.h"
#include "server/core/master.h"
#include "server/core/object.h"
#include "server/core/object_table.h"
#include "server/core/parts.h"
#include "server/core/placements.h"
#include "server/core/put_table.h"
#include "server/core/recency.h"
#include "server/core/segment_space.h"
#include "server/core/slab.h"
#include "server/core/store.h"
#include "server/core/time_heap.h"

namespace tiercel::core {

struct Master::Impl {
  Impl(const Options& options_in, const Seeds& seeds);

  struct SetTtlPlace {
    Impl* impl;
    void operator()(uint32_t id, uint32_t place) const { impl->objects[id].ttl_place = place; }
  };
  struct SetSoftPlace {
    Impl* impl;
    void operator()(uint32_t id, uint32_t place) const { impl->extras[id].soft_place = place; }
  };
  struct SetHeldPlace {
    Impl* impl;
    void operator()(uint32_t id, uint32_t place) const { impl->held[id].place = place; }
  };
  // ---- state
  Options options;
  uint64_t generation;
  uint64_t next_version;
  SipKey master_key;
  Random random;
  Counters counters;
  Signals signals;
  std::deque<Event> events;
  uint64_t event_number = 0;
  int64_t boot_ms = 0, wall_ms = 0;  // of the newest call

  Slab<Object> objects;
  KeyArena keys;
  PagePool pages;
  Slab<Places, 64 * 1024> places;
  Slab<Extra, 64 * 1024> extras;
  Slab<Held, 64 * 1024> held;
  uint64_t side_bytes = 0;                            // what places and extras own
  std::vector<std::unique_ptr<NameTable>> tables{1};  // 0 is none
  std::vector<uint32_t> free_tables;
  std::vector<uint32_t> name_spaces;   // table of each; 0: nothing was put there since it was flushed
  std::vector<uint64_t> flush_floors;  // of each: versions below were flushed, unless published afterwards
  std::deque<uint32_t> graveyard;      // tables that are taken apart
  Recency recency;
  Placements placements;
  TimeHeap<SetTtlPlace> ttl;
  TimeHeap<SetSoftPlace> soft_pins;
  TimeHeap<SetHeldPlace> quarantine;
  FlatMap<Pin> pins;
  PutTable puts;
  std::deque<uint64_t> orphans;  // versions of orphaned puts, the oldest first; some of them have ended since
  Journal journal;

  std::array<TierState, kTierCount> tiers;
  std::vector<Segment> segments{1};  // 0 is none
  std::vector<uint32_t> free_segments;
  std::map<std::string, uint32_t, std::less<>> segment_names;
  std::deque<Store> stores;
  std::map<std::string, StoreSlot, std::less<>> store_names;
  std::map<std::string, uint32_t, std::less<>> hosts;
  uint32_t next_host = 1;
  std::deque<FlatMap<OpenPut>> orphaned_opens;  // of gone incarnations, being taken apart
  size_t orphaned_at = 0;
  std::deque<uint32_t> returning;  // heads of chains of Held whose store speaks again or is gone
  std::map<uint64_t, Task> tasks;
  uint64_t next_task = 1;
  int64_t key_born_ms = 0;
  uint32_t newest_key = 1;
  GrantKey ticket_seal;

  RestoreFigures restored;  // counts as they were when RestoreDone ran, and what was lost since

  bool sweep_wanted = false, sweep_running = false;
  uint32_t sweep_at = 0;
  uint32_t spread = 0;       // turns equals round
  uint64_t freed_bytes = 0;  // ever

  // scratch, so that hot paths do not allocate
  std::vector<Candidate> candidates;
  std::vector<uint32_t> used_hosts;
  std::vector<uint32_t> set_scratch;

  // ---- small helpers
  // Takes notice of the time. Callers read their clocks before they have the lock: the core's time is the newest one
  // that it was told, and does not go back.
  void At(Times& now) {
    wall_ms = now.wall_ms;
    if (now.boot_ms > boot_ms) {
      boot_ms = now.boot_ms;
      recency.Advance(boot_ms);
    } else {
      now.boot_ms = boot_ms;
    }
  }
  TierState& tier(Tier t) { return tiers[static_cast<size_t>(t)]; }
  const TierState& tier(Tier t) const { return tiers[static_cast<size_t>(t)]; }
  Tier TierOf(const Object& o) const { return segments[o.segment].tier; }
  std::string_view KeyOf(const Object& o) const { return keys.View(o.key, o.key_size); }
  std::string_view KeyOf(const Put& p) const { return keys.View(p.key, p.key_size); }
  void Publish(Event::Kind kind, uint32_t name_space, std::string_view key);
  template <typename F>
  void ForEachReplica(const Object& o, F&& f) const;  // f(segment, suspect, extents or nullptr)
  uint32_t ReplicaCount(const Object& o) const {
    return o.places == 0 ? 1 : static_cast<uint32_t>(places[o.places].replicas.size());
  }
  ExtentList ExtentsOf(const Object& o) const;  // of the replica in the record, as allocated

  // ---- lookup.cc
  NameTable* TableOf(uint32_t name_space) const;
  NameTable* MakeTable(uint32_t name_space);
  uint32_t FindAny(const KeyRef& key) const;  // in the table, whether anyone sees it or not
  uint32_t FindReadable(const KeyRef& key, Times now) const;
  bool Readable(const Object& o, Times now) const;
  bool HasReadableReplica(const Object& o) const;
  bool HasReplicaOf(const Object& o, Tier t) const;
  void FillInfo(const Object& o, std::optional<Tier> only, ObjectInfo* out);
  void GrantLease(uint32_t slot, const LookupOptions& how, Times now);
  uint64_t LeaseCap(Tier t) const;
  void Touch(uint32_t slot, Times now);
  bool Look(const KeyRef& key, const LookupOptions& how, Times now, ObjectInfo* out, int64_t* lease_ms);
  bool BeginRead(const KeyRef& key, Times now, ObjectInfo* out);
  void EndRead(Version version, Times now);
  Master::PrefixAnswer PrefixMatch(std::span<const KeyRef> asked, const LookupOptions& how, Times now);
  bool Describe(const KeyRef& key, Times now, ObjectDetail* out);
  void Prefetch(std::span<KeyRef> asked) const;

  // ---- queues (evict.cc)
  QueueClass ClassOf(const Object& o) const {
    return o.Has(kSoftPinned) ? QueueClass::kSoftPinned : QueueClass::kOrdinary;
  }
  void Enqueue(uint32_t slot, bool hot);
  void Dequeue(uint32_t slot);
  bool IsLost(const Object& o) const;
  Evicted Evict(Tier t, uint64_t bytes, uint32_t max_victims, uint32_t spare_slot, Times now);
  uint64_t UsedForWatermark(Tier t) const;
  bool AboveWatermark(Tier t) const;

  // ---- puts.cc
  Status PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& how, Times now,
                  PutPlan* plan);
  Status CheckPut(const KeyRef& key, uint64_t size, const PutOptions& how) const;
  Result<PutPlan> PutRenew(const Caller& caller, Version put, Times now);
  Result<bool> PutRevoke(const Caller& caller, Version put, Times now);
  void ConnectionClosed(ConnectionId connection, Times now);
  Status Owns(const Caller& caller, const Put& put) const;
  uint32_t FindOpenPut(const KeyRef& key) const;
  void VoidPut(uint32_t slot, bool writer_ended, Times now);  // its space to FENCING
  void DropPut(uint32_t slot, bool keep_key);
  void EndAtStore(const Put& put, const PutReplica& replica, bool writer_ended, Times now);
  void FillPlan(const Put& put, PutPlan* plan, Times now) const;
  uint32_t GiveUpOrphans(Times now);
  bool MetadataRoom(size_t key_size) const;
  Status MakeMetadataRoom(size_t key_size, uint32_t spare_slot, Times now);

  // ---- put_end.cc
  Result<uint32_t> PutEnd(const Caller& caller, Version put, uint64_t sum, std::span<const ReplicaFailure> failed,
                          Times now);
  uint32_t SettleFailures(Put* put, std::span<const ReplicaFailure> failed);
  Seq PublishPut(uint32_t put_slot, uint64_t sum, Times now);

  // ---- placing.cc
  Status Place(const PlaceRequest& request, uint32_t spare_slot, Times now, std::vector<PutReplica>* out);
  uint32_t PlaceOnce(const PlaceRequest& request, std::vector<PutReplica>* out);
  void GatherCandidates(const PlaceRequest& request, bool* busy);
  uint32_t CountHosts() const;
  bool Hopeless(const PlaceRequest& request) const;
  Error NoSpace(const PlaceRequest& request) const;
  bool TakePlace(const Candidate& candidate, const PlaceRequest& request, std::vector<PutReplica>* out);
  Candidate* Choose();
  void EvictForPlaces(const PlaceRequest& request, uint32_t want, uint32_t spare_slot, Times now,
                      std::vector<PutReplica>* out);

  // ---- remove.cc
  void Unlink(uint32_t slot, Why why, Times now);
  void Detach(uint32_t slot);                    // from all but its table: queues, heaps, counts, budgets
  void Reattach(uint32_t slot, Times now);       // undoes Detach
  void Relink(uint32_t slot, Times now);         // undoes Unlink
  void Retire(uint32_t slot, SpaceState state);  // REQUIRES: unlinked; gives up record and space
  bool DropReplicas(uint32_t slot, Times now);   // those of gone segments; false: none is left
  bool DropReplica(uint32_t slot, uint32_t segment, Times now);
  void FreeExtra(Object* o);
  void FreePlaces(Object* o);
  Extra& ExtraOf(uint32_t slot);
  void SetPlacement(Object* o);
  bool Delete(const KeyRef& key, Times now);
  Status Report(const KeyRef& key, Version version, Incarnation store, SegmentRef place, ErrorCode what, Times now);
  Result<uint32_t> Verify(const KeyRef& key, Times now);

  // ---- space.cc
  void Move(uint32_t segment, SpaceState from, SpaceState to, uint64_t bytes);
  // Bytes that were moved to FENCING, DYING or PARKED become free when nothing stands against it any more.
  void Release(uint32_t segment, ExtentList extents, uint64_t put, SpaceState state, int64_t until_ms);
  void Settle(uint32_t id);
  void FreeNow(uint32_t segment, const ExtentList& extents, SpaceState from, uint64_t bytes);
  void DropHeld(uint32_t id);
  void Unref(uint32_t segment);
  void CloseSeen(Store* store, uint64_t put);
  void RunQuarantine(Times now, uint32_t* budget);

  // ---- ttl_pins.cc
  bool ExpireAt(const KeyRef& key, int64_t wall_ms, Times now);
  bool Persist(const KeyRef& key, Times now);
  std::optional<int64_t> Expiry(const KeyRef& key, Times now);
  void SetExpiry(uint32_t slot, int64_t wall_ms);
  Status PinHard(const KeyRef& key, Times now);
  Status PinSoft(const KeyRef& key, int64_t ms, Times now);
  Status Unpin(const KeyRef& key, Times now);
  void SetSoftPin(uint32_t slot, int64_t until_ms);
  void SetHardPin(uint32_t slot, bool on);
  int64_t SoftPinEnd(const Object& o) const;  // 0: none
  uint64_t HardPinBudget(Tier t) const;
  Status CheckPinBudget(Tier t, uint64_t bytes) const;
  uint64_t BytesOf(const Object& o) const;  // of all replicas
  uint64_t PinnedBytesOf(const Object& o) const;
  void EndSoftPins(Times now, uint32_t* budget);
  void Expire(Times now, uint32_t* budget);

  // ---- journal_undo.cc
  bool Recorded(const std::vector<PutReplica>& replicas) const;
  void NoteSeq(const Object& o) { journal.WaitFor(o.seq); }
  bool Journaled(const Object& o) const { return options.journal && (o.Has(kRecorded) || journal.active()); }
  void JournalPut(uint32_t slot, uint32_t previous);
  void JournalUnlink(uint32_t slot, bool by_command);
  void JournalChange(uint32_t slot, uint8_t old_flags, int64_t old_expire_ms, int64_t old_soft_pin_ms);
  void AddRecord(Seq seq, Record record);
  Record PutRecord(const Object& o, bool again = false) const;
  Record DeleteRecord(const Object& o, uint32_t name_space) const;
  void Durable(Seq up_to, Times now);
  void JournalFailed(Times now);
  void UndoPut(const JournalEntry& entry, Times now);
  void UndoChange(const JournalEntry& entry);
  void WriteAgain(const JournalEntry& entry);

  // ---- restore.cc
  Restored Restore(Record&& record, Times now);
  void RestoreDone(Times now);
  Restored RestoreStore(Record&& record, Times now);
  Restored RestoreSegment(Record&& record);
  Restored RestoreObject(Record&& record, Times now);
  bool ClaimReplica(const ReplicaInfo& from, uint64_t size, Replica* out, Restored* why);
  void DropRecord(Version version);
  bool TakeVersion(uint64_t version);
  RestoreFigures RestoreState() const;

  // ---- notes.cc
  void NoteStore(Store* store);
  void NoteSegment(uint32_t id);
  void NoteSegmentGone(uint32_t id);
  void AddNote(JournalEntry::Note note, StoreSlot store, SegmentRef place);
  bool FillNote(const JournalEntry& entry, Record* record) const;

  // ---- scan.cc
  uint64_t Scan(uint32_t name_space, uint64_t cursor, uint32_t count, Times now, const Visitor& visit);
  std::optional<std::string> RandomKey(uint32_t name_space, Times now);

  // ---- flush.cc
  uint64_t Flush(uint32_t name_space, Times now);
  uint64_t FlushAll(Times now);
  void Unflush(const JournalEntry& entry);
  void TakeApart(uint32_t* budget, Times now);
  void FreeTable(uint32_t id);

  // ---- stores.cc
  Result<StoreJoinReply> StoreJoin(const StoreJoinRequest& request, Times now);
  Result<StoreSlot> SlotFor(const StoreInfo& info, Times now);
  void Reincarnate(Store* store);
  Status StoreReady(StoreSlot slot, Incarnation incarnation, Version closed_below, Times now);
  Status StoreLeave(std::string_view name, std::string_view segment, int64_t grace_ms, Times now);
  Status StorePause(std::string_view name, Times now);
  int64_t LeaveDue(Store* store, Times now);
  Result<Store*> Heard(StoreSlot slot, Incarnation incarnation, Times now);
  void StoreDisconnected(StoreSlot slot, Incarnation incarnation, Times now);
  void SetStoreState(Store* store, StoreInfo::State state);
  void StoreGone(Store* store);
  void WakeWaiting(Store* store);
  int64_t WatchStores(Times now);
  uint32_t HostOf(const StoreInfo& info);
  Version Floor(Store* store) const;

  // ---- segments.cc
  Status StoreSegments(StoreSlot slot, Incarnation incarnation, std::span<const SegmentJoin> joined, Times now);
  Status CheckSegment(const Store& store, const SegmentJoin& join) const;
  bool SameSegment(const Segment& segment, const SegmentJoin& join) const;
  void Stage(Store* store, const SegmentJoin& join);
  void DropStaged(Store* store);
  void PublishSegment(Store* store, uint32_t id);
  void SegmentGone(uint32_t id);
  void UpdateReadable(uint32_t id);
  void ForgetSegment(uint32_t id);
  bool Allocatable(const Segment& segment) const;
  uint32_t FindSegment(const Store& store, SegmentRef place) const;

  // ---- store_work.cc
  Result<WorkAnswer> StoreWork(StoreSlot slot, Incarnation incarnation, uint32_t max, Times now);
  void StoreWorkLost(StoreSlot slot, Incarnation incarnation);
  Status StoreDone(StoreSlot slot, Incarnation incarnation, uint64_t id, WorkItem::Kind kind, bool ok, Times now);
  Status StoreClosed(StoreSlot slot, Incarnation incarnation, std::span<const Version> closed, Times now);
  Status StoreClosedBelow(StoreSlot slot, Incarnation incarnation, Version floor, Times now);
  Status StoreAlive(StoreSlot slot, Incarnation incarnation, std::span<const Version> alive, Times now);
  Status StoreUnpinned(StoreSlot slot, Incarnation incarnation, SegmentRef place, Extent extent, Times now);
  void Unpark(uint32_t held_id);
  void UnpinAll(uint32_t segment);
  void QueueClose(Store* store, uint64_t put);
  void ResendCloses(Store* store);
  uint64_t AddTask(StoreSlot slot, Task task);  // 0: the store's queue is full
  bool AddVerify(uint32_t slot, uint32_t segment);
  void EndTasks(StoreSlot slot);
  void ResendTasks(StoreSlot slot);
  uint32_t FindTarget(const Task& task, uint32_t* segment) const;
  bool FillItem(const Task& task, WorkItem* item);
  void Verified(const Task& task, bool ok, Times now);
  void CheckReleaseTimeout(Store* store, Times now);

  // ---- grants.cc
  GrantKey DeriveStoreKey(const Store& store, uint32_t number) const;
  GrantKey DeriveTicketKey(uint32_t number) const;
  void FillKeys(std::vector<GrantKey>* grant_keys, std::vector<GrantKey>* ticket_keys, const Store& store,
                uint32_t newest) const;
  void RotateKeys(Times now);
  void UpdateTicketKey();

  // ---- sweep.cc, tick.cc
  void Sweep(uint32_t* budget, Times now);
  int64_t Tick(Times now, uint32_t budget);
  void SetOptions(const Options& changed, Times now);

  // ---- figures.cc, check.cc
  TierFigures Figures(Tier t) const;
  uint64_t MetadataBytes() const;
  void CheckInvariants(Times now) const;
  struct Tally;
  void TallyObject(uint32_t slot, Tally* tally) const;
  void TallyHeld(Tally* tally) const;
  void TallyPuts(Tally* tally) const;
  void CheckSegments(Tally* tally) const;
  void CheckQueues(const Tally& tally) const;
};

template <typename F>
void Master::Impl::ForEachReplica(const Object& o, F&& f) const {
  if (o.places == 0) {
    f(o.segment, o.Has(kSuspectReplica), static_cast<const ExtentList*>(nullptr));
    return;
  }
  for (const Replica& replica : places[o.places].replicas) f(replica.segment, replica.suspect, &replica.extents);
}

}  // namespace tiercel::core
