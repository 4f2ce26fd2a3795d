// Who drives: the leader's turn, timers, the background thread, shutting down.
#include <fmt/core.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/check.h"
#include "transfer/engine_core.h"

namespace tiercel::transfer {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kWakeKey = 0;
constexpr int kEventsPerTurn = 64;
// With a clock that a test turns by hand nobody tells us when; so waits end this soon to look at it.
constexpr int64_t kSubstituteClockLookMs = 2;
constexpr int64_t kWatchMs = 4;         // how long something may be under way with nobody driving
constexpr int kWatchesBeforeRest = 64;  // idle looks before the background thread sleeps until it is called

int64_t MonotonicMs() { return MonotonicNanos() / 1'000'000; }

}  // namespace

Status Core::Start() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return SystemError("create an epoll set", errno);
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return SystemError("create an event descriptor", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return SystemError("watch an event", errno);
  background_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "transfer");
    Background();
  });
  return Ok();
}

bool Core::DriveUntil(Lock& lock, BatchState* batch, int64_t timeout_ms, const std::function<bool()>& done) {
  if (done()) return true;
  const int64_t until = timeout_ms < 0 ? INT64_MAX : MonotonicMs() + timeout_ms;
  // Time-outs that a test's clock decides end when that clock says so.
  const int64_t until_clock =
      clock_is_substitute_ && batch == nullptr && timeout_ms >= 0 ? NowMs() + timeout_ms : INT64_MAX;
  Waiter self;
  self.batch = batch;
  waiters_.push_back(&self);
  if (batch != nullptr) ++batch->executors;
  bool is_done = false;
  while (!(is_done = done())) {
    if (batch != nullptr && !batch->work.empty()) {
      RunWork(lock, *batch);
      continue;
    }
    int64_t left = until == INT64_MAX ? 60'000 : until - MonotonicMs();
    if (until_clock != INT64_MAX) left = NowMs() >= until_clock ? 0 : 60'000;
    if (left <= 0) break;
    if (clock_is_substitute_) left = std::min(left, kSubstituteClockLookMs);
    if (!leader_ && !stopping_) {
      leader_ = true;
      leading_ = &self;
      lock.unlock();
      DriveOnce(left);
      lock.lock();
      leading_ = nullptr;
      leader_ = false;
      if (stopping_) stop_cv_.notify_all();
      if (!callbacks_.empty()) {
        HandOverLocked();
        RunCallbacks(lock);
      }
      continue;
    }
    self.parked = true;
    self.cv.wait_for(lock, milliseconds(left));
    self.parked = false;
  }
  std::erase(waiters_, &self);
  if (batch != nullptr && --batch->executors == 0 && !batch->work.empty()) {
    orphan_work_.insert(orphan_work_.end(), batch->work.begin(), batch->work.end());
    batch->work.clear();
    WakeLeaderLocked();
    WakeBackgroundLocked();
  }
  HandOverLocked();
  return is_done;
}

void Core::RunWork(Lock& lock, BatchState& batch) {
  Slice* slice = batch.work.back();
  batch.work.pop_back();
  slice->finishing = true;
  const std::shared_ptr<Rail> rail = slice->rail;
  lock.unlock();
  rail->Finish(*slice);
  Pump();
  lock.lock();
}

void Core::HandOverLocked() {
  if (leader_) return;
  for (Waiter* waiter : waiters_) {
    if (!waiter->parked) continue;
    waiter->cv.notify_one();
    return;
  }
  if (async_ > 0) background_cv_.notify_one();
}

void Core::NotifyWaitersLocked(const BatchState* batch) {
  for (Waiter* waiter : waiters_) {
    if (waiter->parked && waiter->batch == batch) waiter->cv.notify_one();
  }
}

void Core::RunCallbacks(Lock& lock) {
  while (!callbacks_.empty()) {
    std::vector<std::function<void()>> now;
    now.swap(callbacks_);
    lock.unlock();
    for (auto& callback : now) {
      callback();
      callback = nullptr;  // what it owns may own a batch, whose end takes the lock
    }
    lock.lock();
  }
}

