#include "client/worker_pool.h"

namespace tiercel::client {

WorkerPool::~WorkerPool() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkerPool::Run(std::move_only_function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= kMaxQueued) return false;
    queue_.push_back(std::move(task));
    while (threads_.size() < kThreads) threads_.emplace_back([this] { Work(); });
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::Stop() {
  std::lock_guard lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::move_only_function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace tiercel::client
