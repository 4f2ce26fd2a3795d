// Asynchronous calls: who makes one does not wait, so a thread of the owner's does the waiting for all of them.
#include <algorithm>
#include <utility>

#include "protocol/resp/conn/leader_connection.h"

namespace tiercel::resp {
namespace {

// When to look again at an exchange whose memory a system call is using for a moment.
constexpr auto kSoon = std::chrono::milliseconds(1);

}  // namespace

void LeaderConnection::CallAsync(std::span<const std::string_view> arguments, int64_t timeout_ms,
                                 std::function<void(Result<Reply>)> done) {
  auto owned = std::make_unique<Exchange>();
  owned->deadline = After(timeout_ms);
  owned->is_async = true;
  owned->done = std::move(done);
  owned->request.Add(arguments, true);

  Lock lock(mutex_);
  ++inside_;
  DropStaleLinkLocked(&lock);
  auto refused = EnqueueLocked(owned.get());
  if (!refused) {
    Exchange* const exchange = owned.release();  // callbacks_ owns it at the end
    ++async_count_;
    const bool sooner = exchange->deadline < async_deadline_;
    async_deadline_ = std::min(async_deadline_, exchange->deadline);
    if (CanSendLocked()) SendLocked(&lock);
    // A leader that drives sleeps until the deadline that was the next one before.
    if (sooner) KickLeaderLocked();
    if (sooner || !leading_) driver_wake_.notify_one();
  }
  if (--inside_ == 0 && closed_) left_.notify_all();
  lock.unlock();
  if (refused) owned->done(*std::move(refused));
}

void LeaderConnection::Drive(int64_t timeout_ms) {
  const Deadline deadline = After(timeout_ms);
  Lock lock(mutex_);
  ++inside_;
  while (!closed_ && Now() < deadline) {
    if (!callbacks_.empty()) {
      RunCallbacks(&lock);
    } else {
      DriveStep(&lock, deadline);
    }
  }
  RunCallbacks(&lock);
  HandOverLocked();
  if (--inside_ == 0 && closed_) left_.notify_all();
}

void LeaderConnection::DriveStep(Lock* lock, Deadline deadline) {
  if (async_count_ == 0) {
    // Synchronous callers read for themselves, without a switch of threads.
    async_deadline_ = Deadline::max();
    HandOverLocked();
    driver_wake_.wait_until(*lock, deadline);
    return;
  }
  const Deadline now = Now();
  if (now >= async_deadline_ && ExpireLocked(now)) return;
  const Deadline until = std::min(deadline, async_deadline_);
  if (link_ == nullptr) {
    ConnectLocked(lock, until, &driver_wake_);
  } else if (CanSendLocked()) {
    SendLocked(lock);
  } else if (!leading_) {
    LeadLocked(lock, until, nullptr);
  } else {
    driver_wake_.wait_until(*lock, until);
  }
}

// Ends those whose time is over and finds out when the next one's is. True: some ended. One pass, because all that
// are under way may end at once.
bool LeaderConnection::ExpireLocked(Deadline now) {
  Deadline next = Deadline::max();
  std::vector<Exchange*> over;    // nothing of them has been begun, or all been sent
  std::vector<Exchange*> midway;  // few: what one gathered write holds
  const auto is_over = [&](const Exchange* exchange) {
    if (exchange == nullptr || !exchange->is_async) return false;
    if (exchange->deadline > now) next = std::min(next, exchange->deadline);
    return exchange->deadline <= now;
  };
  std::erase_if(queue_, [&](Exchange* exchange) {
    if (!is_over(exchange)) return false;
    const bool not_begun = exchange->untouched() && !exchange->awaiting && !exchange->answered;
    if (not_begun) pending_ -= exchange->expected;
    (not_begun ? over : midway).push_back(exchange);
    return not_begun;
  });
  if (link_ != nullptr) {
    for (Link::Slot& slot : link_->line) {
      if (!is_over(slot.exchange) || !slot.exchange->sent()) continue;
      if (slot.exchange->in_send) {
        next = std::min(next, now + kSoon);
      } else {
        over.push_back(std::exchange(slot.exchange, nullptr));
      }
    }
  }
  for (Exchange* exchange : over) {
    AnswerLocked(exchange, TimeOutErrorLocked());
    FinishIfFreeLocked(exchange);
  }
  bool ended = !over.empty();
  for (Exchange* exchange : midway) {
    // Finished: by the end of the link that an earlier one brought about.
    if (exchange->finished || GiveUpLocked(exchange)) {
      ended = true;
    } else {
      next = std::min(next, now + kSoon);  // its memory is in use for a moment
    }
  }
  async_deadline_ = next;
  return ended;
}

void LeaderConnection::RunCallbacks(Lock* lock) {
  while (!callbacks_.empty()) {
    std::unique_ptr<Exchange> exchange = std::move(callbacks_.front());
    callbacks_.pop_front();
    --pending_;
    lock->unlock();
    if (exchange->error) {
      exchange->done(*std::move(exchange->error));
    } else {
      exchange->done(std::move(exchange->replies.front()));
    }
    exchange.reset();
    lock->lock();
  }
}

}  // namespace tiercel::resp