void Core::DriveOnce(int64_t timeout_ms) {
  std::vector<Slice*> orphans;
  {
    Lock lock(mu_);
    ++leads_;
    orphans.swap(orphan_work_);
    for (Slice* slice : orphans) slice->finishing = true;
    if (!orphans.empty() || stopping_) timeout_ms = 0;
    const int64_t now = NowMs();
    if (next_timer_ms_ != INT64_MAX) timeout_ms = std::min(timeout_ms, std::max<int64_t>(0, next_timer_ms_ - now));
    sleep_until_ms_ = now + timeout_ms;
    leader_sleeps_ = true;
  }
  std::array<epoll_event, kEventsPerTurn> events;
  const int n = epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, static_cast<int>(timeout_ms));
  struct Ready {
    std::shared_ptr<Rail> rail;
    uint32_t events;
  };
  std::array<Ready, kEventsPerTurn> ready;
  int ready_count = 0;
  bool timers = false;
  int64_t now = 0;
  {
    Lock lock(mu_);
    leader_sleeps_ = false;
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kWakeKey) {
        uint64_t count = 0;
        (void)!read(wake_.get(), &count, sizeof(count));
        continue;
      }
      const auto slot = open_slots_.find(events[i].data.u64);
      if (slot != open_slots_.end()) ready[ready_count++] = {slot->second->rail, events[i].events};
    }
    now = NowMs();
    timers = now >= next_timer_ms_;
  }
  for (Slice* slice : orphans) {
    const std::shared_ptr<Rail> rail = slice->rail;
    rail->Finish(*slice);
  }
  for (int i = 0; i < ready_count; ++i) {
    const bool broken = (ready[i].events & (EPOLLERR | EPOLLHUP)) != 0;
    ready[i].rail->OnEvents(broken || (ready[i].events & EPOLLIN) != 0, broken || (ready[i].events & EPOLLOUT) != 0);
  }
  if (timers) RunTimers(now);
  Pump(/*leading=*/true);
}

// One look at everything that has a time. It happens only when the earliest of them has come, so its cost does not
// matter, and no operation pays for a timer of its own.
void Core::RunTimers(int64_t now) {
  std::vector<Plan::Recall> recalls;
  std::vector<std::pair<std::shared_ptr<Rail>, Error>> closes;
  {
    Lock lock(mu_);
    next_timer_ms_ = INT64_MAX;
    for (BatchState *batch = active_, *next = nullptr; batch != nullptr; batch = next) {
      next = batch->next;
      if (!batch->expired && now >= batch->deadline_ms) {
        ExpireLocked(*batch, Error(ErrorCode::kDeadline, ""), &recalls);
        continue;
      }
      if (!batch->expired) ArmLocked(batch->deadline_ms);
      if (batch->options.unreachable_after_ms >= 0) FailIfStuckLocked(*batch, now);
    }
    for (const auto& [key, slot] : open_slots_) {
      const std::string& name = slot->path->peer->address.name;
      if (slot->state == Slot::State::kConnecting) {
        if (now >= slot->give_up_ms) {
          closes.emplace_back(slot->rail, Error(ErrorCode::kUnreachable, fmt::format("{} does not answer", name)));
        } else {
          ArmLocked(slot->give_up_ms);
        }
      } else if (slot->first_answer_ms != INT64_MAX) {
        if (now >= slot->first_answer_ms) {
          closes.emplace_back(slot->rail, *slot->odd_version);
        } else {
          ArmLocked(slot->first_answer_ms);
        }
      }
    }
    for (const auto& [id, peer] : peers_) NeedDispatchLocked(*peer);  // pauses that are over; arms those that are not
  }
  const Error late(ErrorCode::kDeadline, "the deadline has passed");
  for (const auto& [rail, error] : closes) rail->Close(error);
  for (const Plan::Recall& r : recalls) {
    if (!r.rail->Withdraw(r.slice, r.serial)) r.rail->Abandon(r.slice, r.serial, late);
  }
}

