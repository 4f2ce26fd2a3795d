#include "base/loop/loop.h"

#include <pthread.h>

namespace tiercel {

Loop::Loop(std::string name) : name_(std::move(name)), guard_(asio::make_work_guard(context_)) {}

Loop::~Loop() { Stop(); }

void Loop::Start() {
  TIERCEL_CHECK(!thread_.joinable() && !context_.stopped(), "a loop starts once");
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    context_.run();
    thread_id_.store({}, std::memory_order_relaxed);
  });
}

void Loop::Stop() {
  TIERCEL_CHECK(!InLoop(), "a loop cannot join itself");
  context_.stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tiercel
