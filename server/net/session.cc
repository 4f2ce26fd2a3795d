#include "server/net/session.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "server/net/dial_back.h"
#include "server/net/server_shared.h"

namespace tiercel::net {
namespace {

// A turn moves at most so many bytes of a large value, then lets other connections have the loop.
constexpr uint64_t kTurnValueBytes = uint64_t{4} << 20;
// Batches of small commands in one turn.
constexpr int kTurnRounds = 8;
// After our side is closed the peer's last bytes are read and dropped for so long, so that no reset destroys what
// it has not read yet.
constexpr int64_t kLingerMs = 2000;

}  // namespace

Session::Session(Worker* worker, UniqueFd socket, SessionState state, bool from_listener)
    : worker_(worker),
      shared_(&worker->shared()),
      socket_(std::move(socket)),
      state_(std::move(state)),
      from_listener_(from_listener),
      row_(std::make_shared<ClientRow>()),
      decoder_(DecoderLimits()) {
  const Times now = worker_->Now();
  last_read_ms_ = last_write_ms_ = now.boot_ms;
  row_->id = state_.id;
  row_->fd = socket_.get();
  row_->connected_ms = now.boot_ms;
  row_->peer_address = state_.peer_address;
  row_->local_address = state_.local_address;
  row_->last_active_ms.store(now.boot_ms, std::memory_order_relaxed);
  // An adopted socket cannot be made anew: the store in this process would be cut off for good.
  if (from_listener_) row_->kill = [worker, id = state_.id] { worker->Kill(id); };
  MarkPublishedUser();
  shared_->registry.Add(row_);
}

Session::~Session() { TIERCEL_CHECK(closed_, "a session is closed before it is destroyed"); }

void Session::MarkPublishedUser() {
  {
    std::lock_guard lock(row_->mutex);
    row_->user = state_.user;
    row_->name = state_.name;
    row_->lib_name = state_.lib_name;
    row_->lib_version = state_.lib_version;
  }
  row_->name_space.store(state_.name_space, std::memory_order_relaxed);
  row_->protocol.store(state_.protocol, std::memory_order_relaxed);
  row_->no_evict.store(state_.no_evict, std::memory_order_relaxed);
  row_->no_touch.store(state_.no_touch, std::memory_order_relaxed);
}

void Session::OnReady(uint32_t events) {
  if (closed_) return;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hung_up_ = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) writable_ = true;
  // A parked command of a peer that has gone would be answered to nobody; one that blocks for work (and would take
  // it) ends already when the peer has closed its side.
  const bool gone = (events & (EPOLLHUP | EPOLLERR)) != 0;
  if ((gone && parking_.reason) || (hung_up_ && parking_.reason == WakeReason::kWork)) {
    CloseNow();
    return;
  }
  Run();
}

void Session::Run() {
  if (closed_) return;
  TIERCEL_CHECK(!in_turn_, "turns do not nest");
  in_turn_ = true;
  turn_bytes_ = 0;
  in_.BeginTurn(worker_->shared_input());
  Step step = Step::kAgain;
  for (int round = 0; step == Step::kAgain && round < kTurnRounds; ++round) step = Advance();
  if (step != Step::kClosed && !Flush()) step = Step::kClosed;
  if (step == Step::kAgain || step == Step::kYield) worker_->Schedule(this);
  EndTurn();
}

void Session::EndTurn() {
  in_turn_ = false;
  if (closed_) return;
  in_.EndTurn();
  row_->query_bytes.store(in_.size(), std::memory_order_relaxed);
  row_->output_bytes.store(out_.unsent(), std::memory_order_relaxed);
  ReleaseQuery();
}

// One thing at a time, in the order in which a reply depends on it.
Session::Step Session::Advance() {
  if (broken_) CloseNow();
  if (!Flush()) return Step::kClosed;
  if (dial_request_) StartDial();
  if (turn_bytes_ >= kTurnValueBytes) return Step::kYield;
  if (sender_) return AdvanceSender();
  if (parking_.reason || dial_) return Step::kWait;
  if (receiver_) return AdvanceReceiver();
  if (buffering_) return AdvanceBuffering();
  if (held_) {
    if (!held_->ready) return Step::kWait;
    RunHeld();
    return closed_ ? Step::kClosed : held_ && held_->ready ? Step::kYield : Step::kAgain;
  }
  if (closing_) return AdvanceClosing();
  if (out_.unsent() >= shared_->limits.reply_budget_bytes.load(std::memory_order_relaxed)) return Step::kWait;
  if (starved_) {
    const Step step = Receive();
    if (step != Step::kAgain) return step;
  }
  if (line_end_pending_) {
    EndReceiver();
  } else {
    RunBatch();
  }
  return closed_ ? Step::kClosed : Step::kAgain;
}

// No later command runs; the connection ends when all replies have left. It is not listed any more.
void Session::BeginClosing() {
  closing_ = true;
  shared_->registry.Remove(state_.id);
}

