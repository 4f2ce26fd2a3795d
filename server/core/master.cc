// The facade.
#include "server/core/master.h"

#include "server/core/impl.h"

namespace tiercel::core {

Master::Impl::Impl(const Options& options_in, const Seeds& seeds)
    : options(options_in),
      generation(seeds.generation),
      next_version((seeds.generation << kCounterBits) + 1),
      master_key(seeds.grant_master_key),
      random(seeds.random),
      recency(&objects),
      ttl(SetTtlPlace{this}),
      soft_pins(SetSoftPlace{this}),
      quarantine(SetHeldPlace{this}) {
  TIERCEL_CHECK(seeds.generation >= 1);
  TIERCEL_CHECK(seeds.generation <= kMaxGeneration);
  recency.SetLeaseMax(options.lease_max_ms, 0);
  ticket_seal = DeriveTicketKey(newest_key);
}

Master::Master(const Options& options, const Seeds& seeds) : impl_(std::make_unique<Impl>(options, seeds)) {}
Master::~Master() = default;

void Master::BeginCommand() { impl_->journal.BeginCommand(); }
Seq Master::wait() const { return impl_->journal.wait(); }
Seq Master::durable() const { return impl_->journal.durable(); }
Seq Master::last() const { return impl_->journal.last(); }
void Master::RestoreBegin() { impl_->restored.loading = true; }
Restored Master::Restore(Record&& record, Times now) { return impl_->Restore(std::move(record), now); }
void Master::RestoreDone(Times now) { impl_->RestoreDone(now); }
RestoreFigures Master::restore_figures() const { return impl_->RestoreState(); }

std::vector<Record> Master::TakeJournal(size_t max_records, size_t max_bytes) {
  return impl_->journal.Take(max_records, max_bytes);
}
void Master::Durable(Seq up_to, Times now) { impl_->Durable(up_to, now); }
void Master::JournalFailed(Times now) { impl_->JournalFailed(now); }
void Master::JournalResumed(Times now) {
  impl_->At(now);
  impl_->journal.Resume();
  if (impl_->journal.has_records()) impl_->signals.journal = true;
}
bool Master::index_read_only() const { return impl_->journal.read_only(); }
bool Master::WasUndone(Seq wait) const { return impl_->journal.WasUndone(wait); }

Status Master::PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& options, Times now,
                        PutPlan* plan) {
  return impl_->PutStart(caller, key, size, options, now, plan);
}
Result<PutPlan> Master::PutStart(const Caller& caller, const KeyRef& key, uint64_t size, const PutOptions& options,
                                 Times now) {
  PutPlan plan;
  TIERCEL_TRY(impl_->PutStart(caller, key, size, options, now, &plan));
  return plan;
}
Result<PutPlan> Master::PutRenew(const Caller& caller, Version put, Times now) {
  return impl_->PutRenew(caller, put, now);
}
Result<uint32_t> Master::PutEnd(const Caller& caller, Version put, uint64_t sum, std::span<const ReplicaFailure> failed,
                                Times now) {
  return impl_->PutEnd(caller, put, sum, failed, now);
}
Result<bool> Master::PutRevoke(const Caller& caller, Version put, Times now) {
  return impl_->PutRevoke(caller, put, now);
}
void Master::ConnectionClosed(ConnectionId connection, Times now) { impl_->ConnectionClosed(connection, now); }

bool Master::Lookup(const KeyRef& key, const LookupOptions& options, Times now, ObjectInfo* out) {
  return impl_->Look(key, options, now, out, nullptr);
}
bool Master::Exists(const KeyRef& key, Times now) {
  return impl_->Look(key, LookupOptions{.from_exists = true}, now, nullptr, nullptr);
}
Master::PrefixAnswer Master::PrefixMatch(std::span<const KeyRef> keys, const LookupOptions& options, Times now) {
  return impl_->PrefixMatch(keys, options, now);
}
bool Master::Describe(const KeyRef& key, Times now, ObjectDetail* out) { return impl_->Describe(key, now, out); }
bool Master::BeginRead(const KeyRef& key, Times now, ObjectInfo* out) { return impl_->BeginRead(key, now, out); }
void Master::EndRead(Version version, Times now) { impl_->EndRead(version, now); }
void Master::Prefetch(std::span<KeyRef> keys) const { impl_->Prefetch(keys); }

bool Master::Delete(const KeyRef& key, Times now) { return impl_->Delete(key, now); }
bool Master::ExpireAt(const KeyRef& key, int64_t wall_ms, Times now) { return impl_->ExpireAt(key, wall_ms, now); }
bool Master::Persist(const KeyRef& key, Times now) { return impl_->Persist(key, now); }
std::optional<int64_t> Master::Expiry(const KeyRef& key, Times now) { return impl_->Expiry(key, now); }
Status Master::PinHard(const KeyRef& key, Times now) { return impl_->PinHard(key, now); }
Status Master::PinSoft(const KeyRef& key, int64_t ms, Times now) { return impl_->PinSoft(key, ms, now); }
Status Master::Unpin(const KeyRef& key, Times now) { return impl_->Unpin(key, now); }
Status Master::Report(const KeyRef& key, Version version, Incarnation store, SegmentRef place, ErrorCode what,
                      Times now) {
  return impl_->Report(key, version, store, place, what, now);
}
Result<uint32_t> Master::Verify(const KeyRef& key, Times now) { return impl_->Verify(key, now); }

