#include "protocol/resp/conn/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "protocol/resp/conn/dial.h"
#include "protocol/resp/conn/leader_connection.h"

namespace tiercel::resp {
namespace {

void Signal(const UniqueFd& event) {
  const uint64_t one = 1;
  // A full counter is as readable as a counter of one.
  [[maybe_unused]] const ssize_t written = write(event.get(), &one, sizeof(one));
}

Error ClosedError() { return {ErrorCode::kShutdown, "the connection was closed"}; }

}  // namespace

std::unique_ptr<Connection> Connection::Create(ConnectionOptions options) {
  return std::make_unique<LeaderConnection>(std::move(options));
}

// Counts a thread in and out.
class LeaderConnection::Visit {
 public:
  explicit Visit(LeaderConnection* connection) : connection_(connection) { ++connection_->inside_; }
  ~Visit() {
    if (--connection_->inside_ == 0 && connection_->closed_) connection_->left_.notify_all();
  }

 private:
  LeaderConnection* const connection_;  // under its mutex, both times
};

LeaderConnection::LeaderConnection(ConnectionOptions options)
    : options_(std::move(options)),
      peer_(PeerName(options_)),
      backoff_({.first_ms = options_.backoff_first_ms, .cap_ms = options_.backoff_cap_ms}, RandomId()) {}

LeaderConnection::~LeaderConnection() {
  Close();
  Lock lock(mutex_);
  left_.wait(lock, [&] { return inside_ == 0; });
  RunCallbacks(&lock);
  TIERCEL_CHECK(queue_.empty() && async_count_ == 0);
  if (!adopted_ && options_.adopted_fd >= 0) close(options_.adopted_fd);
}

void LeaderConnection::Close() {
  Lock lock(mutex_);
  Visit visit(this);
  if (!closed_) {
    closed_ = true;
    Signal(stop_);
    Signal(kick_);
    BreakLocked(ClosedError());
    FailQueuedLocked(ClosedError());
    driver_wake_.notify_all();
  }
  RunCallbacks(&lock);
}

Result<Reply> LeaderConnection::Call(std::span<const std::string_view> arguments, int64_t timeout_ms) {
  Exchange exchange;
  exchange.deadline = After(timeout_ms);
  exchange.request.Add(arguments, false);
  Run(&exchange);
  if (exchange.error) return *std::move(exchange.error);
  return std::move(exchange.replies.front());
}

Result<std::vector<Reply>> LeaderConnection::Pipeline(std::span<const std::vector<std::string_view>> commands,
                                                      int64_t timeout_ms) {
  if (commands.empty()) return std::vector<Reply>();
  if (commands.size() > options_.max_pending) {
    return Error(ErrorCode::kTooManyOps, std::to_string(commands.size()) + " commands in one pipeline, at most " +
                                             std::to_string(options_.max_pending));
  }
  Exchange exchange;
  exchange.deadline = After(timeout_ms);
  exchange.expected = static_cast<uint32_t>(commands.size());
  for (const auto& command : commands) exchange.request.Add(command, false);
  Run(&exchange);
  if (exchange.error) return *std::move(exchange.error);
  return std::move(exchange.replies);
}

// A synchronous caller: does whatever is not being done until its exchange is finished.
void LeaderConnection::Run(Exchange* exchange) {
  Lock lock(mutex_);
  Visit visit(this);
  DropStaleLinkLocked(&lock);
  if (auto refused = EnqueueLocked(exchange)) {
    exchange->error = std::move(refused);
    return;
  }
  while (!exchange->finished) {
    if (Now() >= exchange->deadline) {
      // Not while another thread is sending from this caller's memory: it will say when it is not.
      if (!GiveUpLocked(exchange)) exchange->wake.wait(lock);
    } else if (link_ == nullptr) {
      ConnectLocked(&lock, exchange->deadline, &exchange->wake);
    } else if (CanSendLocked()) {
      SendLocked(&lock);
    } else if (!leading_) {
      LeadLocked(&lock, exchange->deadline, exchange);
    } else {
      exchange->wake.wait_until(lock, exchange->deadline);
    }
  }
  HandOverLocked();
}

std::optional<Error> LeaderConnection::EnqueueLocked(Exchange* exchange) {
  if (closed_) return ClosedError();
  if (pending_ + exchange->expected > options_.max_pending) {
    return Error(ErrorCode::kRetry, std::to_string(pending_) + " calls to " + peer_ + " await replies, at most " +
                                        std::to_string(options_.max_pending));
  }
  pending_ += exchange->expected;
  queue_.push_back(exchange);
  return std::nullopt;
}

// Its time is over. False: somebody is sending from its memory; ask again when it has been woken.
bool LeaderConnection::GiveUpLocked(Exchange* exchange) {
  if (exchange->in_send) return false;
  const auto in_line = [&](const Link::Slot& slot) { return slot.exchange == exchange; };
  if (exchange->answered || (!exchange->untouched() && !exchange->sent())) {
    // Half of its request is on its way; what follows would be read as the other half. The peer may not be reading, so
    // the link is reset rather than closed, which would wait for it. This also answers the exchange.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    setsockopt(link_->fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    BreakLocked(Error(ErrorCode::kUnreachable, peer_ + ": a call's time was over in the middle of its request"));
    return true;
  }
  if (exchange->untouched()) {
    std::erase(queue_, exchange);
    if (exchange->awaiting) std::erase_if(link_->line, in_line);
    pending_ -= exchange->expected;
  } else {
    std::find_if(link_->line.begin(), link_->line.end(), in_line)->exchange = nullptr;
  }
  AnswerLocked(exchange, TimeOutErrorLocked());
  FinishIfFreeLocked(exchange);
  return true;
}

Error LeaderConnection::TimeOutErrorLocked() const {
  if (link_ != nullptr) return {ErrorCode::kDeadline, peer_ + ": no reply in time"};
  if (last_error_) return *last_error_;
  return {ErrorCode::kUnreachable, peer_ + ": not connected in time"};
}

void LeaderConnection::AnswerLocked(Exchange* exchange, std::optional<Error> error) {
  exchange->answered = true;
  exchange->awaiting = false;
  if (error && !exchange->error) exchange->error = std::move(error);
}

// REQUIRES: answered, and out of line_; out of queue_ as well unless a part of it is still to be sent.
void LeaderConnection::FinishIfFreeLocked(Exchange* exchange) {
  if (exchange->finished || exchange->in_send) return;
  exchange->finished = true;
  // Its owner may be the leader, asleep in poll: the leader itself may have read the reply while the sender was still
  // on its way back from the system call that sent the request.
  if (leading_ && leader_ == (exchange->is_async ? nullptr : exchange)) Signal(kick_);
  if (!exchange->is_async) {
    exchange->wake.notify_one();  // under the mutex: the caller cannot have left yet
    return;
  }
  --async_count_;
  ++pending_;  // until its callback has run
  callbacks_.emplace_back(exchange);
  driver_wake_.notify_one();
}

// Everything that is queued and of which nothing has been sent. REQUIRES: no link.
void LeaderConnection::FailQueuedLocked(const Error& error) {
  TIERCEL_CHECK(link_ == nullptr);
  for (Exchange* exchange : std::exchange(queue_, {})) {
    pending_ -= exchange->expected;
    AnswerLocked(exchange, error);
    FinishIfFreeLocked(exchange);
  }
}

// The thread that leaves was perhaps the leader, or the one who was to send: wake one who can take over. The last in
// line is the one who leads longest.
void LeaderConnection::HandOverLocked() {
  if (link_ == nullptr || leading_) return;
  for (auto slot = link_->line.rbegin(); slot != link_->line.rend(); ++slot) {
    if (slot->exchange != nullptr && !slot->exchange->is_async) {
      slot->exchange->wake.notify_one();
      return;
    }
  }
  for (Exchange* exchange : queue_) {
    if (!exchange->is_async) {
      exchange->wake.notify_one();
      return;
    }
  }
  if (async_count_ > 0) driver_wake_.notify_one();
}

void LeaderConnection::KickLeaderLocked() {
  if (leading_) Signal(kick_);
}

uint64_t LeaderConnection::pending() const {
  Lock lock(mutex_);
  return pending_;
}

bool LeaderConnection::connected() const {
  Lock lock(mutex_);
  return link_ != nullptr;
}

uint64_t LeaderConnection::epoch() const {
  Lock lock(mutex_);
  return epoch_;
}

}  // namespace tiercel::resp
