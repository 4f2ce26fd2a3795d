// Going elsewhere when a path fails: what is switched, how often, and what is told of it.
#include <sys/socket.h>

#include <array>

#include "tests/transfer/fixture.h"
#include "transfer/rail_health.h"

namespace tiercel::transfer {
namespace {

using State = OpResult::State;
using faulty::Script;

// First a faulty wire (in the place of one that breaks), then TCP.
class Failover : public testing::Test {
 protected:
  Failover() : store_(clock_), script_(std::make_shared<Script>()), second_script_(std::make_shared<Script>()) {
    segment_ = store_.target.AddSegment(kPlace, 64 << 20);
    options_ = TestOptions();
    options_.clock = &clock_;
    options_.preference = {TransportKind::kFaulty, TransportKind::kTcp};
  }
  void TearDown() override {
    engine_.reset();
    EXPECT_TRUE(Eventually([&] { return store_.target.live() == 0; }));
  }
  void Build(bool with_second = true) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(faulty::MakeTransport(tcp::MakeTransport(), script_));
    if (with_second) {
      transports.push_back(faulty::MakeTransport(tcp::MakeTransport(), second_script_, TransportKind::kTcp));
    }
    auto engine =
        Engine::Create(options_, std::move(transports), [this] { return Result<Ticket>(store_.target.MakeTicket()); });
    ASSERT_TRUE(engine.ok());
    engine_ = std::move(engine).value();
    peer_ = engine_->AddPeer(store_.address(TransportKind::kTcp));
  }
  Operation Op(OpKind kind, uint64_t offset, std::span<std::byte> memory) {
    const Right right = kind == OpKind::kRead ? Right::kRead : Right::kWrite;
    return {.kind = kind,
            .peer = peer_,
            .place = kPlace,
            .offset = offset,
            .memory = memory,
            .grant = store_.target.MakeGrant(right, kPlace, {0, UINT64_MAX}),
            .registered = false};
  }
  OpResult Run(const Operation& op, const SubmitOptions& options = {}) { return RunOne(*engine_, op, options); }
  TransportFigures Figures(TransportKind kind) {
    for (const TransportFigures& f : engine_->Figures()) {
      if (f.kind == kind) return f;
    }
    return {};
  }

  static constexpr SegmentRef kPlace{1, 1};
  ManualClock clock_;
  Store store_;
  std::shared_ptr<Script> script_, second_script_;
  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  PeerHandle peer_;
  std::span<std::byte> segment_;
};

const Error kBroken(ErrorCode::kUnreachable, "scripted failure");

TEST_F(Failover, T03_TwoThreadsOneRange) {
  Build(false);
  std::vector<std::byte> memory(4096);
  const std::array<std::span<std::byte>, 1> range = {std::span(memory)};
  script_->HoldRegistrations(true);
  Result<std::unique_ptr<Registration>> first(kBroken);
  std::thread thread([&] { first = engine_->Register(range); });
  script_->WaitForHeldRegistration();
  auto second = engine_->Register(range);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kOverlap);
  EXPECT_EQ(script_->registrations(), 1U);
  script_->HoldRegistrations(false);
  thread.join();
  EXPECT_TRUE(first.ok());
}

TEST_F(Failover, T04_AllTransportsOrNone) {
  Build();
  std::vector<std::byte> a(4096), b(4096);
  const std::array<std::span<std::byte>, 2> both = {std::span(a), std::span(b)};
  second_script_->OnRegister(
      [](uint64_t) { return std::optional<Error>(Error(ErrorCode::kNoMemory, "out of memory")); });
  auto refused = engine_->Register(both);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNoMemory);
  EXPECT_NE(refused.error().message().find("tcp"), std::string::npos) << refused.error().message();
  EXPECT_EQ(script_->regions(), 0U);
  EXPECT_EQ(second_script_->regions(), 0U);
  second_script_->OnRegister(nullptr);
  auto good = engine_->Register(both);
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(script_->regions(), 2U);
  EXPECT_EQ(second_script_->regions(), 2U);
  good->reset();
  EXPECT_EQ(script_->regions(), 0U);
}

TEST_F(Failover, T08_TheOnlyDeviceIsGone) {
  script_->OnOpen([](uint64_t) { return std::optional<Error>(Error(ErrorCode::kNoDevice, "the device is disabled")); });
  Build();
  std::vector<std::byte> memory(1000);
  SubmitOptions alone;
  alone.transports = MaskOf(TransportKind::kFaulty);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const OpResult r = Run(Op(OpKind::kRead, 0, memory), alone);
    EXPECT_EQ(r.state, State::kFailed);
    EXPECT_EQ(r.code, ErrorCode::kNoDevice) << r.message;
  }
  const OpResult r = Run(Op(OpKind::kRead, 0, memory));
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.transport, TransportKind::kTcp);
}

