// The whole master as pure logic: objects, puts, leases, space, stores, eviction, journal.
//
// No sockets, files, clocks or threads: callers hand in the time and the caller's identity, and hold one lock
// around every call (the lock belongs to the shell). Every call does bounded work; what could be long (clearing
// a namespace, removing a store, expiry, eviction ahead of need) is done in steps by Tick.
//
// Journal: a change takes effect in memory at once. When it concerns an object that has a record, it appends to
// the journal. BeginCommand/wait() bracket one command: wait() is the highest journal position that the
// command's reply depends on. A reply may leave when wait() <= durable().
//
//   lock; BeginCommand(); ...calls...; Seq wait = master.wait(); unlock; encode; send once durable() >= wait
//
// Absent means absent: a reserved, deleted, expired or unreachable object answers like one never seen, and an
// absent key changes nothing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/options.h"
#include "server/core/record.h"
#include "server/core/types.h"

namespace tiercel::core {

// Everything that is counted. Plain numbers under the core's lock.
struct Counters {
  uint64_t lookups_hit = 0, lookups_miss = 0;
  uint64_t puts_created = 0, puts_ended = 0, puts_failed = 0, puts_revoked = 0, puts_orphaned = 0;
  uint64_t puts_taken_over = 0, puts_given_up = 0, puts_timed_out = 0, puts_partial = 0, puts_no_space = 0;
  uint64_t evicted_objects = 0, evicted_bytes = 0, evicted_soft_pinned = 0, eviction_dry_runs = 0;
  uint64_t evict_looked_at = 0;
  uint64_t expired_objects = 0, deleted_objects = 0, replaced_objects = 0, lost_objects = 0;
  uint64_t leases_granted = 0, leases_refused = 0;
  uint64_t replicas_corrupt = 0, replicas_reported_unreachable = 0, replicas_in_use = 0;
  uint64_t stores_joined = 0, stores_suspect = 0, stores_away = 0, stores_gone = 0;
  uint64_t journal_failures = 0, events_dropped = 0;
};

// What became of one record of the index at a start.
enum class Restored : uint8_t {
  kRestored,
  kNoSegment,  // none of its segments is known
  kOlder,      // the key has a newer record; also counted when this one takes the place of an older one
  kOverlap,    // its bytes belong to another object already
  kFlushed,    // its namespace was flushed after it was put
  kInvalid,    // breaks a limit: of key, value, namespaces, stores
};
inline constexpr int kRestoredKinds = 6;

// How far a restarted master is. Objects count as confirmed when a store with one of their replicas has joined and
// named the segment that they lie in; as lost when the last such store came back without it, or was given up.
struct RestoreFigures {
  bool loading = false;
  uint64_t records = 0;  // read from the index
  uint64_t objects = 0;  // taken over
  uint64_t confirmed = 0, waiting = 0, lost = 0;
  std::array<uint64_t, kRestoredKinds> outcomes{};  // of object records, by Restored
  uint64_t dropped() const {
    uint64_t sum = 0;
    for (size_t i = 1; i < outcomes.size(); ++i) sum += outcomes[i];
    return sum;
  }
};

// What changed since the last TakeSignals: the shell wakes whoever waits for it.
struct Signals {
  bool journal = false;  // records to commit
  bool work = false;     // some store has work
  bool space = false;    // bytes became free: waiting puts may try again
  bool events = false;
};

// What redis-cli shows of one object.
struct ObjectDetail {
  ObjectInfo info;
  std::string state;  // "live", "reserved"
  int64_t age_ms = 0, idle_ms = 0, lease_left_ms = 0;
  int64_t soft_pin_left_ms = 0;
  bool hard_pin = false;
  uint32_t children = 0, depth = 0;
  std::string group;
};

struct Event {
  enum class Kind : uint8_t { kSet, kDel, kExpire, kExpired, kEvicted, kPersist, kLeasedOut, kReplicaLost };
  uint64_t number = 0;
  Kind kind = Kind::kSet;
  uint32_t name_space = 0;
  std::string key;
};

class Master {
 public:
  struct Seeds {
    uint64_t generation = 1;    // REQUIRES: larger than any before, synced before the first call
    uint64_t random = 1;        // placement
    SipKey grant_master_key{};  // grants' and tickets' keys are derived from it; secret
  };
  Master(const Options& options, const Seeds& seeds);
  ~Master();
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  // ---- restart: what the index held, before any other call. Stores before segments before objects, which come in the
  // order of their versions; namespaces' floors before objects; then RestoreDone. Objects are not seen until their
  // store has joined again. A record that is dropped gets a kDelete record. Takes `record` apart.
  void RestoreBegin();
  Restored Restore(Record&& record, Times now);
  void RestoreDone(Times now);
  RestoreFigures restore_figures() const;  // O(distinct placements)

