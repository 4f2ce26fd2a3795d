#include "server/net/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "server/net/remote_transfer.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

// Vectors of a batch that a huge command has blown up are given back.
constexpr size_t kKeptArgs = 64 * 1024;
constexpr auto kSweepPeriod = std::chrono::seconds(1);

}  // namespace

void Batch::Clear() {
  commands.clear();
  args.clear();
  keys.clear();
  words.clear();
  consumed = 0;
  if (args.capacity() > kKeptArgs) args.shrink_to_fit();
}

Worker::Worker(ServerShared* shared, int number)
    : shared_(shared),
      loop_("resp-" + std::to_string(number)),
      poller_(loop_.context(), [this] { AfterBatch(); }),
      input_(std::make_unique_for_overwrite<char[]>(kInputBytes)),
      deadline_timer_(loop_.context()),
      sweep_timer_(loop_.context()) {}

Worker::~Worker() { TIERCEL_CHECK(sessions_.empty(), "a worker is stopped before it is destroyed"); }

Status Worker::Open() { return poller_.Open(); }

void Worker::Start() {
  loop_.Start();
  loop_.Post([this] { ArmSweep(); });
}

void Worker::Stop() {
  loop_.Stop();
  // From here on nobody else touches the loop's state: this thread is the loop.
  stopping_ = true;
  while (!sessions_.empty()) sessions_.begin()->second->CloseNow();
  graveyard_.clear();
  for (const auto& transfer : std::exchange(transfers_, {})) transfer->Abandon();
  poller_.Close();
}

Times Worker::Now() const { return shared_->clock->Now(); }

void Worker::Adopt(UniqueFd socket, SessionState state, bool from_listener) {
  loop_.Post([this, socket = std::move(socket), state = std::move(state), from_listener]() mutable {
    const core::ConnectionId id = state.id;
    auto session = std::make_unique<Session>(this, std::move(socket), std::move(state), from_listener);
    Session* const raw = session.get();
    sessions_.emplace(id, std::move(session));
    if (from_listener) from_listeners_.fetch_add(1, std::memory_order_relaxed);
    stats_.connections.store(sessions_.size(), std::memory_order_relaxed);
    stats_.connections_received.Add();
    const Status added = poller_.Add(raw->fd(), raw);
    if (!added.ok()) {
      Log(LogLevel::kWarning, "connection {} refused: {}", id, added.error().message());
      raw->CloseNow();
    }
    AfterBatch();
  });
}