TEST(RailHealthTest, T26_PausedAndBack) {
  const RailHealth::Options options{
      .window_ms = 5000, .error_limit = 5, .pause = {.first_ms = 10, .cap_ms = 5000, .jitter = 0}};
  RailHealth fresh(options, 1);
  EXPECT_TRUE(fresh.Usable(0));

  RailHealth rail(options, 1);
  for (const int64_t at : {100, 200, 300, 4000}) rail.Error(at);
  EXPECT_TRUE(rail.Usable(4000));
  rail.Error(5000);
  EXPECT_FALSE(rail.Usable(5000));
  EXPECT_FALSE(rail.Usable(5009));
  EXPECT_TRUE(rail.Usable(5010));

  RailHealth apart(options, 1);
  int64_t now = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) apart.Error(now += 5001);
    EXPECT_TRUE(apart.Usable(now));
  }

  RailHealth at_once(options, 1);
  at_once.Error(50, /*pause_at_once=*/true);
  EXPECT_FALSE(at_once.Usable(50));
}

TEST(RailHealthTest, T26_PausesDoubleUntilAWindowWasQuiet) {
  RailHealth rail({.window_ms = 5000, .error_limit = 5, .pause = {.first_ms = 10, .cap_ms = 5000, .jitter = 0}}, 1);
  int64_t now = 1000;
  for (int i = 0; i < 4; ++i) rail.Error(now);
  for (const int64_t pause : {10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000}) {
    rail.Error(now);
    EXPECT_EQ(rail.paused_until_ms(), now + pause);
    rail.Error(now + pause - 1);  // was under way already
    EXPECT_EQ(rail.paused_until_ms(), now + pause);
    now += pause;
    EXPECT_TRUE(rail.Usable(now));
  }
  rail.Error(now + 4999);
  EXPECT_EQ(rail.paused_until_ms(), now + 4999 + 5000) << "still on probation";
  now += 4999 + 5000 + 5000;
  for (int i = 0; i < 4; ++i) rail.Error(now);
  EXPECT_TRUE(rail.Usable(now)) << "a quiet window makes it like new";
  rail.Error(now);
  EXPECT_EQ(rail.paused_until_ms(), now + 10);
}

TEST_F(Failover, T26_APausedRailIsLeftAloneAndComesBack) {
  options_.rail_error_limit = 5;
  options_.connections_per_peer = 1;
  Build();
  std::vector<std::byte> memory(1000);
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, memory)).transport, TransportKind::kFaulty);
  script_->FailPosts(kBroken);
  for (int i = 0; i < 4; ++i) {
    const OpResult r = Run(Op(OpKind::kRead, 0, memory));
    EXPECT_EQ(r.state, State::kOk) << r.message;
    EXPECT_EQ(r.transport, TransportKind::kTcp);
  }
  script_->FailPosts(std::nullopt);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory)).transport, TransportKind::kFaulty);  // four errors: still usable
  script_->FailPosts(kBroken);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory)).state, State::kOk);  // the fifth
  script_->FailPosts(std::nullopt);
  const uint64_t posts = script_->posts();
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory)).transport, TransportKind::kTcp);
  EXPECT_EQ(script_->posts(), posts);
  clock_.Advance(5000);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory)).transport, TransportKind::kFaulty);
}

TEST_F(Failover, T26_APeersOnlyRailIsTriedAgainSoonAndSaysWhenItIsDown) {
  options_.rail_error_limit = 1;
  options_.connections_per_peer = 1;
  Build(false);
  std::vector<std::byte> memory(1000);
  SubmitOptions once;
  once.max_switches = 0;
  script_->FailPosts(kBroken);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory), once).code, ErrorCode::kUnreachable);
  script_->FailPosts(std::nullopt);
  // Somebody who has another copy does not wait for a rail that pauses.
  SubmitOptions other_copy;
  other_copy.unreachable_after_ms = 4;
  auto hasty = engine_->Submit({Op(OpKind::kRead, 0, memory)}, other_copy);
  auto patient = engine_->Submit({Op(OpKind::kRead, 0, memory)}, {});
  ASSERT_TRUE(hasty.ok() && patient.ok());
  clock_.Advance(4);
  EXPECT_TRUE((*hasty)->Wait(kGuardMs).ok());
  EXPECT_EQ((*hasty)->result(0).code, ErrorCode::kUnreachable) << (*hasty)->result(0).message;
  EXPECT_EQ((*patient)->result(0).state, State::kPending);
  clock_.Advance(6);
  EXPECT_TRUE((*patient)->Wait(kGuardMs).ok());
  EXPECT_EQ((*patient)->result(0).state, State::kOk) << (*patient)->result(0).message;
  // And what comes later does not find it down.
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, memory), other_copy).state, State::kOk);
}

