// The threads behind the future-returning calls: kThreads, started when the first task comes, and a queue of at
// most kMaxQueued tasks. A task that does not get in is refused, never kept waiting.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tiercel::client {

class WorkerPool {
 public:
  static constexpr size_t kThreads = 4;
  static constexpr size_t kMaxQueued = 4096;

  ~WorkerPool();  // runs what is queued, then joins

  // False when the queue is full or the pool has stopped. Thread-safe.
  bool Run(std::move_only_function<void()> task);
  // Takes no more; what is queued still runs (and fails by itself, since the client is closed by then).
  void Stop();

 private:
  void Work();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::deque<std::move_only_function<void()>> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace tiercel::client