Session* Worker::Find(core::ConnectionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

void Worker::Closed(Session* session) {
  if (session->watches_durable()) Unlist(session, WakeReason::kDurable);
  const auto it = sessions_.find(session->id());
  TIERCEL_CHECK(it != sessions_.end());
  if (session->from_listener()) from_listeners_.fetch_sub(1, std::memory_order_relaxed);
  graveyard_.push_back(std::move(it->second));
  sessions_.erase(it);
  stats_.connections.store(sessions_.size(), std::memory_order_relaxed);
}

void Worker::Kill(core::ConnectionId id) {
  loop_.Post([this, id] {
    if (Session* session = Find(id)) session->CloseNow();
    AfterBatch();
  });
}

void Worker::BeginDrain() {
  loop_.Post([this] {
    std::vector<Session*> all;
    for (const auto& [id, session] : sessions_) all.push_back(session.get());
    for (Session* session : all) session->BeginDrain();
    AfterBatch();
  });
}

// ---- turns

void Worker::Schedule(Session* session) {
  if (std::exchange(session->runnable(), true)) return;
  runnable_.push_back(session);
}

// Behind everything that may have run sessions: goes on with those that used up their turn, by a post, so that other
// events get theirs; then forgets the closed ones.
void Worker::AfterBatch() {
  if (stopping_) return;
  if (!runnable_.empty() && !run_posted_) {
    run_posted_ = true;
    loop_.Post([this] {
      run_posted_ = false;
      running_.swap(runnable_);
      for (Session* session : running_) session->runnable() = false;
      for (Session* session : running_) session->Run();
      running_.clear();
      AfterBatch();
    });
  }
  if (deadlines_dirty_) ArmDeadline();
  if (!graveyard_.empty()) BuryClosed();
}

void Worker::BuryClosed() {
  std::erase_if(runnable_, [](const Session* session) { return session->closed(); });
  graveyard_.clear();
}

// ---- parking

void Worker::Park(Session* session) {
  Session::Parking& parking = session->parking();
  auto& list = parked_[static_cast<size_t>(*parking.reason)];
  parking.at = list.insert(list.end(), session);
  shared_->host->Park(*parking.reason);
  if (*parking.reason == WakeReason::kSpace) shared_->host->HurryTick();
  if (parking.deadline_ms != 0) {
    deadlines_.emplace(parking.deadline_ms, session);
    deadlines_dirty_ = true;
  }
  stats_.parked.fetch_add(1, std::memory_order_relaxed);
}

// Takes the session off every list; it may run again.
void Worker::Unpark(Session* session) {
  Session::Parking& parking = session->parking();
  if (!parking.reason) return;
  parked_[static_cast<size_t>(*parking.reason)].erase(parking.at);
  shared_->host->Unpark(*parking.reason);
  if (parking.deadline_ms != 0) deadlines_.erase({parking.deadline_ms, session});
  stats_.parked.fetch_sub(1, std::memory_order_relaxed);
  parking = {};
}

void Worker::WatchDurable(Session* session) {
  if (std::exchange(session->watches_durable(), true)) return;
  durable_watchers_.push_back(session);
  shared_->host->Park(WakeReason::kDurable);
}

void Worker::Unlist(Session* session, WakeReason reason) {
  TIERCEL_CHECK(reason == WakeReason::kDurable);
  std::erase(durable_watchers_, session);
  session->watches_durable() = false;
  shared_->host->Unpark(reason);
}

void Worker::Wake(uint32_t reasons) {
  if (wakes_.fetch_or(reasons, std::memory_order_acq_rel) == 0) {
    loop_.Post([this] { RunWakes(); });
  }
}

void Worker::RunWakes() {
  const uint32_t reasons = wakes_.exchange(0, std::memory_order_acq_rel);
  if ((reasons & WakeBit(WakeReason::kDurable)) != 0) ReleaseDurable();
  for (const WakeReason reason : {WakeReason::kWork, WakeReason::kSpace, WakeReason::kPutEnded}) {
    if ((reasons & WakeBit(reason)) == 0) continue;
    // In the order in which they parked; those that park again wait for the next wake.
    const std::vector<Session*> woken(parked_[static_cast<size_t>(reason)].begin(),
                                      parked_[static_cast<size_t>(reason)].end());
    for (Session* session : woken) {
      if (session->closed() || session->parking().reason != reason) continue;
      Unpark(session);
      session->Resume(false);
    }
  }
  AfterBatch();
}

void Worker::ReleaseDurable() {
  const std::vector<Session*> watchers = durable_watchers_;
  {
    MasterHost::Hold hold(shared_->host);
    for (Session* session : watchers) session->ReleaseWaiting(hold.master());
  }
  for (Session* session : watchers) {
    if (session->closed()) continue;
    if (!session->waits_for_journal()) Unlist(session, WakeReason::kDurable);
    session->Run();
  }
}

// ---- time

void Worker::ArmDeadline() {
  deadlines_dirty_ = false;
  if (deadlines_.empty()) {
    deadline_timer_.cancel();
    return;
  }
  const int64_t wait_ms = std::max<int64_t>(1, deadlines_.begin()->first - Now().boot_ms);
  deadline_timer_.expires_after(std::chrono::milliseconds(wait_ms));
  deadline_timer_.async_wait([this](const asio::error_code& error) {
    if (!error) RunDeadlines();
  });
}

void Worker::RunDeadlines() {
  const int64_t now_ms = Now().boot_ms;
  std::vector<Session*> due;
  for (const auto& [deadline_ms, session] : deadlines_) {
    if (deadline_ms > now_ms) break;
    due.push_back(session);
  }
  for (Session* session : due) {
    if (session->closed() || !session->parking().reason || session->parking().deadline_ms > now_ms) continue;
    Unpark(session);
    session->Resume(true);
  }
  deadlines_dirty_ = true;
  AfterBatch();
}

void Worker::ArmSweep() {
  sweep_timer_.expires_after(kSweepPeriod);
  sweep_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    Sweep();
    ArmSweep();
  });
}

void Worker::Sweep() {
  const Times now = Now();
  std::vector<Session*> all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  for (Session* session : all) session->Sweep(now);
  AfterBatch();
}

}  // namespace tiercel::net
