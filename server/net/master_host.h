// MasterHost: the shell around the core: its one lock, its clock, its timer, and who is woken by what it signals.
//
// The core is plain logic; everything that touches it does so inside a Hold. A Hold ends by taking the core's
// signals under the lock and acting on them after unlocking: the committer is woken for records, loops with
// parked sessions for work, space or ended puts. No other lock is taken while a Hold is alive, and it is never
// kept over a system call; turns keep it below about 1 ms (long commands call Yield every 256 keys).
//
// Threads: everything here is thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "server/core/master.h"

namespace tiercel {
class Loop;
}

namespace tiercel::net {

// What a parked session waits for.
enum class WakeReason : uint8_t {
  kWork,      // a store has work
  kSpace,     // bytes became free
  kPutEnded,  // a put carried out by the server itself has ended: its key is free
  kDurable,   // the journal's durable position moved, or commands were undone
};
inline constexpr int kWakeReasons = 4;
constexpr uint32_t WakeBit(WakeReason reason) { return 1u << static_cast<int>(reason); }

// A loop that has parked sessions. Wake may come from any thread, never under the core's lock; repeated wakes
// before the loop has run are one.
class WakeTarget {
 public:
  virtual ~WakeTarget() = default;
  virtual void Wake(uint32_t reasons) = 0;
};

class MasterHost {
 public:
  // Neither is owned; both must outlive the host.
  MasterHost(core::Master* master, const Clock* clock);
  ~MasterHost();
  MasterHost(const MasterHost&) = delete;
  MasterHost& operator=(const MasterHost&) = delete;

  // The core's lock, held from construction (or Acquire) to Release or destruction.
  class Hold {
   public:
    explicit Hold(MasterHost* host, bool acquire = true);
    ~Hold() {
      if (held_) Release();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    void Acquire();
    void Release();  // takes signals, unlocks, wakes
    // Lets others in; the caller's references into the core's state are void afterwards.
    void Yield() {
      Release();
      Acquire();
    }
    bool held() const { return held_; }
    core::Master& master() const {
      TIERCEL_CHECK(held_, "the core is touched under its lock only");
      return *host_->master_;
    }

   private:
    MasterHost* const host_;
    bool held_ = false;
  };

  // For callers outside of sessions (metrics, main): f(master, now) under the lock.
  template <typename F>
  auto With(F&& f) {
    Hold hold(this);
    return std::forward<F>(f)(*master_, clock_->Now());
  }

  Times Now() const { return clock_->Now(); }
  const Clock& clock() const { return *clock_; }
  // For the committer, which locks by itself (and calls Progressed when it has unlocked).
  std::mutex& lock() { return mutex_; }
  core::Master* master_unlocked() { return master_; }

  // Called without the lock whenever there are records to commit; must only wake. Set before the first Hold.
  void SetCommitterWake(std::function<void()> wake) { wake_committer_ = std::move(wake); }
  // The committer's `progressed`: durable() moved, or commands were undone.
  void Progressed();

  // Housekeeping: runs the core's Tick from a timer on this loop, at most kTickSteps a hold, whenever the core
  // asked to be called and at least ten times a second; sooner after HurryTick.
  void StartTicking(Loop* loop);
  void StopTicking();
  void HurryTick() { hurry_.store(true, std::memory_order_relaxed); }  // with the end of the hold: space is waited for

  // Loops register once, before sessions exist, and stay until the host is destroyed or removed.
  void AddTarget(WakeTarget* target);
  void RemoveTarget(WakeTarget* target);
  // Called under the lock by who is about to park, so that no signal is missed; Unpark when it runs again.
  void Park(WakeReason reason) {
    parked_[static_cast<int>(reason)].fetch_add(1, std::memory_order_relaxed);
    parked_[static_cast<int>(reason)].notify_all();
  }
  void Unpark(WakeReason reason) {
    parked_[static_cast<int>(reason)].fetch_sub(1, std::memory_order_relaxed);
    parked_[static_cast<int>(reason)].notify_all();
  }
  // Blocks until so many are parked for it: for tests of what happens then.
  void AwaitParked(WakeReason reason, int count) const {
    const std::atomic<int>& parked = parked_[static_cast<int>(reason)];
    for (int now = parked.load(); now != count; now = parked.load()) parked.wait(now);
  }
  int parked(WakeReason reason) const { return parked_[static_cast<int>(reason)].load(std::memory_order_relaxed); }

  // Puts that the server carries out itself for SET and its like over a longer time, by version; touched under
  // the lock. A command that finds its key busy with one of these waits for its end instead of failing.
  void ServerPutStarted(Version put);
  void ServerPutEnded(Version put);
  bool IsServerPut(Version put) const;

 private:
  struct Ticker;
  void Act(bool journal, uint32_t reasons);
  void Notify(uint32_t reasons);

  static constexpr uint32_t kTickSteps = 512;  // a few hundred microseconds of the lock at most

  core::Master* const master_;
  const Clock* const clock_;
  std::mutex mutex_;
  std::function<void()> wake_committer_;
  std::array<std::atomic<int>, kWakeReasons> parked_{};
  std::atomic<bool> hurry_{false};
  bool put_ended_ = false;            // under mutex_: a server put ended in this hold
  std::vector<Version> server_puts_;  // under mutex_; as many as connections that receive a large value
  std::mutex targets_mutex_;          // leaf; never taken under mutex_
  std::vector<WakeTarget*> targets_;
  std::shared_ptr<Ticker> ticker_;  // under targets_mutex_
};

}  // namespace tiercel::net
