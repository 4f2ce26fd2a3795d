// An index that a test holds up and breaks: Write blocks while held, fails while broken.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <span>
#include <vector>

#include "server/core/record.h"

namespace tiercel::test {

class HeldIndex final : public core::Index {
 public:
  // With the core's lock, when nobody else takes it: writes are checked to happen without it.
  explicit HeldIndex(std::mutex* core_lock = nullptr) : core_lock_(core_lock) {}

  bool keeps_records() const override { return true; }
  Status Write(std::span<const core::Record> batch) override {
    if (core_lock_ != nullptr) {
      // Nobody is kept from the core while the disk is busy.
      EXPECT_TRUE(core_lock_->try_lock());
      core_lock_->unlock();
    }
    std::unique_lock hold(mutex_);
    writing_ = true;
    changed_.notify_all();
    changed_.wait(hold, [&] { return !held_; });
    writing_ = false;
    if (broken_) return Error(ErrorCode::kIo, "no space left on device");
    batches_.emplace_back(batch.begin(), batch.end());
    return Ok();
  }
  Status Resume() override {
    const std::lock_guard hold(mutex_);
    ++resumes_;
    changed_.notify_all();
    if (broken_) return Error(ErrorCode::kIo, "no space left on device");
    return Ok();
  }

  void Hold(bool held) {
    Change([&] { held_ = held; });
  }
  void Break(bool broken) {
    Change([&] { broken_ = broken; });
  }
  // What is being held fails.
  void BreakAndLetGo() {
    Change([&] { broken_ = true, held_ = false; });
  }
  void AwaitWriting() {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return writing_; });
  }
  void AwaitResumes(int count) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return resumes_ >= count; });
  }
  std::vector<std::vector<core::Record>> batches() const {
    const std::lock_guard hold(mutex_);
    return batches_;
  }

 private:
  template <typename F>
  void Change(F change) {
    const std::lock_guard hold(mutex_);
    change();
    changed_.notify_all();
  }

  std::mutex* const core_lock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false, writing_ = false, broken_ = false;
  int resumes_ = 0;
  std::vector<std::vector<core::Record>> batches_;
};

}  // namespace tiercel::test
