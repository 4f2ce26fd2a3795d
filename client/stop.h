// Tells calls under way that the client was closed. Sleeps that a close must end go through it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tiercel::client {

class StopSignal {
 public:
  bool stopped() const { return stopped_.load(std::memory_order_acquire); }

  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_release);
    wake_.notify_all();
  }

  // False when stopped, else true after the time.
  bool Sleep(int64_t ms) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopped(); });
  }

 private:
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace tiercel::client