  // ---- commands' bracket, journal
  void BeginCommand();
  Seq wait() const;  // of the command begun last
  Seq durable() const;
  Seq last() const;
  // Records for one batch, whole commands only, at most that many (4 MiB, 8,192 records by the shell).
  std::vector<Record> TakeJournal(size_t max_records, size_t max_bytes);
  void Durable(Seq up_to, Times now);
  // The batch that was taken last was not written: it and all behind it is undone in reverse order; the index is
  // read-only until JournalResumed. Replies whose wait was undone become errors: WasUndone tells, and is asked before
  // durable(), which goes past them. What a command changed before the first change of its own that has a record is not
  // undone, if nothing was on its way to the index then.
  void JournalFailed(Times now);
  void JournalResumed(Times now);
  bool index_read_only() const;
  // True when the command that waited for this position was undone (its reply becomes -INDEXRO).
  bool WasUndone(Seq wait) const;

  // ---- puts
  Result<PutPlan> PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& options,
                           Times now);
  // The same into a plan that the caller uses again, so that starting puts does not allocate.
  Status PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& options, Times now,
                  PutPlan* plan);
  // Fresh deadline and places (for fresh grants).
  Result<PutPlan> PutRenew(const Caller& caller, Version put, Times now);
  // Number of replicas published, at least 1. Idempotent: repeats answer the same while the put is remembered.
  Result<uint32_t> PutEnd(const Caller& caller, Version put, uint64_t sum, std::span<const ReplicaFailure> failed,
                          Times now);
  Result<bool> PutRevoke(const Caller& caller, Version put, Times now);
  // The connection is gone: its open puts become orphans.
  void ConnectionClosed(ConnectionId connection, Times now);

  // ---- look-ups. False: absent. `out` is reused by callers, so that a look-up does not allocate.
  bool Lookup(const KeyRef& key, const LookupOptions& options, Times now, ObjectInfo* out);
  bool Exists(const KeyRef& key, Times now);  // grants what EXISTS grants
  // Leading keys that are readable (`matched`) and leased (`leased`); stops at the first absent one.
  struct PrefixAnswer {
    uint32_t matched = 0, leased = 0;
    int64_t lease_ms = 0;
  };
  PrefixAnswer PrefixMatch(std::span<const KeyRef> keys, const LookupOptions& options, Times now);
  bool Describe(const KeyRef& key, Times now, ObjectDetail* out);
  // Bytes of this version are held (DYING does not become FREE) until EndRead. For readers in this process.
  // False: absent. Fills `out` without granting a lease; counts as a use.
  bool BeginRead(const KeyRef& key, Times now, ObjectInfo* out);
  void EndRead(Version version, Times now);
  // Brings the records of these keys into cache, and notes in them where they are: for look-ups that follow at once.
  // At most kPrefetch of them at a time, or the first ones have left the cache again.
  static constexpr size_t kPrefetch = 64;
  void Prefetch(std::span<KeyRef> keys) const;

  // ---- removal, time to live, pins
  bool Delete(const KeyRef& key, Times now);
  // Whether only if it has no TTL, has one, longer, shorter: the caller decides by Expiry first. at_ms in the
  // past deletes. False: absent.
  bool ExpireAt(const KeyRef& key, int64_t wall_ms, Times now);
  bool Persist(const KeyRef& key, Times now);  // false: absent or without TTL
  // Absent: nullopt; 0: no TTL. Looks without touching.
  std::optional<int64_t> Expiry(const KeyRef& key, Times now);
  Status PinHard(const KeyRef& key, Times now);
  Status PinSoft(const KeyRef& key, int64_t ms, Times now);
  Status Unpin(const KeyRef& key, Times now);
  // A reader's word about one replica. kChecksum: offered last, re-hashed by its store, dropped if bad.
  Status Report(const KeyRef& key, Version version, Incarnation store, SegmentRef place, ErrorCode what, Times now);
  // Orders VERIFY of all replicas; number ordered.
  Result<uint32_t> Verify(const KeyRef& key, Times now);

  // ---- key space
  uint64_t Size(uint32_t name_space) const;
  uint64_t Flush(uint32_t name_space, Times now);  // all at once for readers; bytes in steps. Objects removed
  uint64_t FlushAll(Times now);
  // Visits about `count` keys from `cursor` (0 starts) and returns the next cursor (0: the end). A key that is
  // present from start to end is visited at least once, whatever else happens meanwhile.
  using Visitor = std::function<void(std::string_view key, const ObjectInfo& info)>;
  uint64_t Scan(uint32_t name_space, uint64_t cursor, uint32_t count, Times now, const Visitor& visit);
  std::optional<std::string> RandomKey(uint32_t name_space, Times now);

  // ---- stores
  Result<StoreJoinReply> StoreJoin(const StoreJoinRequest& request, Times now);
  // All or nothing: a refused segment publishes none of them.
  Status StoreSegments(StoreSlot store, Incarnation incarnation, std::span<const SegmentJoin> segments, Times now);
  // The store has closed all puts below `closed_below`; it serves from now on.
  Status StoreReady(StoreSlot store, Incarnation incarnation, Version closed_below, Times now);
  // Work for the store, at most `max` items; none is not an error. Also a sign of life.
  Result<WorkAnswer> StoreWork(StoreSlot store, Incarnation incarnation, uint32_t max, Times now);
  // The connection on which items were fetched closed: unanswered ones return to the queue.
  void StoreWorkLost(StoreSlot store, Incarnation incarnation, Times now);
  Status StoreDone(StoreSlot store, Incarnation incarnation, uint64_t id, WorkItem::Kind kind, bool ok, uint64_t bytes,
                   Times now);
  Status StoreClosed(StoreSlot store, Incarnation incarnation, std::span<const Version> puts, Times now);
  Status StoreClosedBelow(StoreSlot store, Incarnation incarnation, Version floor, Times now);
  Status StoreAlive(StoreSlot store, Incarnation incarnation, std::span<const Version> puts, Times now);
  // Ranges that a view or read held beyond their life are not in use any more: PARKED becomes FREE.
  Status StoreUnpinned(StoreSlot store, Incarnation incarnation, SegmentRef place, Extent extent, Times now);
  Status StorePing(StoreSlot store, Incarnation incarnation, Times now);
  // The store's control connections are gone: suspect at once.
  void StoreDisconnected(StoreSlot store, Incarnation incarnation, Times now);
  // Of the whole store, or of one segment by name; grace: readable meanwhile, nothing placed there.
  Status StoreLeave(std::string_view store, std::string_view segment, int64_t grace_ms, Times now);
  // The store ends and will be back on the same storage: nothing is placed there until it joins again, and when its
  // connection ends it is away, not suspect. Nothing of it is given up.
  Status StorePause(std::string_view store, Times now);
  std::optional<StoreSlot> FindStore(std::string_view name) const;
  const StoreInfo& store(StoreSlot slot) const;
  std::vector<StoreSlot> Stores() const;
  std::vector<SegmentInfo> Segments() const;

  // ---- grants. Sealed with the newest key of the replica's store.
  Grant MakeGrant(const ReplicaInfo& replica, Version version, Right right, uint64_t user, Times now) const;
  Ticket MakeTicket(uint64_t user, uint64_t client, Times now) const;

  // ---- housekeeping
  // Deadlines, suspicion, expiry, eviction to the low watermark, sweeps: at most about `budget` steps. Returns the
  // boot time at which it wants to be called again (now.boot_ms when work is left).
  int64_t Tick(Times now, uint32_t budget);
  Signals TakeSignals();
  std::vector<Event> TakeEvents();
  const Options& options() const;
  void SetOptions(const Options& options, Times now);

  // ---- figures
  const Counters& counters() const;
  TierFigures Figures(Tier tier) const;
  uint64_t metadata_bytes() const;
  uint64_t generation() const;
  uint64_t open_puts() const;
  uint64_t awaited_puts() const;  // of them, those whose connection is there
  // Walks everything and stops the process on a broken invariant. For tests: O(all objects).
  void CheckInvariants(Times now) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tiercel::core
