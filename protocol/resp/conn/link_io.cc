// The three roles: sender, leader, connector. Each drops the mutex for its system calls and looks at everything anew
// when it has it back.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"
#include "protocol/resp/conn/dial.h"
#include "protocol/resp/conn/handshake.h"
#include "protocol/resp/conn/leader_connection.h"

namespace tiercel::resp {
namespace {

constexpr size_t kPieces = 64;  // of one gathered write
// Rounds for others that a caller sends beyond its own request before it looks after its reply.
constexpr int kSendRounds = 16;
// A link that lay idle this long may have been closed by the peer meanwhile: worth a system call to know.
constexpr auto kStaleAfter = std::chrono::milliseconds(5);

}  // namespace

bool LeaderConnection::CanSendLocked() const {
  return link_ != nullptr && !queue_.empty() && !sending_ && !link_->want_write && !link_->send_failed;
}

// REQUIRES: CanSendLocked().
void LeaderConnection::SendLocked(Lock* lock) {
  const std::shared_ptr<Link> link = link_;
  sending_ = true;
  std::array<iovec, kPieces> pieces;
  std::array<Exchange*, kPieces> batch;
  for (int round = 0; round < kSendRounds; ++round) {
    if (link_ != link || queue_.empty() || link->want_write || link->send_failed) break;
    size_t used = 0, gathered = 0;
    for (Exchange* exchange : queue_) {
      if (used == kPieces) break;
      used += exchange->request.Fill(std::span(pieces).subspan(used));
      batch[gathered++] = exchange;
      exchange->in_send = true;
      // In line before the first byte leaves: the reply may be here before this thread has the mutex again.
      if (!exchange->awaiting && !exchange->answered) {
        exchange->awaiting = true;
        link->line.push_back({exchange, exchange->expected});
      }
    }
    lock->unlock();
    const Link::Sent sent = link->Send(std::span(pieces).first(used));
    lock->lock();

    link->want_write |= sent.full;
    if (sent.failed) {
      link->send_failed = true;
      shutdown(link->fd.get(), SHUT_WR);  // what the peer still has to say is read until it closes
    }
    size_t bytes = sent.bytes;
    for (Exchange* exchange : std::span(batch).first(gathered)) {
      const size_t own = std::min(bytes, exchange->request.left_bytes());
      exchange->request.Advance(own);
      bytes -= own;
      exchange->in_send = false;
      if (link_ == link && exchange->sent()) {
        TIERCEL_CHECK(queue_.front() == exchange);
        queue_.pop_front();
      }
      // Answered meanwhile: by the peer, who need not wait for the last byte, or by the link's end.
      if (exchange->answered && (exchange->sent() || link_ != link)) {
        FinishIfFreeLocked(exchange);
      } else if (!exchange->is_async) {
        if (Now() >= exchange->deadline) exchange->wake.notify_one();
      }
    }
  }
  sending_ = false;
  if (queue_.empty()) return;
  // Somebody has to go on: the leader, who watches for room, or one of those who wait. (Also over a link that was made
  // while this thread was still sending over the one before.)
  KickLeaderLocked();
  HandOverLocked();
}

// One wait for the socket, and what comes of it. REQUIRES: a link, no leader.
void LeaderConnection::LeadLocked(Lock* lock, Deadline deadline, const Exchange* leader) {
  const std::shared_ptr<Link> link = link_;
  leading_ = true;
  leader_ = leader;
  pollfd fds[2] = {{link->fd.get(), static_cast<short>(link->want_write ? POLLIN | POLLOUT : POLLIN), 0},
                   {kick_.get(), POLLIN, 0}};
  lock->unlock();
  const int ready = poll(fds, 2, PollMs(deadline));
  std::vector<Reply> replies;
  Status status = Ok();
  if (ready > 0) {
    if (fds[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(kick_.get(), &count, sizeof(count));
    }
    if ((fds[0].revents & ~POLLOUT) != 0) status = link->Receive(&replies);
  }
  lock->lock();
  leading_ = false;
  if (ready > 0 && (fds[0].revents & POLLOUT) != 0) link->want_write = false;
  if (link_ != link) return;
  if (!replies.empty()) DeliverLocked(std::move(replies));
  if (!status.ok() && link_ == link) BreakLocked(Unreachable(peer_, status.error().message()));
}

void LeaderConnection::DeliverLocked(std::vector<Reply> replies) {
  const std::shared_ptr<Link> link = link_;
  link->last_used = Now();
  for (Reply& reply : replies) {
    if (reply.kind == Reply::Kind::kPush) continue;  // not an answer to anything
    if (link->line.empty()) {
      BreakLocked(Unreachable(peer_, "sent a reply to no command"));
      return;
    }
    Link::Slot& slot = link->line.front();
    --pending_;
    --slot.remaining;
    Exchange* const exchange = slot.exchange;
    if (exchange != nullptr) exchange->replies.push_back(std::move(reply));
    if (slot.remaining > 0) continue;
    link->line.pop_front();
    if (exchange == nullptr) continue;
    AnswerLocked(exchange, std::nullopt);
    if (exchange->sent()) FinishIfFreeLocked(exchange);
  }
}

// The link is over. Calls of which something has been sent fail (or keep the answer that they have); the others stay
// queued for the next link.
void LeaderConnection::BreakLocked(const Error& error) {
  const std::shared_ptr<Link> link = std::move(link_);
  link_ = nullptr;
  if (link == nullptr) return;
  last_error_ = error;
  shutdown(link->fd.get(), SHUT_RDWR);  // ends the leader's wait; closed with the last reference
  std::vector<Exchange*> over;
  for (const Link::Slot& slot : link->line) {
    if (slot.exchange != nullptr && slot.exchange->untouched()) {
      slot.exchange->awaiting = false;
      continue;
    }
    pending_ -= slot.remaining;
    if (slot.exchange == nullptr) continue;
    AnswerLocked(slot.exchange, error);
    over.push_back(slot.exchange);
  }
  std::erase_if(queue_, [&](Exchange* exchange) {
    if (exchange->answered && std::find(over.begin(), over.end(), exchange) == over.end()) over.push_back(exchange);
    return exchange->answered;
  });
  for (Exchange* exchange : over) FinishIfFreeLocked(exchange);
  // Those who go on waiting have to see to a new link.
  for (Exchange* exchange : queue_) exchange->wake.notify_one();
  driver_wake_.notify_all();
}

// A peer that restarted has closed the link long since; better to know before a request is lost on it.
void LeaderConnection::DropStaleLinkLocked(Lock* lock) {
  if (link_ == nullptr || leading_ || !link_->line.empty() || !queue_.empty()) return;
  const Deadline now = Now();
  if (now - link_->last_used < kStaleAfter) return;
  LeadLocked(lock, now, nullptr);
  HandOverLocked();  // others may have come meanwhile, and waited for this leader
}

// Makes a link, or waits until that may be tried again or somebody else has done it.
void LeaderConnection::ConnectLocked(Lock* lock, Deadline deadline, std::condition_variable* wake) {
  if (adopted_ && !connecting_) {
    FailQueuedLocked(last_error_ ? *last_error_ : Unreachable(peer_, "the socket is gone"));
    return;
  }
  if (connecting_ || Now() < next_attempt_) {
    wake->wait_until(*lock, connecting_ ? deadline : std::min(deadline, next_attempt_));
    return;
  }
  if (!MakeEventsLocked()) {
    AdoptLocked({.error = Unreachable(peer_, errno)});
    return;
  }
  connecting_ = true;
  adopted_ = options_.adopted_fd >= 0;
  lock->unlock();
  Made made = MakeLink(std::min(deadline, After(options_.connect_timeout_ms)));
  lock->lock();
  connecting_ = false;
  AdoptLocked(std::move(made));
  for (Exchange* exchange : queue_) exchange->wake.notify_one();
  driver_wake_.notify_all();
}

// False, with errno: no descriptor is left. That passes, like a peer that is away, and is tried again like one.
bool LeaderConnection::MakeEventsLocked() {
  for (UniqueFd* event : {&kick_, &stop_}) {
    if (!*event) *event = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!*event) return false;
  }
  return true;
}

LeaderConnection::Made LeaderConnection::MakeLink(Deadline deadline) {
  auto link = std::make_shared<Link>();
  if (options_.adopt) {
    link->fd = UniqueFd(options_.adopt());
    if (!link->fd) return {.error = Unreachable(peer_, "it gives no socket now")};
  } else if (options_.adopted_fd >= 0) {
    link->fd = UniqueFd(options_.adopted_fd);
  } else {
    auto fd = Dial(options_, deadline, stop_.get());
    if (!fd.ok()) return {.error = fd.error(), .fatal = fd.error().code() == ErrorCode::kInvalid};
    link->fd = std::move(fd).value();
  }
  auto failure = Handshake(link->fd.get(), options_, deadline, stop_.get(), &link->parser);
  if (failure) return {.error = std::move(failure->error), .fatal = failure->fatal};
  link->last_used = Now();
  return {.link = std::move(link)};
}

void LeaderConnection::AdoptLocked(Made made) {
  if (closed_) return;  // its queue has been failed already
  if (made.link != nullptr) {
    link_ = std::move(made.link);
    last_error_.reset();
    backoff_.Succeeded();
    next_attempt_ = {};
    ++epoch_;
    return;
  }
  next_attempt_ = Now() + std::chrono::milliseconds(backoff_.NextMs());
  last_error_ = std::move(made.error);
  if (made.fatal || adopted_) FailQueuedLocked(*last_error_);
}

}  // namespace tiercel::resp
