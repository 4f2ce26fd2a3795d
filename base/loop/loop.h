// Loop: one thread that runs one Asio io_context. The only executor of the project.
//
// State that "belongs to a loop" is touched only from functions that run in it, which assert InLoop().
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"

namespace tiercel {

class Loop {
 public:
  explicit Loop(std::string name);  // the thread's name, at most 15 characters
  ~Loop();                          // stops and joins
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void Start();
  // Stops taking events and joins. Handlers not yet run are destroyed with the loop. Idempotent; not from within.
  void Stop();
  bool InLoop() const { return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed); }

  asio::io_context& context() { return context_; }
  template <typename F>
  void Post(F&& f) {
    asio::post(context_, std::forward<F>(f));
  }

 private:
  const std::string name_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  // Written by the loop's own thread, so that a handler that runs before Start has returned can ask as well.
  std::atomic<std::thread::id> thread_id_{};
  std::thread thread_;
};

}  // namespace tiercel
