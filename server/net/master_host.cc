#include "server/net/master_host.h"

#include <algorithm>
#include <asio/steady_timer.hpp>
#include <chrono>

#include "base/check.h"
#include "base/log.h"
#include "base/loop/loop.h"
#include "server/net/store_watch.h"

namespace tiercel::net {

// Runs in its loop, except Hurry and Stop.
struct MasterHost::Ticker : std::enable_shared_from_this<MasterHost::Ticker> {
  Ticker(MasterHost* owner, Loop* on) : host(owner), loop(on), timer(on->context()) {}

  void Run() {
    hurried.store(false, std::memory_order_relaxed);
    int64_t next_ms;
    Times now;
    std::vector<StoreWatch::Line> lines;
    {
      std::lock_guard guard(stop_mutex);
      if (host == nullptr) return;
      MasterHost::Hold hold(host);
      now = host->Now();
      next_ms = hold.master().Tick(now, kTickSteps);
      if (now.boot_ms >= next_look_ms) {
        lines = watch.Look(hold.master());
        next_look_ms = now.boot_ms + kLookMs;
      }
    }
    for (const StoreWatch::Line& line : lines) LogLine(line.level, line.text);
    const int64_t wait_ms = std::clamp<int64_t>(next_ms - now.boot_ms, 0, kLongestMs);
    if (wait_ms == 0) {
      // Work is left: others get the loop and the lock first.
      loop->Post([self = shared_from_this()] { self->Run(); });
      return;
    }
    timer.expires_after(std::chrono::milliseconds(std::max(wait_ms, kShortestMs)));
    timer.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->Run();
    });
  }
  void Hurry() {
    if (hurried.exchange(true, std::memory_order_relaxed)) return;
    loop->Post([self = shared_from_this()] {
      self->timer.cancel();
      self->Run();
    });
  }
  void Stop() {
    std::lock_guard guard(stop_mutex);
    host = nullptr;
  }

  // What a turn begins (a put with a deadline, a tier above its watermark) is seen at the next tick at the latest.
  static constexpr int64_t kLongestMs = 100;
  static constexpr int64_t kShortestMs = 1;
  static constexpr int64_t kLookMs = 1'000;  // at most one line a store in this time

  std::mutex stop_mutex;  // outside of the core's lock: held by Run over it, and by Stop
  MasterHost* host;
  Loop* const loop;
  asio::steady_timer timer;
  std::atomic<bool> hurried{false};
  StoreWatch watch;
  int64_t next_look_ms = 0;
};

MasterHost::MasterHost(core::Master* master, const Clock* clock) : master_(master), clock_(clock) {}

MasterHost::~MasterHost() { StopTicking(); }

MasterHost::Hold::Hold(MasterHost* host, bool acquire) : host_(host) {
  if (acquire) Acquire();
}

void MasterHost::Hold::Acquire() {
  TIERCEL_CHECK(!held_ && host_ != nullptr);
  host_->mutex_.lock();
  held_ = true;
}

void MasterHost::Hold::Release() {
  if (!held_) return;
  held_ = false;
  const core::Signals signals = host_->master_->TakeSignals();
  uint32_t reasons = 0;
  if (std::exchange(host_->put_ended_, false)) reasons |= WakeBit(WakeReason::kPutEnded);
  host_->mutex_.unlock();
  if (signals.work) reasons |= WakeBit(WakeReason::kWork);
  if (signals.space) reasons |= WakeBit(WakeReason::kSpace);
  host_->Act(signals.journal, reasons);
}

// Without the lock. The usual case is that nothing happened, or nobody waits for it.
void MasterHost::Act(bool journal, uint32_t reasons) {
  if (journal && wake_committer_) wake_committer_();
  for (int i = 0; i < kWakeReasons; ++i) {
    if (parked_[static_cast<size_t>(i)].load(std::memory_order_relaxed) == 0) reasons &= ~(1u << i);
  }
  if (reasons != 0) Notify(reasons);
  if (hurry_.load(std::memory_order_relaxed) && hurry_.exchange(false, std::memory_order_relaxed)) {
    std::shared_ptr<Ticker> ticker;
    {
      std::lock_guard guard(targets_mutex_);
      ticker = ticker_;
    }
    if (ticker) ticker->Hurry();
  }
}

void MasterHost::Notify(uint32_t reasons) {
  std::lock_guard guard(targets_mutex_);
  for (WakeTarget* target : targets_) target->Wake(reasons);
}

void MasterHost::Progressed() {
  core::Signals signals;
  {
    std::lock_guard guard(mutex_);
    signals = master_->TakeSignals();
  }
  uint32_t reasons = WakeBit(WakeReason::kDurable);
  if (signals.work) reasons |= WakeBit(WakeReason::kWork);
  if (signals.space) reasons |= WakeBit(WakeReason::kSpace);
  Act(signals.journal, reasons);
}

void MasterHost::StartTicking(Loop* loop) {
  auto ticker = std::make_shared<Ticker>(this, loop);
  {
    std::lock_guard guard(targets_mutex_);
    TIERCEL_CHECK(ticker_ == nullptr);
    ticker_ = ticker;
  }
  loop->Post([ticker] { ticker->Run(); });
}

void MasterHost::StopTicking() {
  std::shared_ptr<Ticker> ticker;
  {
    std::lock_guard guard(targets_mutex_);
    ticker = std::exchange(ticker_, nullptr);
  }
  if (ticker) ticker->Stop();
}

void MasterHost::AddTarget(WakeTarget* target) {
  std::lock_guard guard(targets_mutex_);
  targets_.push_back(target);
}

void MasterHost::RemoveTarget(WakeTarget* target) {
  std::lock_guard guard(targets_mutex_);
  std::erase(targets_, target);
}

void MasterHost::ServerPutStarted(Version put) { server_puts_.push_back(put); }

void MasterHost::ServerPutEnded(Version put) {
  const auto at = std::find(server_puts_.begin(), server_puts_.end(), put);
  TIERCEL_CHECK(at != server_puts_.end());
  *at = server_puts_.back();
  server_puts_.pop_back();
  put_ended_ = true;
}

bool MasterHost::IsServerPut(Version put) const {
  return std::find(server_puts_.begin(), server_puts_.end(), put) != server_puts_.end();
}

}  // namespace tiercel::net