void Core::ArmLocked(int64_t at_ms) {
  if (at_ms == INT64_MAX) return;
  next_timer_ms_ = std::min(next_timer_ms_, at_ms);
  if (leader_sleeps_ && at_ms < sleep_until_ms_) WakeLeaderLocked();
}

void Core::WakeLeaderLocked() {
  if (!leader_sleeps_) return;
  leader_sleeps_ = false;
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void Core::FlushSoon() {
  Lock lock(mu_);
  if (std::exchange(flush_soon_, true) || stopping_) return;
  if (!watching_) WakeBackgroundLocked();
  if (leader_ && leading_ == nullptr) WakeLeaderLocked();  // the background thread itself, asleep for longer
}

void Core::FlushAll(Lock& lock) {
  flush_soon_ = false;
  std::vector<std::shared_ptr<Rail>> rails;
  for (const auto& [key, slot] : open_slots_) rails.push_back(slot->rail);
  lock.unlock();
  for (const auto& rail : rails) rail->Flush();
  rails.clear();
  lock.lock();
}

void Core::WakeBackgroundLocked() {
  watching_ = true;
  background_cv_.notify_one();
}

// Drives while something is under way and no thread waits for it. It looks every few milliseconds rather than
// being called by each Submit, because most callers wait at once and drive themselves; a batch with a callback
// does call it. After some idle looks it sleeps until the next Submit.
void Core::Background() {
  Lock lock(mu_);
  int idle_looks = 0;
  uint64_t seen_leads = 0;
  while (!stopping_) {
    RunCallbacks(lock);  // of batches that ended on a thread which does not drive
    if (flush_soon_) FlushAll(lock);
    if (stopping_) break;
    if (active_count_ == 0) {
      if (++idle_looks > kWatchesBeforeRest) {
        watching_ = false;
        background_cv_.wait(lock, [&] { return watching_ || stopping_ || !callbacks_.empty(); });
        watching_ = true;
        idle_looks = 0;
      } else {
        background_cv_.wait_for(lock, milliseconds(kWatchMs));
      }
      continue;
    }
    idle_looks = 0;
    const bool nobody = !leader_ && waiters_.empty();
    const bool asked = async_ > 0 || leads_ == seen_leads || !orphan_work_.empty();
    if (!nobody || !asked) {
      seen_leads = leads_;
      background_cv_.wait_for(lock, milliseconds(kWatchMs));
      continue;
    }
    leader_ = true;
    lock.unlock();
    DriveOnce(clock_is_substitute_ ? kSubstituteClockLookMs : 1000);
    lock.lock();
    leader_ = false;
    seen_leads = leads_;
    if (stopping_) stop_cv_.notify_all();
    HandOverLocked();
    RunCallbacks(lock);
  }
}

void Core::Shutdown() {
  const Error error(ErrorCode::kShutdown, "the engine is shutting down");
  std::vector<std::shared_ptr<Rail>> rails;
  std::vector<Plan::Recall> recalls;
  {
    Lock lock(mu_);
    if (stopping_) return;
    stopping_ = true;
    WakeLeaderLocked();
    background_cv_.notify_all();
    stop_cv_.wait(lock, [&] { return !leader_; });
    leader_ = true;  // for good: nobody else drives from here on
    for (BatchState *batch = active_, *next = nullptr; batch != nullptr; batch = next) {
      next = batch->next;
      ExpireLocked(*batch, error, &recalls);
    }
    for (const auto& [key, slot] : open_slots_) rails.push_back(slot->rail);
  }
  for (const Plan::Recall& r : recalls) {
    if (!r.rail->Withdraw(r.slice, r.serial)) r.rail->Abandon(r.slice, r.serial, error);
  }
  for (const auto& rail : rails) rail->Close(error);
  {
    Lock lock(mu_);
    stop_cv_.wait(lock, [&] { return active_count_ == 0; });  // slices that a waiting thread is copying
    RunCallbacks(lock);
  }
  background_.join();
}

}  // namespace tiercel::transfer