TEST_F(Failover, T31_ToAnotherTransport) {
  Build();
  script_->FailPosts(kBroken);
  auto memory = Pattern(1000, 31);
  const OpResult r = Run(Op(OpKind::kWrite, 512, memory));
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.bytes, 1000U);
  EXPECT_EQ(r.transport, TransportKind::kTcp);
  EXPECT_EQ(script_->posts(), 1U);
  EXPECT_GE(second_script_->posts(), 1U);
  EXPECT_TRUE(Same(segment_.subspan(512, 1000), memory));
}

TEST_F(Failover, T31_NotSentAgainWhenTheGrantRanOut) {
  Build();
  std::vector<std::byte> memory(1000);
  // Both know the store's clock from their hand-shakes.
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, memory)).state, State::kOk);
  const uint64_t before = second_script_->posts();
  Operation op = Op(OpKind::kRead, 0, memory);
  op.grant = store_.target.MakeGrant(Right::kRead, kPlace, {0, UINT64_MAX}, TestTarget::kUser, 500);
  script_->OnPost([](const Script::Posted&, uint64_t) { return Script::Fate::kHold; }, kBroken);
  auto batch = engine_->Submit({op}, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(script_->held(), 1U);
  clock_.Advance(501);
  script_->ReleaseHeld(kBroken);
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_EQ((*batch)->result(0).code, ErrorCode::kGrantExpired) << (*batch)->result(0).message;
  EXPECT_EQ(second_script_->posts(), before);
  EXPECT_EQ(store_.target.refusals(), 0U);
}

TEST_F(Failover, T32_HowOftenToSwitch) {
  Build();
  std::vector<std::byte> memory(1000);
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, memory)).state, State::kOk);
  options_.rail_error_limit = 32;
  Build();
  script_->FailPosts(kBroken);
  SubmitOptions options;
  options.max_switches = 0;
  uint64_t first = script_->posts(), second = second_script_->posts();
  OpResult r = Run(Op(OpKind::kRead, 0, memory), options);
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_EQ(r.code, ErrorCode::kUnreachable);
  EXPECT_EQ(script_->posts(), first + 1);
  EXPECT_EQ(second_script_->posts(), second);

  options.max_switches = 1;
  first = script_->posts();
  r = Run(Op(OpKind::kRead, 0, memory), options);
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(script_->posts(), first + 1);
  EXPECT_EQ(second_script_->posts(), second + 1);

  options.max_switches = 2;
  second_script_->FailPosts(kBroken);
  first = script_->posts();
  second = second_script_->posts();
  r = Run(Op(OpKind::kRead, 0, memory), options);
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_EQ(script_->posts() - first + second_script_->posts() - second, 3U);
  EXPECT_EQ(r.bytes, 0U);

  // One operation's switches do not count against another's.
  second_script_->FailPosts(std::nullopt);
  options.max_switches = 1;
  std::vector<Operation> ops(4, Op(OpKind::kRead, 0, memory));
  auto batch = engine_->Submit(ops, options);
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_TRUE((*batch)->all_ok());
}

TEST_F(Failover, SlicesThatFailTogetherAreOneSwitch) {
  options_.rail_error_limit = 32;
  Build();
  auto memory = Pattern(1 << 20, 8);
  script_->OnPost(
      [](const Script::Posted&, uint64_t n) { return n % 2 == 0 ? Script::Fate::kFail : Script::Fate::kPass; },
      kBroken);
  SubmitOptions options;
  options.max_switches = 1;
  const OpResult r = Run(Op(OpKind::kWrite, 0, memory), options);
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.bytes, memory.size());
  EXPECT_TRUE(Same(segment_.first(memory.size()), memory));
}

