#include "server/node/payload.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tiercel::node {

namespace {

constexpr int64_t kUnreachableMs = 2'000;

Status StatusOf(const transfer::Batch& batch) {
  for (size_t i = 0; i < batch.size(); ++i) {
    transfer::OpResult result = batch.result(i);
    if (result.state == transfer::OpResult::State::kOk) continue;
    if (result.state == transfer::OpResult::State::kCancelled) return Error(ErrorCode::kCancelled, "cancelled");
    return Error(result.code, std::move(result.message));
  }
  return Ok();
}

}  // namespace

// One batch of the engine and the callback that waits for it.
//
// The callback and the handle's end race, and each may come first: State is shared by both. Whoever finds it
// pending calls back; the other one waits for that call, unless it is made from within it.
class Payload::RunningTransfer final : public core::PayloadPort::Transfer {
 public:
  RunningTransfer(Payload* owner, Done done) : state_(std::make_shared<State>(owner, std::move(done))) {}
  ~RunningTransfer() override {
    std::unique_ptr<transfer::Batch> batch;
    {
      std::lock_guard lock(state_->mu);
      batch = std::move(state_->batch);
    }
    batch.reset();  // cancels, and waits until the memory is let go of
    state_->Finish(Error(ErrorCode::kCancelled, "cancelled"));
    std::unique_lock lock(state_->mu);
    state_->changed.wait(
        lock, [this] { return state_->phase == Phase::kDone || state_->caller == std::this_thread::get_id(); });
  }

  void Follow(std::unique_ptr<transfer::Batch> batch) {
    transfer::Batch* const raw = batch.get();
    {
      std::lock_guard lock(state_->mu);
      state_->batch = std::move(batch);
    }
    // The batch lives until this handle ends, which the caller cannot do before it has it.
    raw->OnTerminal([state = state_] { state->Ended(); });
  }
  void Fail(Error error) { state_->Finish(std::move(error)); }

 private:
  enum class Phase : uint8_t { kPending, kCalling, kDone };
  struct State {
    State(Payload* o, Done d) : owner(o), done(std::move(d)) {}
    void Ended() {
      std::optional<Status> status;
      {
        std::lock_guard lock(mu);
        if (batch == nullptr) return;  // the handle's end has taken it, and reports
        status = StatusOf(*batch);
      }
      Finish(std::move(*status));
    }
    void Finish(Status status) {
      Done call;
      {
        std::lock_guard lock(mu);
        if (phase != Phase::kPending) return;
        phase = Phase::kCalling;
        caller = std::this_thread::get_id();
        call = std::move(done);
      }
      if (!status.ok()) owner->failed_.fetch_add(1, std::memory_order_relaxed);
      owner->running_.fetch_sub(1, std::memory_order_relaxed);
      call(std::move(status));
      {
        std::lock_guard lock(mu);
        phase = Phase::kDone;
        caller = {};
      }
      changed.notify_all();
    }

    Payload* const owner;
    std::mutex mu;
    std::condition_variable changed;
    Done done;
    std::unique_ptr<transfer::Batch> batch;
    Phase phase = Phase::kPending;
    std::thread::id caller;
  };
  const std::shared_ptr<State> state_;
};

Payload::Payload(PayloadOptions options) : options_(std::move(options)) {}

Payload::~Payload() { TIERCEL_CHECK(running_.load() == 0, "transfers end before their port"); }

const core::LocalSegment* Payload::FindLocal(Incarnation store, SegmentRef place) const {
  if (options_.local == nullptr || options_.local->incarnation() != store) return nullptr;
  return options_.local->FindLocal(place);
}

Result<core::PayloadPort::LocalWrite> Payload::BeginLocalWrite(SegmentRef place, Version put,
                                                               const ExtentList& extents) {
  if (options_.local == nullptr) return Error(ErrorCode::kUnknownSegment, "this process has no store");
  TIERCEL_TRY(options_.local->BeginLocalWrite(place, put, extents));
  return LocalWrite(this, place, put, extents);
}

void Payload::EndLocalWrite(SegmentRef place, Version put, const ExtentList& extents) {
  options_.local->EndLocalWrite(place, put, extents);
}

std::unique_ptr<core::PayloadPort::Transfer> Payload::Read(const core::RemotePlace& place, uint64_t offset,
                                                           std::span<std::byte> memory, int64_t timeout_ms, Done done) {
  reads_.fetch_add(1, std::memory_order_relaxed);
  return Start(transfer::OpKind::kRead, place, offset, memory, timeout_ms, std::move(done));
}

std::unique_ptr<core::PayloadPort::Transfer> Payload::Write(const core::RemotePlace& place, uint64_t offset,
                                                            std::span<const std::byte> memory, int64_t timeout_ms,
                                                            Done done) {
  writes_.fetch_add(1, std::memory_order_relaxed);
  // An operation's memory is one type for both kinds; the source of a write is not modified.
  const std::span<std::byte> source(const_cast<std::byte*>(memory.data()), memory.size());
  return Start(transfer::OpKind::kWrite, place, offset, source, timeout_ms, std::move(done));
}

