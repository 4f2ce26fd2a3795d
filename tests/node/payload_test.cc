// Payload over an engine that the test plays.
#include "server/node/payload.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/node/store_fixture.h"

namespace tiercel::node {
namespace {

using transfer::Operation;
using transfer::OpResult;

// Batches end when the test says so.
class FakeEngine final : public transfer::Engine {
 public:
  struct State {
    std::mutex mu;
    std::condition_variable changed;
    std::vector<OpResult> results;
    std::function<void()> callback;
    bool terminal = false, cancelled = false;
  };
  class FakeBatch final : public transfer::Batch {
   public:
    explicit FakeBatch(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~FakeBatch() override {
      Cancel();
      std::unique_lock lock(state_->mu);
      state_->changed.wait(lock, [this] { return state_->terminal; });
    }
    bool terminal() const override { return state_->terminal; }
    Status Wait(int64_t) override { return Ok(); }
    void Cancel() override {
      std::lock_guard lock(state_->mu);
      state_->cancelled = true;
      state_->changed.notify_all();
    }
    size_t size() const override { return state_->results.size(); }
    OpResult result(size_t i) const override { return state_->results[i]; }
    bool all_ok() const override { return false; }
    void OnTerminal(std::function<void()> callback) override {
      {
        std::lock_guard lock(state_->mu);
        if (!state_->terminal) {
          state_->callback = std::move(callback);
          return;
        }
      }
      callback();
    }

   private:
    const std::shared_ptr<State> state_;
  };
  static void End(const std::shared_ptr<State>& state, OpResult::State end, ErrorCode code = ErrorCode::kInternal) {
    std::function<void()> callback;
    {
      std::lock_guard lock(state->mu);
      for (OpResult& result : state->results) result.state = end, result.code = code, result.message = "as told";
      state->terminal = true;
      callback = std::exchange(state->callback, nullptr);
      state->changed.notify_all();
    }
    if (callback) callback();
  }

  Result<std::unique_ptr<transfer::Registration>> Register(std::span<const std::span<std::byte>>) override {
    return Error(ErrorCode::kInvalid, "not here");
  }
  Result<std::span<std::byte>> AllocateRegistered(size_t) override { return Error(ErrorCode::kInvalid, "not here"); }
  void FreeRegistered(std::span<std::byte>) override {}
  transfer::PeerHandle AddPeer(const transfer::PeerAddress& address) override {
    peers.push_back(address);
    return {peers.size()};
  }
  Status Connect(transfer::PeerHandle, int64_t) override { return Ok(); }
  Result<std::unique_ptr<transfer::Batch>> Submit(std::vector<Operation> ops,
                                                  const transfer::SubmitOptions& options) override {
    if (refuse) return *refuse;
    operations = std::move(ops);
    timeout_ms = options.timeout_ms;
    batches.push_back(std::make_shared<State>());
    batches.back()->results.resize(operations.size());
    if (end_at_once) End(batches.back(), OpResult::State::kOk);
    return std::unique_ptr<transfer::Batch>(new FakeBatch(batches.back()));
  }
  Result<std::unique_ptr<View>> MapView(transfer::PeerHandle, SegmentRef, Extent, std::shared_ptr<const Grant>,
                                        int64_t) override {
    return Error(ErrorCode::kInvalid, "not here");
  }
  std::vector<transfer::TransportFigures> Figures() const override { return {}; }

  std::vector<transfer::PeerAddress> peers;
  std::vector<Operation> operations;
  std::vector<std::shared_ptr<State>> batches;
  int64_t timeout_ms = 0;
  bool end_at_once = false;
  std::optional<Error> refuse;
};

class PayloadTest : public StoreFixture {
 protected:
  PayloadTest() : port_(Options(2)) {
    place_remote_.store.name = "s2";
    place_remote_.store.incarnation = Incarnation{77};
    place_remote_.store.host = "h1";
    place_remote_.store.data_address = "10.0.0.2:7380";
    place_remote_.store.data_socket = "/run/s2";
    ExtentList extents;
    extents.push_back({4096, 100});
    extents.push_back({64, 50});
    extents.push_back({8192, 10});
    place_remote_.grant = MakeGrant(Right::kRead, Version{5}, {1, 1}, extents, 1'000'000);
  }
  PayloadOptions Options(uint32_t max_transfers) {
    return {.local = target_.get(),
            .host = "h1",
            .make_engine =
                [this](transfer::Engine::TicketSource) {
                  auto engine = std::make_unique<FakeEngine>();
                  engine_ = engine.get();
                  ++engines_made_;
                  return Result<std::unique_ptr<transfer::Engine>>(std::move(engine));
                },
            .tickets = nullptr,
            .max_transfers = max_transfers};
  }
  core::PayloadPort::Done Note() {
    return [this](Status status) {
      ++called_;
      code_ = status.ok() ? ErrorCode::kInternal : status.error().code();
    };
  }
  std::unique_ptr<core::PayloadPort::Transfer> Read(uint64_t offset, size_t bytes) {
    return port_.Read(place_remote_, offset, std::span(memory_).first(bytes), 1234, Note());
  }

