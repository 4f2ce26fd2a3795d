// The public face of the engine over Core, and the registration of memory.
#include "transfer/engine.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "transfer/engine_core.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kPeersBeforeForgetting = 1024;
constexpr uint64_t kMaxSliceBytes = 64 << 20;
constexpr uint32_t kMaxInflight = 4096;

// A view is of a store of this host: what cannot be connected to for so long is not there.
constexpr int64_t kViewUnreachableMs = 1000;

class BatchImpl final : public Batch {
 public:
  explicit BatchImpl(std::unique_ptr<BatchState> state) : state_(std::move(state)) {}
  ~BatchImpl() override { state_->core->Release(*state_); }
  bool terminal() const override {
    if (state_->terminal.load(std::memory_order_acquire)) return true;
    state_->core->AskForProgress(*state_);
    return false;
  }
  Status Wait(int64_t timeout_ms) override { return state_->core->Wait(*state_, timeout_ms); }
  void Cancel() override { state_->core->Cancel(*state_); }
  size_t size() const override { return state_->size; }
  OpResult result(size_t i) const override { return state_->core->ResultOf(*state_, i); }
  bool all_ok() const override {
    for (size_t i = 0; i < size(); ++i) {
      if (result(i).state != OpResult::State::kOk) return false;
    }
    return true;
  }
  void OnTerminal(std::function<void()> callback) override { state_->core->OnTerminal(*state_, std::move(callback)); }
  std::unique_ptr<ViewPin> TakePin() { return std::move(state_->ops[0].pin); }

 private:
  const std::unique_ptr<BatchState> state_;
};

class RegistrationImpl final : public Registration {
 public:
  RegistrationImpl(std::shared_ptr<Core> core, std::vector<RegionTable::Entry*> entries)
      : core_(std::move(core)), entries_(std::move(entries)) {}
  ~RegistrationImpl() override { core_->Unregister(entries_); }

 private:
  const std::shared_ptr<Core> core_;
  const std::vector<RegionTable::Entry*> entries_;
};

class ViewImpl final : public Engine::View {
 public:
  ViewImpl(std::shared_ptr<Core> core, std::unique_ptr<ViewPin> pin) : core_(std::move(core)), pin_(std::move(pin)) {}
  // One view follows another: that the first has ended goes out with the request for the second. Otherwise the
  // background thread sees to it.
  ~ViewImpl() override {
    pin_->LetGoLazily();
    pin_.reset();
    core_->FlushSoon();
  }
  std::span<const std::byte> bytes() const override { return pin_->bytes; }
  bool alive() const override { return pin_->alive(); }

 private:
  const std::shared_ptr<Core> core_;
  std::unique_ptr<ViewPin> pin_;
};

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~EngineImpl() override { core_->Shutdown(); }

  Result<std::unique_ptr<Registration>> Register(std::span<const std::span<std::byte>> regions) override {
    TIERCEL_ASSIGN(std::vector<RegionTable::Entry*> entries, core_->Register(regions));
    return std::unique_ptr<Registration>(new RegistrationImpl(core_, std::move(entries)));
  }
  Result<std::span<std::byte>> AllocateRegistered(size_t bytes) override { return core_->Allocate(bytes); }
  void FreeRegistered(std::span<std::byte> memory) override { core_->Free(memory); }
  PeerHandle AddPeer(const PeerAddress& address) override { return core_->AddPeer(address); }
  Status Connect(PeerHandle peer, int64_t timeout_ms) override { return core_->Connect(peer, timeout_ms); }

  Result<std::unique_ptr<Batch>> Submit(std::vector<Operation> operations, const SubmitOptions& options) override {
    TIERCEL_ASSIGN(std::unique_ptr<BatchState> batch, core_->Submit(operations, options));
    return std::unique_ptr<Batch>(new BatchImpl(std::move(batch)));
  }

  Result<std::unique_ptr<View>> MapView(PeerHandle peer, SegmentRef place, Extent range,
                                        std::shared_ptr<const Grant> grant, int64_t timeout_ms) override {
    if (range.length == 0) return Error(ErrorCode::kInvalid, "a view of 0 bytes");
    std::vector<Operation> operations(1);
    operations[0].peer = peer;
    operations[0].place = place;
    operations[0].offset = range.offset;
    operations[0].grant = std::move(grant);
    operations[0].registered = false;
    SubmitOptions options;
    options.timeout_ms = timeout_ms;
    options.unreachable_after_ms = kViewUnreachableMs;
    TIERCEL_ASSIGN(std::unique_ptr<BatchState> state, core_->Submit(operations, options, range.length));
    BatchImpl batch(std::move(state));
    TIERCEL_TRY(batch.Wait(-1));
    const OpResult result = batch.result(0);
    if (result.state != OpResult::State::kOk) return Error(result.code, result.message);
    return std::unique_ptr<View>(new ViewImpl(core_, batch.TakePin()));
  }

  std::vector<TransportFigures> Figures() const override { return core_->Figures(); }

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace

