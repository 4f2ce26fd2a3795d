// Stores that are only memory: a PayloadPort over memfds, some of this process, some reached "remotely" by a thread.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "server/core/payload_port.h"

namespace tiercel::net::test {

class FakePayload final : public core::PayloadPort {
 public:
  FakePayload() : thread_([this] { Work(); }) {}
  ~FakePayload() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  // Before the server starts.
  core::LocalSegment* AddSegment(Incarnation store, SegmentRef place, uint64_t size, bool local) {
    auto segment = std::make_unique<Segment>();
    segment->store = store;
    segment->place = place;
    segment->local = local;
    segment->memory.size = size;
    segment->memory.memory = ::memfd_create("segment", MFD_CLOEXEC);
    TIERCEL_CHECK(segment->memory.memory >= 0 && ::ftruncate(segment->memory.memory, static_cast<off_t>(size)) == 0);
    void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, segment->memory.memory, 0);
    TIERCEL_CHECK(base != MAP_FAILED);
    segment->memory.base = static_cast<std::byte*>(base);
    segments_.push_back(std::move(segment));
    return &segments_.back()->memory;
  }

  const core::LocalSegment* FindLocal(Incarnation store, SegmentRef place) const override {
    for (const auto& segment : segments_) {
      if (segment->local && segment->store == store && segment->place == place) return &segment->memory;
    }
    return nullptr;
  }

  Result<LocalWrite> BeginLocalWrite(SegmentRef place, Version put, const ExtentList& extents) override {
    if (refuse_writes_.load() > 0) {
      refuse_writes_.fetch_sub(1);
      return Error(ErrorCode::kInUse, "a view holds the range");
    }
    writes_now_.fetch_add(1);
    return LocalWrite(this, place, put, extents);
  }
  void EndLocalWrite(SegmentRef, Version, const ExtentList&) override { writes_now_.fetch_sub(1); }

  std::unique_ptr<Transfer> Read(const core::RemotePlace& place, uint64_t offset, std::span<std::byte> memory, int64_t,
                                 Done done) override {
    return Enqueue({place, offset, memory, false, std::move(done)});
  }
  std::unique_ptr<Transfer> Write(const core::RemotePlace& place, uint64_t offset, std::span<const std::byte> memory,
                                  int64_t, Done done) override {
    return Enqueue({place, offset, {const_cast<std::byte*>(memory.data()), memory.size()}, true, std::move(done)});
  }

  // The next so many writes into local segments are refused with INUSE.
  void RefuseWrites(int n) { refuse_writes_ = n; }
  int writes_now() const { return writes_now_; }
  // Transfers fail with this from now on (nullopt: no longer).
  void FailTransfers(std::optional<ErrorCode> code) {
    std::lock_guard lock(mutex_);
    fail_ = code;
  }
  // Transfers wait until let go.
  void HoldTransfers(bool hold) {
    {
      std::lock_guard lock(mutex_);
      hold_ = hold;
    }
    wake_.notify_all();
  }
  size_t largest_transfer() const { return largest_; }
  uint64_t transfers() const { return transfers_; }

 private:
  struct Segment {
    Incarnation store;
    SegmentRef place;
    bool local = true;
    core::LocalSegment memory;
    ~Segment() {
      ::munmap(memory.base, memory.size);
      ::close(memory.memory);
    }
  };
  struct Job {
    core::RemotePlace place;
    uint64_t offset = 0;
    std::span<std::byte> memory;
    bool write = false;
    Done done;
    uint64_t id = 0;
  };
  class Handle final : public Transfer {
   public:
    Handle(FakePayload* owner, uint64_t id) : owner_(owner), id_(id) {}
    ~Handle() override { owner_->Cancel(id_); }

   private:
    FakePayload* const owner_;
    const uint64_t id_;
  };

  std::unique_ptr<Transfer> Enqueue(Job job) {
    std::lock_guard lock(mutex_);
    job.id = next_id_++;
    ++transfers_;
    if (job.memory.size() > largest_) largest_ = job.memory.size();
    jobs_.push_back(std::move(job));
    wake_.notify_all();
    return std::make_unique<Handle>(this, jobs_.back().id);
  }
  void Cancel(uint64_t id) {
    Done done;
    {
      std::unique_lock lock(mutex_);
      for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
        if (it->id != id) continue;
        done = std::move(it->done);
        jobs_.erase(it);
        break;
      }
      wake_.wait(lock, [&] { return running_ != id; });
    }
    if (done) done(Error(ErrorCode::kCancelled, "cancelled"));
  }
  Status Move(const Job& job) {
    for (const auto& segment : segments_) {
      if (segment->store != job.place.store.incarnation || segment->place != job.place.grant.place) continue;
      uint64_t skip = job.offset;
      std::byte* at = job.memory.data();
      uint64_t left = job.memory.size();
      for (const Extent& extent : job.place.grant.extents) {
        if (skip >= extent.length) {
          skip -= extent.length;
          continue;
        }
        const uint64_t n = std::min(left, extent.length - skip);
        std::byte* place = segment->memory.base + extent.offset + skip;
        std::memcpy(job.write ? place : at, job.write ? at : place, n);
        at += n, left -= n, skip = 0;
        if (left == 0) return Ok();
      }
      return Error(ErrorCode::kOutOfRange, "beyond the extents");
    }
    return Error(ErrorCode::kUnknownSegment, "no such segment");
  }
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || (!hold_ && !jobs_.empty()); });
      if (stop_) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      running_ = job.id;
      const std::optional<ErrorCode> fail = fail_;
      lock.unlock();
      Status status = fail ? Status(Error(*fail, "as the test wants it")) : Move(job);
      job.done(std::move(status));
      lock.lock();
      running_ = 0;
      wake_.notify_all();
    }
  }

  std::vector<std::unique_ptr<Segment>> segments_;
  std::atomic<int> refuse_writes_{0}, writes_now_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::atomic<size_t> largest_{0};
  std::atomic<uint64_t> transfers_{0};
  uint64_t next_id_ = 1, running_ = 0;
  std::optional<ErrorCode> fail_;
  bool hold_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace tiercel::net::test