  FakeEngine* engine_ = nullptr;
  int engines_made_ = 0;
  Payload port_;
  core::RemotePlace place_remote_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  std::atomic<int> called_{0};
  ErrorCode code_ = ErrorCode::kInternal;
};

TEST_F(PayloadTest, FindsOnlyItsOwnSegments) {
  const core::LocalSegment* found = port_.FindLocal(kTestStore, {2, 41});
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->base, segment_->base());
  EXPECT_EQ(found->size, kSegmentBytes);
  EXPECT_EQ(found->memory, segment_->file());
  EXPECT_EQ(port_.FindLocal(Incarnation{1}, {2, 41}), nullptr);
  EXPECT_EQ(port_.FindLocal(kTestStore, {2, 40}), nullptr);
  EXPECT_EQ(port_.FindLocal(kTestStore, {3, 41}), nullptr);
  EXPECT_EQ(port_.FindLocal(kTestStore, {UINT32_MAX, 41}), nullptr);
}

TEST_F(PayloadTest, AnOwnWriteLastsAsLongAsItsHandle) {
  {
    auto write = port_.BeginLocalWrite({2, 41}, Version{9}, ExtentList(Extent{0, 64}));
    ASSERT_TRUE(write.ok());
    core::PayloadPort::LocalWrite moved = std::move(write).value();
    EXPECT_EQ(target_->Figures().uses_now, 1u);
    Close(9);
    EXPECT_TRUE(TakeClosed().empty());
    moved.End();
    EXPECT_EQ(TakeClosed().size(), 1u);
  }
  EXPECT_EQ(target_->Figures().uses_now, 0u);
}

TEST_F(PayloadTest, CutsAtExtents) {
  auto transfer = Read(90, 65);
  ASSERT_EQ(engine_->operations.size(), 3u);
  EXPECT_EQ(engine_->operations[0].offset, 4096u + 90);
  EXPECT_EQ(engine_->operations[0].memory.size(), 10u);
  EXPECT_EQ(engine_->operations[1].offset, 64u);
  EXPECT_EQ(engine_->operations[1].memory.size(), 50u);
  EXPECT_EQ(engine_->operations[1].memory.data(), memory_.data() + 10);
  EXPECT_EQ(engine_->operations[2].offset, 8192u);
  EXPECT_EQ(engine_->operations[2].memory.size(), 5u);
  EXPECT_EQ(engine_->operations[2].place, (SegmentRef{1, 1}));
  EXPECT_FALSE(engine_->operations[0].registered);
  EXPECT_EQ(engine_->timeout_ms, 1234);
  FakeEngine::End(engine_->batches[0], OpResult::State::kOk);
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(code_, ErrorCode::kInternal);
  transfer.reset();
  EXPECT_EQ(called_, 1);
}

TEST_F(PayloadTest, EveryRangeAgainstBytes) {
  const auto grant = std::make_shared<const Grant>(place_remote_.grant);
  std::vector<uint64_t> layout;  // segment offset of each object byte
  for (const Extent& e : grant->extents) {
    for (uint64_t i = 0; i < e.length; ++i) layout.push_back(e.offset + i);
  }
  for (uint64_t offset = 0; offset <= layout.size() + 1; ++offset) {
    for (uint64_t length : {uint64_t{1}, uint64_t{10}, uint64_t{51}, uint64_t{160}}) {
      auto ops = CutAtExtents(transfer::OpKind::kRead, {1}, grant, offset, std::span(memory_).first(length));
      ASSERT_EQ(ops.ok(), offset + length <= layout.size()) << offset << "+" << length;
      if (!ops.ok()) continue;
      uint64_t at = offset;
      const std::byte* memory = memory_.data();
      for (const Operation& op : *ops) {
        ASSERT_EQ(op.memory.data(), memory);
        for (uint64_t i = 0; i < op.memory.size(); ++i) ASSERT_EQ(op.offset + i, layout[at++]);
        memory += op.memory.size();
      }
      ASSERT_EQ(at, offset + length);
    }
  }
}

TEST_F(PayloadTest, WhatCannotStartIsToldAtOnce) {
  auto past = Read(155, 10);
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(code_, ErrorCode::kOutOfRange);
  auto nothing = Read(0, 0);
  EXPECT_EQ(code_, ErrorCode::kInvalid);
  engine_->refuse = Error(ErrorCode::kAdmissionTimeout, "full");
  auto refused = Read(0, 10);
  EXPECT_EQ(called_, 3);
  EXPECT_EQ(code_, ErrorCode::kAdmissionTimeout);
  EXPECT_EQ(port_.Figures().transfers_now, 0u);
}

TEST_F(PayloadTest, TransfersAreBounded) {
  auto first = Read(0, 10);
  auto second = Read(0, 10);
  auto third = Read(0, 10);
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(code_, ErrorCode::kRetry);
  EXPECT_EQ(port_.Figures().transfers_refused, 1u);
  FakeEngine::End(engine_->batches[0], OpResult::State::kFailed, ErrorCode::kUnreachable);
  EXPECT_EQ(called_, 2);
  EXPECT_EQ(code_, ErrorCode::kUnreachable);
  auto fourth = Read(0, 10);
  EXPECT_EQ(called_, 2);
  for (auto& batch : engine_->batches) {
    if (!batch->terminal) FakeEngine::End(batch, OpResult::State::kCancelled);
  }
  EXPECT_EQ(called_, 4);
  EXPECT_EQ(code_, ErrorCode::kCancelled);
  EXPECT_EQ(port_.Figures().transfers_now, 0u);
}

TEST_F(PayloadTest, ATransferThatEndsBeforeItIsFollowed) {
  auto warm = Read(0, 1);
  FakeEngine::End(engine_->batches[0], OpResult::State::kOk);
  engine_->end_at_once = true;
  auto transfer = Read(0, 10);
  EXPECT_EQ(called_, 2);
}

TEST_F(PayloadTest, LettingGoWaitsUntilTheMemoryIsFree) {
  for (int round = 0; round < 200; ++round) {
    called_ = 0;
    auto transfer = Read(0, 10);
    const auto batch = engine_->batches.back();
    std::atomic<bool> touching{true};
    std::thread wire([&] {
      if (round % 2 == 0) {
        std::unique_lock lock(batch->mu);
        batch->changed.wait(lock, [&] { return batch->cancelled; });
      }
      touching = false;
      FakeEngine::End(batch, OpResult::State::kCancelled);
    });
    transfer.reset();
    EXPECT_FALSE(touching.load());
    EXPECT_EQ(called_, 1);  // told by one of the two, and by now
    wire.join();
    EXPECT_EQ(called_, 1);
  }
  EXPECT_EQ(port_.Figures().transfers_now, 0u);
}

TEST_F(PayloadTest, LettingGoFromWithinTheCallback) {
  std::unique_ptr<core::PayloadPort::Transfer> transfer;
  transfer = port_.Read(place_remote_, 0, std::span(memory_).first(10), 1000, [&](Status) {
    transfer.reset();
    ++called_;
  });
  FakeEngine::End(engine_->batches[0], OpResult::State::kOk);
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(transfer, nullptr);
}

TEST_F(PayloadTest, PeersAreKnownByIncarnationAndAddress) {
  const auto run = [&] {
    auto transfer = Read(0, 10);
    FakeEngine::End(engine_->batches.back(), OpResult::State::kOk);
  };
  run();
  run();
  EXPECT_EQ(engines_made_, 1);
  ASSERT_EQ(engine_->peers.size(), 1u);
  EXPECT_EQ(engine_->peers[0].data_socket, "/run/s2");
  place_remote_.store.data_address = "10.0.0.3:7380";
  run();
  EXPECT_EQ(engine_->peers.size(), 2u);
  place_remote_.store.incarnation = Incarnation{78};
  place_remote_.store.host = "h2";  // its socket is a path on another machine
  run();
  ASSERT_EQ(engine_->peers.size(), 3u);
  EXPECT_EQ(engine_->peers[2].data_socket, "");
}

TEST_F(PayloadTest, WithoutAStoreOrAnEngine) {
  Payload bare({.local = nullptr, .host = "h", .make_engine = nullptr, .tickets = nullptr});
  EXPECT_EQ(bare.FindLocal(kTestStore, {2, 41}), nullptr);
  EXPECT_FALSE(bare.BeginLocalWrite({2, 41}, Version{9}, ExtentList(Extent{0, 64})).ok());
  auto transfer = bare.Read(place_remote_, 0, std::span(memory_).first(10), 1000, Note());
  EXPECT_EQ(called_, 1);
  EXPECT_EQ(code_, ErrorCode::kNoDevice);
}

}  // namespace
}  // namespace tiercel::node
