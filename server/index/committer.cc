#include "server/index/committer.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/log.h"

namespace tiercel::index {
namespace {

// Of one batch. A command is never split, so one larger than this goes alone.
constexpr size_t kBatchRecords = 8192;
constexpr size_t kBatchBytes = size_t{4} << 20;

}  // namespace

// Group commit without a timer: what arrives while one batch is written forms the next one.
struct Committer::Impl {
  core::Index* const index;
  core::Master* const master;
  std::mutex* const lock;  // the core's
  const Clock* const clock;
  const std::function<void()> progressed;
  const std::chrono::milliseconds resume_every;

  // Leaf lock of the wake-up alone; never held together with the core's lock by this thread.
  std::mutex wake_lock{};
  std::condition_variable wake{};
  bool wanted = false;
  bool stopping = false;
  std::thread thread{};

  void Run() {
    pthread_setname_np(pthread_self(), "committer");
    while (WaitForWork()) {
      while (CommitOne()) {
      }
    }
    while (CommitOne()) {
    }
  }

  // False: stop.
  bool WaitForWork() {
    std::unique_lock hold(wake_lock);
    wake.wait(hold, [this] { return wanted || stopping; });
    wanted = false;
    return !stopping;
  }

  // False when nothing is left to do, or nothing can be done any more.
  bool CommitOne() {
    std::vector<core::Record> batch;
    {
      const std::lock_guard hold(*lock);
      batch = master->TakeJournal(kBatchRecords, kBatchBytes);
    }
    if (batch.empty()) return false;
    const Status written = index->Write(batch);
    {
      const std::lock_guard hold(*lock);
      if (written.ok()) {
        master->Durable(batch.back().seq, clock->Now());
      } else {
        master->JournalFailed(clock->Now());
      }
    }
    progressed();
    if (written.ok()) return true;
    Log(LogLevel::kWarning, "the index cannot be written and is read-only until it can: {}", written.error().message());
    return BecomeWritable();
  }

  // Tries until it works; false when stopped before that.
  bool BecomeWritable() {
    while (!index->Resume().ok()) {
      std::unique_lock hold(wake_lock);
      if (wake.wait_for(hold, resume_every, [this] { return stopping; })) return false;
    }
    {
      const std::lock_guard hold(*lock);
      master->JournalResumed(clock->Now());
    }
    Log(LogLevel::kNotice, "the index can be written again");
    progressed();
    return true;
  }
};

Committer::Committer(core::Index* index, core::Master* master, std::mutex* lock, const Clock* clock,
                     std::function<void()> progressed, int64_t resume_every_ms)
    : impl_(new Impl{.index = index,
                     .master = master,
                     .lock = lock,
                     .clock = clock,
                     .progressed = std::move(progressed),
                     .resume_every = std::chrono::milliseconds(resume_every_ms)}) {
  TIERCEL_CHECK(resume_every_ms > 0);
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

Committer::~Committer() {
  {
    const std::lock_guard hold(impl_->wake_lock);
    impl_->stopping = true;
  }
  impl_->wake.notify_one();
  impl_->thread.join();
}

void Committer::Wake() {
  {
    const std::lock_guard hold(impl_->wake_lock);
    if (impl_->wanted) return;
    impl_->wanted = true;
  }
  impl_->wake.notify_one();
}

}  // namespace tiercel::index