uint64_t Master::Size(uint32_t name_space) const {
  if (name_space >= impl_->name_spaces.size()) return 0;
  const uint32_t table = impl_->name_spaces[name_space];
  return table == 0 ? 0 : impl_->placements.readable(table);
}
uint64_t Master::Flush(uint32_t name_space, Times now) { return impl_->Flush(name_space, now); }
uint64_t Master::FlushAll(Times now) { return impl_->FlushAll(now); }
uint64_t Master::Scan(uint32_t name_space, uint64_t cursor, uint32_t count, Times now, const Visitor& visit) {
  return impl_->Scan(name_space, cursor, count, now, visit);
}
std::optional<std::string> Master::RandomKey(uint32_t name_space, Times now) {
  return impl_->RandomKey(name_space, now);
}

Result<StoreJoinReply> Master::StoreJoin(const StoreJoinRequest& request, Times now) {
  return impl_->StoreJoin(request, now);
}
Status Master::StoreSegments(StoreSlot store, Incarnation incarnation, std::span<const SegmentJoin> segments,
                             Times now) {
  return impl_->StoreSegments(store, incarnation, segments, now);
}
Status Master::StoreReady(StoreSlot store, Incarnation incarnation, Version closed_below, Times now) {
  return impl_->StoreReady(store, incarnation, closed_below, now);
}
Result<WorkAnswer> Master::StoreWork(StoreSlot store, Incarnation incarnation, uint32_t max, Times now) {
  return impl_->StoreWork(store, incarnation, max, now);
}
void Master::StoreWorkLost(StoreSlot store, Incarnation incarnation, Times now) {
  impl_->At(now);
  impl_->StoreWorkLost(store, incarnation);
}
Status Master::StoreDone(StoreSlot store, Incarnation incarnation, uint64_t id, WorkItem::Kind kind, bool ok,
                         uint64_t /*bytes*/, Times now) {
  return impl_->StoreDone(store, incarnation, id, kind, ok, now);
}
Status Master::StoreClosed(StoreSlot store, Incarnation incarnation, std::span<const Version> puts, Times now) {
  return impl_->StoreClosed(store, incarnation, puts, now);
}
Status Master::StoreClosedBelow(StoreSlot store, Incarnation incarnation, Version floor, Times now) {
  return impl_->StoreClosedBelow(store, incarnation, floor, now);
}
Status Master::StoreAlive(StoreSlot store, Incarnation incarnation, std::span<const Version> puts, Times now) {
  return impl_->StoreAlive(store, incarnation, puts, now);
}
Status Master::StoreUnpinned(StoreSlot store, Incarnation incarnation, SegmentRef place, Extent extent, Times now) {
  return impl_->StoreUnpinned(store, incarnation, place, extent, now);
}
Status Master::StorePause(std::string_view store, Times now) { return impl_->StorePause(store, now); }
Status Master::StorePing(StoreSlot store, Incarnation incarnation, Times now) {
  TIERCEL_TRY(impl_->Heard(store, incarnation, now));
  return Ok();
}
void Master::StoreDisconnected(StoreSlot store, Incarnation incarnation, Times now) {
  impl_->StoreDisconnected(store, incarnation, now);
}
Status Master::StoreLeave(std::string_view store, std::string_view segment, int64_t grace_ms, Times now) {
  return impl_->StoreLeave(store, segment, grace_ms, now);
}
std::optional<StoreSlot> Master::FindStore(std::string_view name) const {
  const auto it = impl_->store_names.find(name);
  if (it == impl_->store_names.end()) return std::nullopt;
  return it->second;
}
const StoreInfo& Master::store(StoreSlot slot) const {
  TIERCEL_CHECK(slot < impl_->stores.size());
  return impl_->stores[slot].info;
}
std::vector<StoreSlot> Master::Stores() const {
  std::vector<StoreSlot> slots;
  for (const Store& store : impl_->stores) {
    if (!store.info.name.empty()) slots.push_back(store.slot);  // else a number that no restored store has
  }
  return slots;
}
std::vector<SegmentInfo> Master::Segments() const {
  std::vector<SegmentInfo> all;
  for (const Store& store : impl_->stores) {
    for (const uint32_t id : store.segments) {
      const Segment& s = impl_->segments[id];
      all.push_back({s.tier, s.store, s.place, s.name, s.size, s.bytes, impl_->Allocatable(s), s.expected});
    }
  }
  return all;
}

int64_t Master::Tick(Times now, uint32_t budget) { return impl_->Tick(now, budget); }
Signals Master::TakeSignals() { return std::exchange(impl_->signals, Signals()); }
std::vector<Event> Master::TakeEvents() {
  std::vector<Event> taken(std::make_move_iterator(impl_->events.begin()),
                           std::make_move_iterator(impl_->events.end()));
  impl_->events.clear();
  return taken;
}
const Options& Master::options() const { return impl_->options; }
void Master::SetOptions(const Options& options, Times now) { impl_->SetOptions(options, now); }

const Counters& Master::counters() const { return impl_->counters; }
TierFigures Master::Figures(Tier tier) const { return impl_->Figures(tier); }
uint64_t Master::metadata_bytes() const { return impl_->MetadataBytes(); }
uint64_t Master::generation() const { return impl_->generation; }
uint64_t Master::open_puts() const { return impl_->puts.size(); }
uint64_t Master::awaited_puts() const { return impl_->puts.size() - impl_->puts.orphans(); }
void Master::CheckInvariants(Times now) const { impl_->CheckInvariants(now); }

}  // namespace tiercel::core