Core::Core(const EngineOptions& options, std::vector<std::unique_ptr<Transport>> transports,
           Engine::TicketSource tickets)
    : options_(options),
      transports_(std::move(transports)),
      tickets_(std::move(tickets)),
      clock_(options.clock != nullptr ? options.clock : &SystemClock::Get()),
      clock_is_substitute_(options.clock != nullptr && options.clock != &SystemClock::Get()) {
  for (const auto& transport : transports_) figures_.push_back({.kind = transport->kind()});
}

Core::~Core() = default;

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                               std::vector<std::unique_ptr<Transport>> transports,
                                               TicketSource tickets) {
  if (options.slice_bytes == 0 || options.connections_per_peer == 0 || options.inflight_per_rail == 0 ||
      options.queue_per_peer == 0 || options.max_ops_per_batch == 0) {
    return Error(ErrorCode::kInvalid, "an engine's bounds must not be 0");
  }
  if (options.slice_bytes > kMaxSliceBytes || options.inflight_per_rail > kMaxInflight) {
    return Error(ErrorCode::kTooBig,
                 fmt::format("slices of at most {} bytes, at most {} on a rail", kMaxSliceBytes, kMaxInflight));
  }
  const auto rank = [&](const std::unique_ptr<Transport>& transport) {
    const auto& order = options.preference;
    return std::find(order.begin(), order.end(), transport->kind()) - order.begin();
  };
  std::stable_sort(transports.begin(), transports.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  auto core = std::make_shared<Core>(options, std::move(transports), std::move(tickets));
  TIERCEL_TRY(core->Start());
  return std::unique_ptr<Engine>(new EngineImpl(std::move(core)));
}

Result<std::vector<RegionTable::Entry*>> Core::Register(std::span<const std::span<std::byte>> regions) {
  if (regions.empty()) return Error(ErrorCode::kInvalid, "nothing to register");
  std::vector<RegionTable::Entry*> entries;
  {
    Lock lock(mu_);
    entries = regions_.Reserve(regions);
  }
  if (entries.empty()) return Error(ErrorCode::kOverlap, "a range overlaps one that is registered, or is empty");
  // Without the lock: registering a device's memory takes long, and others must not wait for it.
  std::optional<Error> failed;
  for (RegionTable::Entry* entry : entries) {
    entry->parts.resize(transports_.size());
    for (size_t t = 0; t < transports_.size() && !failed; ++t) {
      const uint64_t limit = transports_[t]->limits().max_registration_bytes;
      const uint64_t part = limit != 0 ? limit : entry->memory.size();
      entry->part_bytes.push_back(part);
      for (uint64_t at = 0; at < entry->memory.size() && !failed; at += part) {
        auto region = transports_[t]->Register(entry->memory.subspan(at, std::min(part, entry->memory.size() - at)));
        if (region.ok()) {
          entry->parts[t].push_back(std::move(region).value());
        } else {
          failed = Error(region.error().code(),
                         fmt::format("{}: {}", TransportName(transports_[t]->kind()), region.error().message()));
        }
      }
    }
  }
  if (failed) {
    for (RegionTable::Entry* entry : entries) entry->parts.clear();
  }
  Lock lock(mu_);
  for (RegionTable::Entry* entry : entries) {
    if (failed)
      regions_.Remove(entry);
    else
      entry->ready = true;
  }
  if (failed) return *failed;
  return entries;
}

void Core::Unregister(std::span<RegionTable::Entry* const> entries) {
  Lock lock(mu_);
  for (RegionTable::Entry* entry : entries) entry->ready = false;
  (void)DriveUntil(lock, nullptr, -1, [&] {
    return std::all_of(entries.begin(), entries.end(), [](const RegionTable::Entry* e) { return e->uses == 0; });
  });
  // The devices let go without the lock, and before the range can be registered anew.
  std::vector<std::vector<std::vector<std::unique_ptr<MemoryRegion>>>> parts;
  for (RegionTable::Entry* entry : entries) parts.push_back(std::move(entry->parts));
  lock.unlock();
  parts.clear();
  lock.lock();
  for (RegionTable::Entry* entry : entries) regions_.Remove(entry);
}

Result<std::span<std::byte>> Core::Allocate(size_t bytes) {
  if (bytes == 0) return Error(ErrorCode::kInvalid, "an allocation of 0 bytes");
  std::unique_ptr<MemoryRegion> shared;
  size_t owner = 0;
  for (; owner < transports_.size() && shared == nullptr; ++owner) {
    auto region = transports_[owner]->Allocate(bytes);
    if (region.ok()) {
      shared = std::move(region).value();
      break;
    }
    if (region.error().code() != ErrorCode::kNoDevice) return std::move(region).error();
  }
  std::span<std::byte> memory;
  if (shared != nullptr) {
    memory = shared->memory;
  } else {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return SystemError("allocate memory", errno);
    memory = {static_cast<std::byte*>(p), bytes};
  }
  auto entries = Register({&memory, 1});
  if (!entries.ok()) {
    if (shared == nullptr) munmap(memory.data(), memory.size());
    return std::move(entries).error();
  }
  Lock lock(mu_);
  Allocation& allocation = allocations_[memory.data()];
  allocation.entry = entries->front();
  if (shared != nullptr) {
    allocation.entry->part_bytes[owner] = memory.size();
    allocation.entry->parts[owner].clear();
    allocation.entry->parts[owner].push_back(std::move(shared));
    allocation.shared = true;
  }
  return memory;
}

void Core::Free(std::span<std::byte> memory) {
  Allocation allocation;
  {
    Lock lock(mu_);
    const auto found = allocations_.find(memory.data());
    TIERCEL_CHECK(found != allocations_.end() && found->second.entry->memory.size() == memory.size(),
                  "memory is freed as it was allocated");
    allocation = found->second;
    allocations_.erase(found);
  }
  RegionTable::Entry* entry = allocation.entry;
  Unregister({&entry, 1});
  if (!allocation.shared) TIERCEL_CHECK(munmap(memory.data(), memory.size()) == 0);
}

PeerHandle Core::AddPeer(const PeerAddress& address) {
  Lock lock(mu_);
  const auto [first, last] = peers_by_incarnation_.equal_range(address.incarnation.value);
  for (auto known = first; known != last; ++known) {
    const PeerAddress& a = known->second->address;
    if (a.name == address.name && a.data_address == address.data_address && a.data_socket == address.data_socket) {
      return {known->second->id};
    }
  }
  if (peers_.size() >= kPeersBeforeForgetting) ForgetPeersLocked();
  auto peer = std::make_unique<Peer>();
  peer->id = next_peer_++;
  peer->address = address;
  const RailHealth::Options health{
      .window_ms = options_.rail_window_ms,
      .error_limit = options_.rail_error_limit,
      .pause = {
          .first_ms = options_.rail_pause_first_ms, .cap_ms = options_.rail_pause_cap_ms, .jitter = options_.jitter}};
  const Backoff::Options backoff{
      .first_ms = options_.backoff_first_ms, .cap_ms = options_.backoff_cap_ms, .jitter = options_.jitter};
  for (size_t t = 0; t < transports_.size(); ++t) {
    if (!transports_[t]->Reaches(address)) continue;
    for (const bool views : {false, true}) {
      if (views && !transports_[t]->can_view()) continue;
      auto path = std::make_unique<Path>(peer.get(), t, views, Backoff(backoff, RandomId()));
      const uint32_t limit = transports_[t]->limits().max_rails;
      uint32_t rails = views ? 1 : options_.connections_per_peer;
      if (limit != 0) rails = std::min(rails, limit);
      for (uint32_t i = 0; i < rails; ++i) {
        path->slots.push_back(std::make_unique<Slot>(path.get(), RailHealth(health, RandomId())));
      }
      peer->paths.push_back(std::move(path));
    }
  }
  const PeerHandle handle{peer->id};
  peers_by_incarnation_.emplace(address.incarnation.value, peer.get());
  peers_[peer->id] = std::move(peer);
  return handle;
}

// Stores that restarted leave peers behind that nobody will use again.
void Core::ForgetPeersLocked() {
  const auto idle = [](const Peer& peer) {
    if (peer.operations != 0 || peer.dispatch) return false;
    return std::all_of(peer.paths.begin(), peer.paths.end(), [](const auto& path) {
      return std::all_of(path->slots.begin(), path->slots.end(),
                         [](const auto& slot) { return slot->state == Slot::State::kIdle; });
    });
  };
  std::erase_if(peers_by_incarnation_, [&](const auto& item) { return idle(*item.second); });
  std::erase_if(peers_, [&](const auto& item) { return idle(*item.second); });
}

Status Core::Connect(PeerHandle handle, int64_t timeout_ms) {
  Lock lock(mu_);
  const auto found = peers_.find(handle.id);
  if (found == peers_.end()) return Error(ErrorCode::kInvalid, "unknown peer");
  Peer& peer = *found->second;
  if (peer.paths.empty()) {
    return Error(ErrorCode::kNoDevice, fmt::format("no transport reaches {}", peer.address.name));
  }
  ++peer.operations;  // it stays
  const auto try_all = [&] {
    Plan plan;
    const int64_t now = NowMs();
    for (const auto& path : peer.paths) {
      for (const auto& slot : path->slots) {
        if (slot->state != Slot::State::kIdle || now < path->retry_ms) break;
        slot->state = Slot::State::kConnecting;
        slot->key = next_key_++;
        slot->give_up_ms = now + options_.connect_timeout_ms;
        plan.opens.emplace_back(slot.get(), slot->key);
        ++figures(*path).connects;
        break;
      }
    }
    lock.unlock();
    for (const auto& [slot, key] : plan.opens) OpenSlot(slot, key);
    Pump();
    lock.lock();
  };
  try_all();
  // Connected when one path stands; failed when each has been refused or has failed once.
  bool up = false;
  const bool settled = DriveUntil(lock, nullptr, timeout_ms, [&] {
    bool trying = false;
    for (const auto& path : peer.paths) {
      for (const auto& slot : path->slots) {
        up = up || slot->state == Slot::State::kReady;
        trying = trying || slot->state == Slot::State::kConnecting;
      }
    }
    return up || !trying || stopping_;
  });
  --peer.operations;
  if (up) return Ok();
  for (const auto& path : peer.paths) {
    if (path->last_error) return Error(*path->last_error);
  }
  return Error(settled ? ErrorCode::kUnreachable : ErrorCode::kDeadline,
               fmt::format("{} did not answer within {} ms", peer.address.name, timeout_ms));
}

std::vector<TransportFigures> Core::Figures() const {
  Lock lock(mu_);
  return figures_;
}

}  // namespace tiercel::transfer