std::unique_ptr<core::PayloadPort::Transfer> Payload::Start(transfer::OpKind kind, const core::RemotePlace& place,
                                                            uint64_t offset, std::span<std::byte> memory,
                                                            int64_t timeout_ms, Done done) {
  const uint64_t running = running_.fetch_add(1, std::memory_order_relaxed);
  auto transfer = std::make_unique<RunningTransfer>(this, std::move(done));
  if (running >= options_.max_transfers) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    transfer->Fail({ErrorCode::kRetry, fmt::format("{} transfers are under way, no more are started", running)});
    return transfer;
  }
  auto batch = Submit(kind, place, offset, memory, timeout_ms);
  if (batch.ok()) {
    transfer->Follow(std::move(batch).value());
  } else {
    transfer->Fail(std::move(batch).error());
  }
  return transfer;
}

Result<std::unique_ptr<transfer::Batch>> Payload::Submit(transfer::OpKind kind, const core::RemotePlace& place,
                                                         uint64_t offset, std::span<std::byte> memory,
                                                         int64_t timeout_ms) {
  TIERCEL_ASSIGN(transfer::Engine * engine, EngineOnce());
  const auto grant = std::make_shared<const Grant>(place.grant);
  TIERCEL_ASSIGN(auto operations, CutAtExtents(kind, PeerOf(engine, place.store), grant, offset, memory));
  // There may be another replica: a store that cannot be reached is not waited for until the end.
  const int64_t give_up_ms = std::min<int64_t>(timeout_ms, kUnreachableMs);
  return engine->Submit(std::move(operations), {.timeout_ms = timeout_ms, .unreachable_after_ms = give_up_ms});
}

Result<transfer::Engine*> Payload::EngineOnce() {
  std::lock_guard lock(mu_);
  if (engine_ == nullptr) {
    if (!options_.make_engine) return Error(ErrorCode::kNoDevice, "this process has no way to other stores");
    TIERCEL_ASSIGN(engine_, options_.make_engine(options_.tickets));
  }
  return engine_.get();
}

transfer::PeerHandle Payload::PeerOf(transfer::Engine* engine, const core::StoreInfo& store) {
  const std::string& socket = store.host == options_.host ? store.data_socket : std::string();
  std::lock_guard lock(mu_);
  auto known = peers_.find(store.incarnation.value);
  if (known != peers_.end() && known->second.data_address == store.data_address &&
      known->second.data_socket == socket) {
    return known->second.handle;
  }
  if (known == peers_.end() && peers_.size() >= kMaxPeers) peers_.clear();  // found again by the engine
  const transfer::PeerHandle handle = engine->AddPeer({store.name, store.incarnation, store.data_address, socket});
  peers_[store.incarnation.value] = {handle, store.data_address, socket};
  return handle;
}

PayloadFigures Payload::Figures() const {
  PayloadFigures figures;
  figures.transfers_now = running_.load(std::memory_order_relaxed);
  figures.transfers_refused = refused_.load(std::memory_order_relaxed);
  figures.reads = reads_.load(std::memory_order_relaxed);
  figures.writes = writes_.load(std::memory_order_relaxed);
  figures.failed = failed_.load(std::memory_order_relaxed);
  return figures;
}

Result<std::vector<transfer::Operation>> CutAtExtents(transfer::OpKind kind, transfer::PeerHandle peer,
                                                      const std::shared_ptr<const Grant>& grant, uint64_t offset,
                                                      std::span<std::byte> memory) {
  if (memory.empty()) return Error(ErrorCode::kInvalid, "a transfer of no bytes");
  if (!CoversObjectRange(*grant, offset, memory.size())) {
    return Error(ErrorCode::kOutOfRange, fmt::format("{}+{} is not within the {} bytes of the replica", offset,
                                                     memory.size(), grant->extents.bytes()));
  }
  std::vector<transfer::Operation> operations;
  uint64_t begin = 0;  // object offset of the extent at hand
  for (const Extent& extent : grant->extents) {
    if (memory.empty()) break;
    if (offset - begin < extent.length) {
      const uint64_t inside = offset - begin;
      const uint64_t n = std::min<uint64_t>(memory.size(), extent.length - inside);
      operations.push_back({.kind = kind,
                            .peer = peer,
                            .place = grant->place,
                            .offset = extent.offset + inside,
                            .memory = memory.first(n),
                            .grant = grant,
                            .observer = nullptr,
                            .registered = false});
      memory = memory.subspan(n);
      offset += n;
    }
    begin += extent.length;
  }
  TIERCEL_CHECK(memory.empty());
  return operations;
}

}  // namespace tiercel::node