TEST_F(Failover, T33_CancelTellsTheTruth) {
  options_.slice_bytes = 8192;
  options_.inflight_per_rail = 2;
  options_.connections_per_peer = 1;
  Build(false);
  std::vector<std::byte> two(16'384, std::byte{1}), one(4096, std::byte{1});
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, one)).state, State::kOk);
  script_->OnPost([](const Script::Posted&, uint64_t) { return Script::Fate::kHold; }, kBroken);
  // The small one first, so that the rail has room for one slice of the large one.
  auto batch = engine_->Submit({Op(OpKind::kRead, 0, one), Op(OpKind::kRead, 0, two)}, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(script_->held(), 2U);
  (*batch)->Cancel();
  EXPECT_FALSE((*batch)->Wait(20).ok());
  EXPECT_EQ((*batch)->result(0).state, State::kPending);
  EXPECT_EQ((*batch)->result(1).state, State::kPending);
  script_->OnPost(nullptr, kBroken);
  script_->ReleaseHeld();
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_EQ((*batch)->result(0).state, State::kOk);
  EXPECT_EQ((*batch)->result(0).bytes, 4096U);
  EXPECT_EQ((*batch)->result(1).state, State::kCancelled);
  EXPECT_EQ((*batch)->result(1).bytes, 8192U);
  EXPECT_EQ((*batch)->result(1).code, ErrorCode::kCancelled);
}

TEST_F(Failover, T35_MetricsAfterARescue) {
  Build();
  script_->FailPosts(kBroken);
  auto memory = Pattern(1000, 35);
  ASSERT_EQ(Run(Op(OpKind::kWrite, 0, memory)).state, State::kOk);
  TransportFigures first = Figures(TransportKind::kFaulty), second = Figures(TransportKind::kTcp);
  EXPECT_EQ(first.attempts, 1U);
  EXPECT_EQ(first.attempts_failed, 1U);
  EXPECT_EQ(first.operations_ok, 0U);
  EXPECT_EQ(first.bytes_written, 0U);
  EXPECT_EQ(second.attempts, 1U);
  EXPECT_EQ(second.operations_ok, 1U);
  EXPECT_EQ(second.bytes_written, 1000U);
  // One that fails for good.
  EXPECT_EQ(Run(Op(OpKind::kWrite, 1 << 30, memory)).code, ErrorCode::kOutOfRange);
  second = Figures(TransportKind::kTcp);
  EXPECT_EQ(second.operations_ok, 1U);
  EXPECT_EQ(second.operations_failed, 1U);
  EXPECT_EQ(second.bytes_written, 1000U);
}

TEST_F(Failover, ObserversAreToldOfARestart) {
  class Seen final : public PieceObserver {
   public:
    void OnPiece(uint64_t offset, std::span<const std::byte> piece) override {
      for (size_t i = 0; i < piece.size(); ++i) ++count[offset + i];
    }
    void OnRestart(uint64_t offset, uint64_t length) override {
      ++restarts;
      for (uint64_t i = 0; i < length; ++i) count[offset + i] = 0;
    }
    void OnHashed(uint64_t, uint64_t, uint64_t) override {}
    std::vector<int> count = std::vector<int>(300'000);
    int restarts = 0;
  };
  options_.slice_bytes = 1 << 20;
  Build();
  // A peer on the first path that breaks off within the payload.
  RawPeer half(false, [&](RawConnection& c) {
    if (!AnswerHello(c, store_.target.incarnation())) return;
    FrameHeader header;
    FrameBytes body, out;
    if (!c.ReadFrame(&header, &body)) return;
    AppendBare(FrameType::kReadOk, header.id, 300'000, &out);
    out.resize(out.size() + 150'000);
    c.Send(out);
  });
  // Two paths of one peer with different addresses do not exist, so the first connection goes through the half peer.
  PeerAddress address = store_.address(TransportKind::kTcp);
  std::atomic<bool> first{true};
  RawPeer front(false, [&](RawConnection& c) {
    auto onward = RawConnection::Connect(first.exchange(false) ? half.address() : store_.tcp_server->address());
    std::thread back([&] {
      std::vector<std::byte> buffer(65536);
      for (;;) {
        const ssize_t n = recv(onward->fd(), buffer.data(), buffer.size(), 0);
        if (n <= 0 || !c.Send({buffer.data(), static_cast<size_t>(n)})) break;
      }
      c.Shutdown();
    });
    std::vector<std::byte> buffer(65536);
    for (;;) {
      const ssize_t n = recv(c.fd(), buffer.data(), buffer.size(), 0);
      if (n <= 0 || !onward->Send({buffer.data(), static_cast<size_t>(n)})) break;
    }
    onward->Shutdown();
    back.join();
  });
  address.data_address = front.address();
  const auto pattern = Pattern(300'000, 77);
  std::memcpy(segment_.data(), pattern.data(), pattern.size());
  std::vector<std::byte> sink(300'000);
  Seen seen;
  Operation op = Op(OpKind::kRead, 0, sink);
  op.peer = engine_->AddPeer(address);
  op.observer = &seen;
  const OpResult r = Run(op);
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_TRUE(Same(sink, pattern));
  EXPECT_GE(seen.restarts, 1);
  for (const int n : seen.count) ASSERT_EQ(n, 1);
}

}  // namespace
}  // namespace tiercel::transfer