Session::Step Session::AdvanceClosing() {
  if (!out_.empty()) return Step::kWait;
  if (close_silently_ || eof_) {
    CloseNow();
    return Step::kClosed;
  }
  if (!shut_) {
    shut_ = true;
    closing_ms_ = worker_->Now().boot_ms;
    ::shutdown(socket_.get(), SHUT_WR);
  }
  while (true) {
    const std::span<char> sink = worker_->shared_input();
    const ssize_t n = ::recv(socket_.get(), sink.data(), sink.size(), MSG_DONTWAIT);
    if (n > 0) {
      turn_bytes_ += static_cast<uint64_t>(n);
      if (turn_bytes_ >= kTurnValueBytes) return Step::kYield;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Step::kWait;
    CloseNow();
    return Step::kClosed;
  }
}

void Session::Resume(bool timed_out) {
  if (closed_) return;
  if (receiver_) {
    receiver_timed_out_ = timed_out;
  } else if (held_) {
    state_.progress.timed_out = timed_out;
    held_->ready = true;
  }
  row_->parked.store(false, std::memory_order_relaxed);
  Run();
}

void Session::OnTransfer() {
  if (receiver_) receiver_->Poll();
  Run();
}

void Session::ReleaseWaiting(core::Master& master) {
  using Released = OutputQueue::Released;
  const Released released = out_.Release(
      master.durable(), [&](core::Seq wait) { return master.WasUndone(wait); },
      "-INDEXRO the index could not be written: the command was undone\r\n");
  if (released == Released::kBroken) broken_ = true;
  if (released == Released::kLastUndone && sender_ && !sender_header_sent_) {
    // What the value's version rests on was undone, and the error stands in its reply's place.
    sender_->Abandon(master, worker_->Now());
    sender_.reset();
    if (sender_more_ && held_) DropHeld();
  }
}

void Session::Sweep(Times now) {
  if (closed_) return;
  const LiveLimits& limits = shared_->limits;
  WorkerStats& stats = worker_->stats();
  if (shut_) {
    if (now.boot_ms - closing_ms_ >= kLingerMs) CloseNow();
    return;
  }
  if (std::exchange(wrote_, false)) last_write_ms_ = now.boot_ms;
  const bool owes = !out_.Sendable().empty() || (sender_ && !writable_);
  if (owes) {
    if (now.boot_ms - last_write_ms_ >= limits.idle_write_timeout_ms.load(std::memory_order_relaxed)) {
      stats.closed_slow_reader.Add();
      // A reset: what is queued in the kernel would stay there as long as the peer does not read, and so would the
      // peer's belief that somebody still serves it.
      const linger reset{.l_onoff = 1, .l_linger = 0};
      (void)setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      CloseNow();
    }
    return;
  }
  last_write_ms_ = now.boot_ms;  // counts from when there is something to write
  const bool half_received = receiver_ || buffering_ || decoder_.in_command() || !in_.empty();
  const int64_t silent_ms = now.boot_ms - last_read_ms_;
  if (half_received && !parking_.reason && silent_ms >= limits.idle_read_timeout_ms.load(std::memory_order_relaxed)) {
    stats.closed_idle.Add();
    CloseNow();
    return;
  }
  const int64_t idle_ms = limits.idle_timeout_ms.load(std::memory_order_relaxed);
  const bool spared = parking_.reason || dial_ || sender_ || held_ || state_.in_process || state_.store.has_value();
  if (idle_ms > 0 && !spared && silent_ms >= idle_ms) {
    stats.closed_idle.Add();
    CloseNow();
    return;
  }
  if (receiver_ && receiver_->put()) {
    MasterHost::Hold hold(shared_->host);
    receiver_->Renew(hold.master(), {state_.user_id, state_.id}, now);
    for (const auto& value : incoming_) value->Renew(hold.master(), {state_.user_id, state_.id}, now);
  }
}

void Session::BeginDrain() {
  // What this process adopted belongs to its store, which has yet to leave.
  if (closed_ || closing_ || !from_listener_) return;
  if (parking_.reason == WakeReason::kWork) {
    CloseNow();
    return;
  }
  if (held_ || sender_ || receiver_ || buffering_) return;
  BeginClosing();
  Run();
}

void Session::CloseNow() {
  if (closed_) return;
  closed_ = true;
  worker_->Unpark(this);
  dial_.reset();
  Detach();
  shared_->registry.Remove(state_.id);
  if (from_listener_) shared_->clients.fetch_sub(1, std::memory_order_relaxed);
  shared_->query_buffer_bytes.fetch_sub(std::exchange(query_reserved_, 0), std::memory_order_relaxed);
  socket_.Reset();
  worker_->Closed(this);
}

// Gives back everything that the core holds for this connection.
void Session::Detach() {
  if (shared_->host == nullptr) return;
  MasterHost::Hold hold(shared_->host);
  const Times now = worker_->Now();
  const core::Caller caller{state_.user_id, state_.id};
  if (sender_) sender_->Abandon(hold.master(), now);
  if (receiver_) receiver_->Revoke(shared_->host, hold.master(), caller, now);
  for (const auto& value : incoming_) value->Revoke(shared_->host, hold.master(), caller, now);
  hold.master().ConnectionClosed(state_.id, now);
  if (state_.on_close) state_.on_close(hold.master(), now);
  hold.Release();
  sender_.reset();
  receiver_.reset();
  incoming_.clear();
}

}  // namespace tiercel::net
