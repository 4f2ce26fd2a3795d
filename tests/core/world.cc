// See world.h. The comparisons stand in compare.cc, what stores do in world_stores.cc.
#include "tests/core/world.h"

#include <gtest/gtest.h>

namespace tiercel::core::sim {
namespace {

constexpr uint32_t kSpaces = 3;
constexpr uint64_t kSizes[] = {0, 1, 64, 100, 700, 1024, 3000, 4096, 9000};

}  // namespace

World::World(uint64_t seed, bool tell) : tell_(tell), random_(seed) {
  options_.journal = Chance(50);
  options_.events = true;
  options_.name_spaces = kSpaces;
  options_.lease_ttl_ms = Chance(50) ? 10'000 : 100;
  options_.lease_max_ratio = Chance(50) ? 0.5 : 0.8;
  options_.hard_pin_max_ratio = 0.3;
  options_.put_start_discard_timeout_ms = Chance(50) ? 30'000 : 3'000;
  options_.max_open_puts_per_store = Chance(20) ? 4 : 65'536;
  options_.allocation_strategy = static_cast<AllocationStrategy>(Draw(3));
  options_.eviction_high_watermark_ratio = Chance(30) ? 0.5 : 0.9;
  seeds_.generation = 1 + Draw(1000);
  seeds_.random = random_.Next();
  master_ = std::make_unique<Master>(options_, seeds_);
  for (uint32_t ns = 0; ns < kSpaces; ++ns) {
    for (int i = 0; i < 8; ++i) keys_.push_back({ns, "key-" + std::to_string(i) + std::string(Draw(40), 'x')});
  }
  const uint64_t count = 1 + Draw(4);
  for (uint64_t i = 0; i < count; ++i) {
    SimStore& store = stores_.emplace_back();
    store.info.name = "store" + std::to_string(i);
    store.info.host = "host" + std::to_string(Chance(20) ? 0 : i);
    store.info.data_address = "127.0.0.1:" + std::to_string(i);
    SegmentJoin segment;
    segment.id = 1;
    segment.name = store.info.name + "-1";
    segment.size = (2 + Draw(8)) * 8192;
    segment.outlives_master = Chance(60);
    segment.in_process = Chance(30);
    store.segments.push_back(segment);
    if (Chance(30)) {
      segment.id = 2;
      segment.name = store.info.name + "-2";
      store.segments.push_back(segment);
    }
    backed_.push_back(Chance(50));
    Restart(&store, false);
    JoinStore(&store);
  }
}

KeyId World::AnyKey() { return keys_[Draw(keys_.size())]; }

void World::Step() {
  ++step_;
  using Action = void (World::*)();
  static constexpr std::pair<int, Action> kActions[] = {
      {16, &World::StartPut},      {14, &World::WritePut},       {3, &World::LateWrite},     {14, &World::EndPut},
      {3, &World::RenewOrRevoke},  {2, &World::CloseConnection}, {14, &World::LookUp},       {8, &World::ReadBytes},
      {5, &World::BeginOrEndRead}, {4, &World::DeleteKey},       {3, &World::ChangeTtl},     {3, &World::ChangePin},
      {1, &World::FlushSpace},     {3, &World::ScanSome},        {8, &World::PassTime},      {8, &World::Tick},
      {14, &World::StoreWork},     {2, &World::StoreFault},      {1, &World::Leave},         {3, &World::Views},
      {3, &World::Report},         {8, &World::Commit},          {1, &World::RestartMaster},
  };
  static constexpr int kSum = [] {
    int sum = 0;
    for (const auto& [weight, action] : kActions) sum += weight;
    return sum;
  }();
  auto draw = static_cast<int>(Draw(kSum));
  for (const auto& [weight, action] : kActions) {
    if (draw < weight) {
      (this->*action)();
      break;
    }
    draw -= weight;
  }
  Compare();
}

// ---- puts

void World::StartPut() {
  if (clients_.size() > 12) return EndPut();
  Client client;
  client.key = AnyKey();
  client.size = Chance(3) ? 66'000 : kSizes[Draw(std::size(kSizes))];
  client.caller = {1 + Draw(2), Chance(50) ? 1 : next_connection_++};
  client.how.replace = Chance(60);
  client.how.replicas = static_cast<uint32_t>(1 + Draw(3));
  client.how.strict = Chance(10);
  client.how.hard_pin = Chance(5);
  client.how.in_process = Chance(15);
  if (Chance(10)) client.how.soft_pin_ms = 20'000;
  if (Chance(10)) client.how.expire_at_ms = now().wall_ms + static_cast<int64_t>(Draw(20'000));
  if (Chance(5)) client.how.group = "group";
  Begin();
  const auto plan = master_->PutStart(client.caller, Ref(client.key), client.size, client.how, now());
  TakeEvents();
  const auto exists = model_.Find(client.key);
  const bool readable = exists.has_value() && ModelReadable(*exists);
  const auto rival =
      std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return !c.over && c.key == client.key; });
  const bool busy = rival != clients_.end() && !rival->orphan &&
                    now().boot_ms - rival->last_sign_ms < options_.put_start_discard_timeout_ms;
  if (readable && !client.how.replace) {
    if (!plan.ok() || plan->outcome != PutOutcome::kExists) return Fail("the key exists");
    if (plan->put != exists->version || plan->size != exists->size) return Fail("another version exists");
    return;
  }
  if (busy) {
    if (!plan.ok() || plan->outcome != PutOutcome::kBusy || plan->put != rival->put) Fail("the put is busy");
    return;
  }
  // A takeover happens before anything that may fail.
  if (rival != clients_.end()) rival->over = true;
  if (!plan.ok()) {
    if (plan.error().code() == ErrorCode::kRetry) ForgetGivenUp();
    return;
  }
  if (plan->outcome != PutOutcome::kCreated) return Fail("nothing is in the way of the put");
  if (plan->put <= newest_put_) return Fail("versions rise");
  newest_put_ = plan->put;
  std::set<std::string> hosts;
  for (const ReplicaInfo& r : plan->replicas) {
    if (r.extents.bytes() != StoredBytes(client.size)) return Fail("a plan covers the value exactly");
    client.stores.push_back(master_->store(r.store).incarnation);
    hosts.insert(master_->store(r.store).host);
  }
  if (hosts.size() != plan->replicas.size()) return Fail("replicas on distinct hosts");
  Tell("put %llu of %u/%s, %zu replicas", static_cast<unsigned long long>(plan->put.value), client.key.name_space,
       client.key.key.c_str(), plan->replicas.size());
  client.put = plan->put;
  client.replicas = plan->replicas;
  for (size_t i = 0; i < client.stores.size(); ++i) {
    client.homes.push_back(Renamed({client.stores[i], client.replicas[i].place}).store);
  }
  client.written.resize(client.replicas.size());
  client.last_sign_ms = now().boot_ms;
  clients_.push_back(std::move(client));
}

void World::WritePut() {
  if (clients_.empty()) return;
  size_t at = Draw(clients_.size());
  for (int tries = 0; tries < 4 && (clients_[at].over || clients_[at].written[0].has_value()); ++tries) {
    at = Draw(clients_.size());
  }
  Client& client = clients_[at];
  if (client.over) return;
  for (size_t i = 0; i < client.replicas.size(); ++i) {
    if (client.written[i] == SimStore::Outcome::kOk) continue;
    SimStore* store = StoreOf(client.stores[i]);
    client.written[i] = store == nullptr ? SimStore::Outcome::kUnreachable
                                         : store->Write(client.stores[i], client.put, client.replicas[i], false);
    ++refused_[static_cast<size_t>(*client.written[i])];
    if (store != nullptr && store->joined && client.written[i] == SimStore::Outcome::kOk && Chance(20)) {
      const Version alive[] = {client.put};
      if (master_->StoreAlive(store->slot, store->info.incarnation, alive, now()).ok()) {
        client.last_sign_ms = now().boot_ms;
      }
    }
  }
}

// Somebody whose put is over still has the grant and writes.
void World::LateWrite() {
  for (int i = 0; i < 4 && !clients_.empty(); ++i) {
    Client& client = clients_[Draw(clients_.size())];
    if (!client.over || client.how.in_process) continue;
    const size_t at = Draw(client.replicas.size());
    SimStore* store = StoreOf(client.stores[at]);
    if (store == nullptr) continue;
    ++refused_[static_cast<size_t>(store->Write(client.stores[at], client.put, client.replicas[at], true))];
  }
}

void World::EndPut() {
  if (clients_.empty()) return;
  size_t at = Draw(clients_.size());
  const bool patient = Chance(90);
  for (int tries = 0; tries < 4 && patient && (clients_[at].over || !clients_[at].written[0].has_value()); ++tries) {
    at = Draw(clients_.size());
  }
  const Client client = clients_[at];
  if (patient && !client.over && !client.written[0].has_value()) return;
  std::vector<ReplicaFailure> failed;
  std::vector<ModelReplica> good;
  for (uint32_t i = 0; i < client.replicas.size(); ++i) {
    if (client.written[i] == SimStore::Outcome::kOk && !Chance(5)) {
      good.push_back({client.homes[i], client.replicas[i].place});
    } else {
      failed.push_back(
          {i, client.written[i] == SimStore::Outcome::kInUse ? ErrorCode::kInUse : ErrorCode::kUnreachable});
    }
  }
  Caller caller = client.caller;
  const bool stranger = Chance(5);
  if (stranger) caller.user = 99;
  Begin();
  const auto published = master_->PutEnd(caller, client.put, client.put.value * 3, failed, now());
  const Seq seq = Wait();
  if (stranger) {
    if (published.ok()) Fail("a stranger cannot end a put");
    return;
  }
  if (client.over) {
    if (published.ok()) Fail("a put that is over cannot be ended");
    if (!Chance(60)) return;
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  std::erase_if(good, [&](const ModelReplica& r) { return !serving_.contains(r); });
  if (!published.ok() && published.error().code() == ErrorCode::kIndexReadOnly) {
    clients_[at].last_sign_ms = now().boot_ms;
    return;
  }
  clients_[at].over = true;
  if (good.empty()) {
    if (published.ok()) Fail("nothing good, nothing published");
    return;
  }
  if (!published.ok()) return Fail("a good put ends well: " + published.error().ToString());
  if (*published != good.size()) return Fail("what was good is published");
  const auto again = master_->PutEnd(caller, client.put, client.put.value * 3, failed, now());
  if (!again.ok() || *again != *published) return Fail("PUTEND is idempotent");
  Tell("ended %llu with %u, seq %llu", static_cast<unsigned long long>(client.put.value), *published,
       static_cast<unsigned long long>(seq));
  ModelObject object;
  object.version = client.put;
  object.size = client.size;
  object.expire_at_ms = client.how.expire_at_ms.value_or(0);
  object.hard_pin = client.how.hard_pin;
  object.replicas = good;
  model_.Set(client.key, std::move(object), seq);
  clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(at));
}

void World::RenewOrRevoke() {
  if (clients_.empty()) return;
  Client& client = clients_[Draw(clients_.size())];
  Begin();
  if (Chance(60)) {
    const auto plan = master_->PutRenew(client.caller, client.put, now());
    if (plan.ok() == client.over) return Fail("a put can be renewed while it is open");
    client.last_sign_ms = now().boot_ms;
  } else {
    const auto revoked = master_->PutRevoke(client.caller, client.put, now());
    if (!revoked.ok() || *revoked == client.over) return Fail("a put can be revoked while it is open");
    client.over = true;
  }
}

void World::CloseConnection() {
  if (clients_.empty()) return;
  const ConnectionId connection = clients_[Draw(clients_.size())].caller.connection;
  master_->ConnectionClosed(connection, now());
  for (Client& c : clients_) c.orphan = c.orphan || c.caller.connection == connection;
}

// ---- looking and reading

void World::LookUp() {
  Reader reader;
  reader.key = AnyKey();
  LookupOptions how;
  how.lease = Chance(80);
  how.touch = Chance(80);
  if (Chance(20)) how.lease_ms = static_cast<int64_t>(Draw(70'000));
  how.from_exists = Chance(30);
  const auto object = model_.Find(reader.key);
  const bool readable = object.has_value() && ModelReadable(*object);
  Begin();
  if (!how.lease || !hints_.contains(reader.key)) {
    KeyRef ahead = MakeKey(reader.key.name_space, reader.key.key);
    master_->Prefetch({&ahead, 1});
    hints_[reader.key] = ahead.hint;
  }
  const bool found = master_->Lookup(Ref(reader.key), how, now(), &reader.info);
  if (found != readable) return Fail("a look-up finds what is there");
  if (!found) return;
  int64_t& until = model_.leased_until[reader.info.version];
  reader.until_ms = now().boot_ms + reader.info.lease_ms;
  if (reader.until_ms < until) return Fail("nothing makes a deadline earlier");
  if (reader.info.lease_ms > options_.lease_max_ms) return Fail("a lease is at most lease-max");
  until = std::max(until, reader.info.lease_ms > 0 ? reader.until_ms : 0);
  for (const ReplicaInfo& r : reader.info.replicas) reader.stores.push_back(master_->store(r.store).incarnation);
  readers_.push_back(std::move(reader));
  if (readers_.size() <= 24) return;
  const auto first = std::find_if(readers_.begin(), readers_.end(), [](const Reader& r) { return !r.in_process; });
  readers_.erase(first + static_cast<std::ptrdiff_t>(Draw(static_cast<uint64_t>(readers_.end() - first))));
}

void World::ReadBytes() {
  if (readers_.empty()) return;
  const size_t at = Draw(readers_.size());
  CheckReader(readers_[at]);
  if (!readers_[at].in_process && now().boot_ms >= readers_[at].until_ms) {
    readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void World::BeginOrEndRead() {
  for (size_t i = 0; i < readers_.size(); ++i) {
    if (!readers_[i].in_process || !Chance(60)) continue;
    CheckReader(readers_[i]);
    const Version version = readers_[i].info.version;
    master_->EndRead(version, now());
    if (--model_.reads[version] == 0) model_.reads.erase(version);
    readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
  Reader reader;
  reader.key = AnyKey();
  reader.in_process = true;
  const auto object = model_.Find(reader.key);
  Begin();
  const bool found = master_->BeginRead(Ref(reader.key), now(), &reader.info);
  if (found != (object.has_value() && ModelReadable(*object))) return Fail("a read begins where something is");
  if (!found) return;
  ++model_.reads[reader.info.version];
  for (const ReplicaInfo& r : reader.info.replicas) reader.stores.push_back(master_->store(r.store).incarnation);
  readers_.insert(readers_.begin(), std::move(reader));
}

// ---- keys

void World::DeleteKey() {
  const KeyId id = AnyKey();
  const auto object = model_.Find(id);
  RefreshSegments();
  Begin();
  const bool deleted = master_->Delete(Ref(id), now());
  const Seq seq = Wait();
  if (deleted != (object.has_value() && ModelReadable(*object))) return Fail("what is there is deleted");
  // Whose stores are away is gone as well, so that it does not come back with them.
  const bool away = object.has_value() && !deleted &&
                    (object->expire_at_ms == 0 || object->expire_at_ms > now().wall_ms) &&
                    std::any_of(object->replicas.begin(), object->replicas.end(),
                                [&](const ModelReplica& r) { return serving_.contains(r); });
  if (deleted || away) model_.Erase(id, seq);
  if (deleted) Tell("deleted %u/%s, seq %llu", id.name_space, id.key.c_str(), static_cast<unsigned long long>(seq));
}

void World::ChangeTtl() {
  const KeyId id = AnyKey();
  const auto object = model_.Find(id);
  const bool readable = object.has_value() && ModelReadable(*object);
  Begin();
  const auto expiry = master_->Expiry(Ref(id), now());
  if (expiry.has_value() != readable) return Fail("EXPIRETIME of what is there");
  if (readable && *expiry != object->expire_at_ms) return Fail("the time to live");
  Begin();
  if (Chance(30)) {
    const bool done = master_->Persist(Ref(id), now());
    if (done != (readable && object->expire_at_ms != 0)) return Fail("PERSIST");
    if (done) model_.Change_(id, 0, object->hard_pin, Wait());
    return;
  }
  const int64_t at_ms = now().wall_ms + static_cast<int64_t>(Draw(15'000)) - 1000;
  const bool done = master_->ExpireAt(Ref(id), at_ms, now());
  const Seq seq = Wait();
  if (done != readable) return Fail("EXPIREAT");
  if (!done) return;
  if (at_ms <= now().wall_ms) {
    model_.Erase(id, seq);
  } else {
    model_.Change_(id, at_ms, object->hard_pin, seq);
  }
}

void World::ChangePin() {
  const KeyId id = AnyKey();
  const auto object = model_.Find(id);
  const bool readable = object.has_value() && ModelReadable(*object);
  Begin();
  const uint64_t what = Draw(3);
  const Status status = what == 0   ? master_->PinHard(Ref(id), now())
                        : what == 1 ? master_->PinSoft(Ref(id), static_cast<int64_t>(Draw(30'000)), now())
                                    : master_->Unpin(Ref(id), now());
  const Seq seq = Wait();
  if (!readable) {
    if (status.ok()) Fail("what is not there is not pinned");
    return;
  }
  if (!status.ok()) {
    if (what != 0 || status.error().code() != ErrorCode::kPinBudget) Fail("pinning: " + status.error().ToString());
    return;
  }
  const bool hard = what == 0 || (what == 1 && object->hard_pin);
  model_.Change_(id, object->expire_at_ms, hard, seq);
}

void World::FlushSpace() {
  const bool all = Chance(30);
  const auto ns = static_cast<uint32_t>(Draw(kSpaces));
  Begin();
  if (all) {
    master_->FlushAll(now());
  } else {
    master_->Flush(ns, now());
  }
  const Seq seq = Wait();
  Tell("flush %u %d, seq %llu", ns, all ? 1 : 0, static_cast<unsigned long long>(seq));
  for (uint32_t i = 0; i < kSpaces; ++i) {
    if (!all && i != ns) continue;
    model_.Flush(i, seq);
    if (master_->Size(i) != 0) Fail("a flush empties at once");
  }
}

// A scan that runs while all else goes on meets what was there from its start to its end.
void World::ScanSome() {
  if (!scanning_) {
    scanning_ = true;
    scan_space_ = static_cast<uint32_t>(Draw(kSpaces));
    cursor_ = 0;
    must_meet_.clear();
    met_.clear();
    for (const auto& [id, object] : model_.objects) {
      if (id.name_space == scan_space_ && ModelReadable(object)) must_meet_.insert(id.key);
    }
  }
  Begin();
  cursor_ = master_->Scan(scan_space_, cursor_, 2, now(), [&](std::string_view key, const ObjectInfo& info) {
    met_.emplace(key);
    const auto object = model_.Find({scan_space_, std::string(key)});
    if (!object.has_value() || object->version != info.version) Fail("a scan shows what is there");
  });
  if (cursor_ != 0) return;
  scanning_ = false;
  for (const std::string& key : must_meet_) {
    if (!met_.contains(key)) Fail("a scan misses nothing: " + key);
  }
  const auto random_key = master_->RandomKey(scan_space_, now());
  if (random_key.has_value() && !model_.Find({scan_space_, *random_key}).has_value()) Fail("RANDOMKEY is there");
}

// ---- time

void World::PassTime() {
  const uint64_t draw = Draw(100);
  clock_.Advance(draw < 80   ? static_cast<int64_t>(Draw(50))
                 : draw < 97 ? static_cast<int64_t>(Draw(1500))
                 : draw < 99 ? static_cast<int64_t>(Draw(12'000))
                             : static_cast<int64_t>(Draw(100'000)));
  if (Chance(3)) clock_.StepWall(static_cast<int64_t>(Draw(20'000)) - 10'000);
}

void World::Tick() {
  const int64_t next = master_->Tick(now(), static_cast<uint32_t>(1 + Draw(200)));
  if (next < now().boot_ms) Fail("the next time is not in the past");
  ForgetEndedPuts();
}

// Puts whose writers are gone may be given up when somebody else needs their space.
void World::ForgetGivenUp() {
  for (Client& c : clients_) {
    if (c.over || !c.orphan) continue;
    Caller stranger = c.caller;
    stranger.user = 99;
    if (master_->PutRenew(stranger, c.put, now()).error().code() == ErrorCode::kNoPut) c.over = true;
  }
}

// The master's word decides which puts ran into their deadline; whether it may have is checked.
void World::ForgetEndedPuts() {
  for (Client& c : clients_) {
    if (c.over || now().boot_ms - c.last_sign_ms < options_.put_start_discard_timeout_ms) continue;
    Caller stranger = c.caller;
    stranger.user = 99;
    // NOTOWNER while it is open; naming it so is no sign of life.
    if (master_->PutRenew(stranger, c.put, now()).error().code() == ErrorCode::kNoPut) c.over = true;
  }
}

// ---- committer

void World::Commit() {
  if (!options_.journal) return;
  if (master_->index_read_only()) {
    if (Chance(60)) master_->JournalResumed(now());
    return;
  }
  if (batch_.empty()) {
    batch_ = master_->TakeJournal(1 + Draw(6), 1 << 20);
    Seq last = 0;
    for (const Record& r : batch_) {
      if (r.seq < last) Fail("records come in order");
      last = r.seq;
    }
    if (!batch_.empty() && batch_.front().seq <= taken_) Fail("a command is not split over two batches");
    if (!batch_.empty()) taken_ = batch_.back().seq;
    if (Chance(60)) return;
  }
  if (batch_.empty()) return;
  if (failures_left_ == 0 && Chance(5)) failures_left_ = static_cast<int>(1 + Draw(3));
  if (failures_left_ > 0) {
    --failures_left_;
    const Seq failed = batch_.back().seq;
    Tell("journal fails, durable %llu", static_cast<unsigned long long>(master_->durable()));
    master_->JournalFailed(now());
    if (!master_->WasUndone(failed)) Fail("what failed was undone");
    taken_ = std::max(taken_, failed);
    model_.UndoAll();
    RenameAll();
    // Puts that had ended are void now, and their writers know nothing of it.
  } else {
    const Seq seq = batch_.back().seq;
    Tell("durable %llu", static_cast<unsigned long long>(seq));
    for (const Record& record : batch_) Write(record);
    master_->Durable(seq, now());
    if (master_->WasUndone(seq)) Fail("what is durable was not undone");
    model_.Durable(seq);
  }
  batch_.clear();
}

}  // namespace tiercel::core::sim
