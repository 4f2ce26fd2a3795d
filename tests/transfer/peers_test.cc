// Peers that are slow, stuck, dead or not what they say.
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/transfer/fixture.h"

namespace tiercel::transfer {
namespace {

using State = OpResult::State;
using faulty::Script;

constexpr Incarnation kThem{0x77};
constexpr SegmentRef kPlace{1, 1};

class Peers : public testing::TestWithParam<TransportKind> {
 protected:
  Peers() { options_ = TestOptions(); }
  bool local() const { return GetParam() == TransportKind::kShm; }
  std::unique_ptr<Engine> Make() {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(
        faulty::MakeTransport(local() ? shm::MakeTransport() : tcp::MakeTransport(), script_, GetParam()));
    auto engine = Engine::Create(options_, std::move(transports), [] { return Result<Ticket>(Ticket{}); });
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }
  PeerAddress At(const std::string& address) const {
    PeerAddress a{.name = "them", .incarnation = kThem, .data_address = {}, .data_socket = {}};
    (local() ? a.data_socket : a.data_address) = address;
    return a;
  }
  static Operation Op(OpKind kind, PeerHandle peer, std::span<std::byte> memory) {
    return {.kind = kind,
            .peer = peer,
            .place = kPlace,
            .offset = 0,
            .memory = memory,
            .grant = nullptr,
            .registered = false};
  }
  static size_t Ended(Batch& batch) {
    size_t n = 0;
    for (size_t i = 0; i < batch.size(); ++i) n += batch.result(i).state != State::kPending ? 1 : 0;
    return n;
  }

  EngineOptions options_;
  std::shared_ptr<Script> script_ = std::make_shared<Script>();
};

INSTANTIATE_TEST_SUITE_P(Wires, Peers, testing::Values(TransportKind::kShm, TransportKind::kTcp),
                         [](const auto& info) { return std::string(TransportName(info.param)); });

// Takes the greeting and then says nothing.
RawPeer::Talk Silent(uint8_t claimed_minor = kProtocolMinor) {
  return [claimed_minor](RawConnection& c) {
    if (AnswerHello(c, kThem, claimed_minor)) c.WaitClosed();
  };
}

TEST_P(Peers, T19_APeerThatClaimsANewerProtocol) {
  ManualClock clock;
  options_.clock = &clock;
  RawPeer liar(local(), Silent(kProtocolMinor + 3));
  Store good(clock);
  good.target.AddSegment(kPlace, 1 << 20);
  auto engine = Make();
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    std::vector<std::byte> memory(4);
    auto batch = engine->Submit({Op(kind, engine->AddPeer(At(liar.address())), memory)}, {.timeout_ms = 3'600'000});
    ASSERT_TRUE(batch.ok());
    int64_t waited = 0;
    // The deadline of a status is 2 s on the engine's clock.
    while (!(*batch)->Wait(5).ok() && waited < 6000) {
      clock.Advance(100);
      waited += 100;
    }
    ASSERT_TRUE((*batch)->terminal());
    EXPECT_GE(waited, 1000);
    EXPECT_LE(waited, 6000);
    const OpResult r = (*batch)->result(0);
    EXPECT_EQ(r.code, ErrorCode::kPeerProtocol) << r.message;
    EXPECT_NE(r.message.find("them"), std::string::npos) << r.message;
    EXPECT_NE(r.message.find(VersionText(kProtocolMajor, kProtocolMinor + 3)), std::string::npos) << r.message;
    EXPECT_NE(r.message.find(VersionText(kProtocolMajor, kProtocolMinor)), std::string::npos) << r.message;
    clock.Advance(5000);  // past the pause that follows
  }
  // Nobody else is affected.
  auto others = Engine::Create(
      options_,
      [&] {
        std::vector<std::unique_ptr<Transport>> t;
        t.push_back(MakeWire(GetParam(), nullptr));
        return t;
      }(),
      [&] { return Result<Ticket>(good.target.MakeTicket()); });
  std::vector<std::byte> memory(4);
  Operation op = Op(OpKind::kRead, (*others)->AddPeer(good.address(GetParam())), memory);
  op.grant = good.target.MakeGrant(Right::kRead, kPlace, {0, 100});
  EXPECT_EQ(RunOne(**others, op).state, State::kOk);
}

TEST_P(Peers, T20_APeerThatNeverAnswers) {
  options_.connections_per_peer = 2;
  options_.queue_per_peer = 64;
  for (const bool greets : {false, true}) {
    std::atomic<int> open{0};
    RawPeer stuck(local(), [&](RawConnection& c) {
      ++open;
      if (!greets || AnswerHello(c, kThem)) c.WaitClosed();
      --open;
    });
    auto engine = Make();
    const PeerHandle peer = engine->AddPeer(At(stuck.address()));
    std::vector<std::byte> memory(64 << 10);
    auto batch = engine->Submit(std::vector<Operation>(32, Op(OpKind::kWrite, peer, memory)), {.timeout_ms = 600'000});
    ASSERT_TRUE(batch.ok());
    std::atomic<int> told{0};
    (*batch)->OnTerminal([&] { ++told; });
    EXPECT_TRUE(Eventually([&] { return open > 0; }));
    EXPECT_LE(open, 2);
    engine.reset();
    EXPECT_TRUE((*batch)->terminal());
    EXPECT_EQ(told, 1);
    for (size_t i = 0; i < 32; ++i) {
      EXPECT_EQ((*batch)->result(i).state, State::kFailed);
      EXPECT_EQ((*batch)->result(i).code, ErrorCode::kShutdown);
    }
    EXPECT_LE(stuck.accepted(), 2);
  }
}

TEST_P(Peers, T21_WaitingForAdmissionHasAnEnd) {
  for (const bool greets : {false, true}) {
    ManualClock clock;
    options_.clock = &clock;
    options_.connections_per_peer = 1;
    options_.queue_per_peer = 1;
    options_.inflight_per_rail = 1;
    options_.admission_timeout_ms = 100;
    RawPeer stuck(local(), greets ? Silent() : RawPeer::Talk());
    auto engine = Make();
    const PeerHandle peer = engine->AddPeer(At(stuck.address()));
    std::vector<std::byte> memory(1000);
    auto first = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 600'000});
    auto second = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 600'000});
    ASSERT_TRUE(first.ok() && second.ok());
    const int64_t begin = clock.Now().boot_ms;
    std::atomic<bool> returned{false};
    std::thread turning([&] {
      while (!returned) {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));  // the engine looks at this clock in between
        clock.Advance(1);
      }
    });
    auto third = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 600'000});
    returned = true;
    turning.join();
    ASSERT_TRUE(third.ok());
    EXPECT_TRUE((*third)->terminal());
    EXPECT_EQ((*third)->result(0).code, ErrorCode::kAdmissionTimeout) << (*third)->result(0).message;
    EXPECT_GE(clock.Now().boot_ms - begin, 100);
    EXPECT_FALSE((*first)->terminal());
    EXPECT_FALSE((*second)->terminal());
    const TransportFigures f = engine->Figures()[0];
    EXPECT_EQ(f.admission_timeouts, 1U);
    EXPECT_EQ(f.queue_full, 0U);
    engine.reset();
  }
}

TEST_P(Peers, T22_ShuttingDownUnderLoad) {
  options_.inflight_per_rail = 4;
  options_.connections_per_peer = 1;
  RawPeer stuck(local(), Silent());
  auto engine = Make();
  const PeerHandle peer = engine->AddPeer(At(stuck.address()));
  ASSERT_TRUE(engine->Connect(peer, kGuardMs).ok());
  std::vector<std::vector<std::byte>> memory(16, std::vector<std::byte>(64 << 10));
  std::vector<std::unique_ptr<Batch>> batches;
  std::atomic<int> told{0};
  for (size_t i = 0; i < 16; ++i) {
    auto batch =
        engine->Submit({Op(i % 2 == 0 ? OpKind::kRead : OpKind::kWrite, peer, memory[i])}, {.timeout_ms = 600'000});
    ASSERT_TRUE(batch.ok());
    (*batch)->OnTerminal([&] { ++told; });
    batches.push_back(std::move(*batch));
  }
  std::thread waiting([&] { EXPECT_TRUE(batches[3]->Wait(kGuardMs).ok()); });
  engine.reset();
  memory.clear();
  waiting.join();
  EXPECT_EQ(told, 16);
  for (const auto& batch : batches) {
    EXPECT_EQ(batch->result(0).state, State::kFailed);
    EXPECT_EQ(batch->result(0).code, ErrorCode::kShutdown) << batch->result(0).message;
  }
}

TEST_P(Peers, T23_ADeadPeerCostsOneProbePerRound) {
  ManualClock clock;
  options_.clock = &clock;
  options_.backoff_first_ms = 1000;
  options_.backoff_cap_ms = 1000;
  std::atomic<bool> dead{true};
  script_->OnOpen([&](uint64_t) {
    return dead ? std::optional<Error>(Error(ErrorCode::kUnreachable, "connection refused")) : std::nullopt;
  });
  Store store(clock, kThem.value);
  store.target.AddSegment(kPlace, 1 << 20);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(faulty::MakeTransport(MakeWire(GetParam(), nullptr), script_, GetParam()));
  auto engine =
      Engine::Create(options_, std::move(transports), [&] { return Result<Ticket>(store.target.MakeTicket()); });
  const PeerHandle peer = (*engine)->AddPeer(store.address(GetParam()));
  std::vector<std::byte> memory(100);
  std::vector<std::unique_ptr<Batch>> batches;
  for (int i = 0; i < 100; ++i) {
    Operation op = Op(OpKind::kRead, peer, memory);
    op.grant = store.target.MakeGrant(Right::kRead, kPlace, {0, 100});
    auto batch = (*engine)->Submit({op}, {.timeout_ms = 600'000});
    ASSERT_TRUE(batch.ok());
    batches.push_back(std::move(*batch));
  }
  EXPECT_EQ(script_->opens(), 1U);
  for (uint64_t round = 1; round <= 3; ++round) {
    EXPECT_EQ(script_->opens(), round);
    clock.Advance(999);
    EXPECT_FALSE(batches[0]->Wait(20).ok());
    EXPECT_EQ(script_->opens(), round);
    clock.Advance(1);
    EXPECT_TRUE(Eventually([&] {
      (void)batches[0]->Wait(5);
      return script_->opens() > round;
    }));
    for (const auto& batch : batches) EXPECT_FALSE(batch->terminal());
  }
  dead = false;
  clock.Advance(1000);
  for (const auto& batch : batches) {
    EXPECT_TRUE(batch->Wait(kGuardMs).ok());
    EXPECT_TRUE(batch->all_ok()) << batch->result(0).message;
  }
  EXPECT_LE(script_->opens(), 5U + 1U);
  batches.clear();
  engine->reset();
}

TEST_P(Peers, T23_APeerKnownToBeDownIsNotWaitedForWhenThereIsAnotherCopy) {
  ManualClock clock;
  options_.clock = &clock;
  options_.backoff_first_ms = 1000;
  std::atomic<bool> dead{true};
  script_->OnOpen([&](uint64_t) {
    return dead ? std::optional<Error>(Error(ErrorCode::kUnreachable, "connection refused")) : std::nullopt;
  });
  Store store(clock, kThem.value);
  store.target.AddSegment(kPlace, 1 << 20);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(faulty::MakeTransport(MakeWire(GetParam(), nullptr), script_, GetParam()));
  auto engine =
      Engine::Create(options_, std::move(transports), [&] { return Result<Ticket>(store.target.MakeTicket()); });
  const PeerHandle peer = (*engine)->AddPeer(store.address(GetParam()));
  std::vector<std::byte> memory(100);
  const auto submit = [&](bool elsewhere) {
    Operation op = Op(OpKind::kRead, peer, memory);
    op.grant = store.target.MakeGrant(Right::kRead, kPlace, {0, 100});
    auto batch = (*engine)->Submit({op}, {.timeout_ms = 600'000, .unreachable_after_ms = 100, .elsewhere = elsewhere});
    EXPECT_TRUE(batch.ok());
    return std::move(*batch);
  };
  auto first = submit(true);
  clock.Advance(99);
  EXPECT_FALSE(first->Wait(12).ok());
  clock.Advance(1);
  EXPECT_TRUE(first->Wait(kGuardMs).ok());
  EXPECT_EQ(first->result(0).code, ErrorCode::kUnreachable);
  auto second = submit(true), patient = submit(false);
  EXPECT_TRUE(second->Wait(kGuardMs).ok());
  EXPECT_EQ(second->result(0).code, ErrorCode::kUnreachable);
  EXPECT_FALSE(patient->Wait(12).ok());
  clock.Advance(100);
  EXPECT_TRUE(patient->Wait(kGuardMs).ok());
  EXPECT_EQ(patient->result(0).code, ErrorCode::kUnreachable);
  EXPECT_EQ(script_->opens(), 1U);
  // When the next attempt is due, it is made for whoever comes first.
  dead = false;
  clock.Advance(800);
  auto third = submit(true);
  EXPECT_TRUE(third->Wait(kGuardMs).ok());
  EXPECT_TRUE(third->all_ok()) << third->result(0).message;
  EXPECT_EQ(script_->opens(), 2U);
  for (auto* batch : {&first, &second, &patient, &third}) batch->reset();
  engine->reset();
}

TEST_P(Peers, T24_BackOff) {
  ManualClock clock;
  options_.clock = &clock;
  std::mutex mu;
  std::vector<int64_t> at;
  std::atomic<bool> dead{true};
  script_->OnOpen([&](uint64_t) {
    std::lock_guard lock(mu);
    at.push_back(clock.Now().boot_ms);
    return dead ? std::optional<Error>(Error(ErrorCode::kUnreachable, "connection refused")) : std::nullopt;
  });
  RawPeer there(local(), Silent());
  auto engine = Make();
  const PeerHandle peer = engine->AddPeer(At(there.address()));
  std::vector<std::byte> memory(100);
  auto batch = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 3'600'000});
  ASSERT_TRUE(batch.ok());
  const auto attempts = [&] {
    std::lock_guard lock(mu);
    return at.size();
  };
  const auto expect_pauses = [&](std::initializer_list<int64_t> pauses) {
    for (const int64_t pause : pauses) {
      const size_t before = attempts();
      clock.Advance(pause - 1);
      EXPECT_FALSE((*batch)->Wait(12).ok());
      EXPECT_EQ(attempts(), before) << pause;
      clock.Advance(1);
      EXPECT_TRUE(Eventually([&] {
        (void)(*batch)->Wait(2);
        return attempts() > before;
      }));
      std::lock_guard lock(mu);
      EXPECT_EQ(at[before] - at[before - 1], pause);
    }
  };
  expect_pauses({100, 200, 400, 800, 1600, 2000, 2000});
  // One success starts the series anew. The connection is then lost, and the peer is down again.
  dead = false;
  clock.Advance(2000);
  EXPECT_TRUE(Eventually([&] {
    (void)(*batch)->Wait(2);
    return there.accepted() == 1;
  }));
  EXPECT_TRUE(engine->Connect(peer, kGuardMs).ok());
  dead = true;
  const size_t before = attempts();
  batch->reset();  // cuts the silent connection
  batch = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 3'600'000});
  EXPECT_TRUE(Eventually([&] {
    (void)(*batch)->Wait(2);
    return attempts() > before;
  }));
  expect_pauses({100, 200});
}

TEST_P(Peers, T38_ADeadlineIsNotAFence) {
  constexpr size_t kBytes = 1 << 20;
  options_.slice_bytes = kBytes;
  RawPeer half(local(), [&](RawConnection& c) {
    if (!AnswerHello(c, kThem)) return;
    FrameHeader header;
    FrameBytes body, out;
    while (c.ReadFrame(&header, &body)) {
      if (header.type == FrameType::kRead) {
        AppendBare(FrameType::kReadOk, header.id, kBytes, &out);
        out.resize(out.size() + kBytes / 2);
        c.Send(out);
      }
      if (header.type == FrameType::kWrite) c.Drain(kBytes / 4);
      c.WaitClosed();
    }
  });
  auto engine = Make();
  const PeerHandle peer = engine->AddPeer(At(half.address()));
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    if (local() && kind == OpKind::kRead) continue;  // reads of shared memory have no payload on the wire
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    auto batch = engine->Submit({Op(kind, peer, {static_cast<std::byte*>(p), kBytes})}, {.timeout_ms = 200});
    ASSERT_TRUE(batch.ok());
    EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
    munmap(p, kBytes);
    const OpResult r = (*batch)->result(0);
    EXPECT_EQ(r.state, State::kFailed);
    EXPECT_EQ(r.code, ErrorCode::kDeadline) << r.message;
    EXPECT_EQ(r.bytes, 0U);
  }
}

TEST_P(Peers, ADeadlineWithoutAPeerNamesWhatFailed) {
  script_->OnOpen([](uint64_t) { return std::optional<Error>(Error(ErrorCode::kUnreachable, "no route there")); });
  auto engine = Make();
  const PeerHandle peer = engine->AddPeer(At("127.0.0.1:1"));
  std::vector<std::byte> memory(100);
  auto batch = engine->Submit({Op(OpKind::kRead, peer, memory)}, {.timeout_ms = 50});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_EQ((*batch)->result(0).code, ErrorCode::kDeadline);
  EXPECT_NE((*batch)->result(0).message.find("no route there"), std::string::npos) << (*batch)->result(0).message;
  SubmitOptions hurried{.timeout_ms = 600'000};
  hurried.unreachable_after_ms = 30;
  batch = engine->Submit({Op(OpKind::kRead, peer, memory)}, hurried);
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_EQ((*batch)->result(0).code, ErrorCode::kUnreachable) << (*batch)->result(0).message;
}

TEST_P(Peers, APeerThatLeftAnIdleConnectionCostsNoSwitch) {
  ManualClock clock;
  options_.clock = &clock;
  std::atomic<int> greeted{0};
  RawPeer peer(local(), [&](RawConnection& c) {
    if (!AnswerHello(c, kThem)) return;
    if (greeted++ == 0) return;  // leaves at once
    FrameHeader header;
    FrameBytes body, out;
    while (c.ReadFrame(&header, &body)) {
      c.Drain(header.payload_bytes);
      out.clear();
      AppendBare(FrameType::kWriteOk, header.id, 0, &out);
      c.Send(out);
    }
  });
  auto engine = Make();
  const PeerHandle handle = engine->AddPeer(At(peer.address()));
  ASSERT_TRUE(engine->Connect(handle, kGuardMs).ok());
  clock.Advance(5000);
  std::vector<std::byte> memory(100);
  SubmitOptions options{.timeout_ms = 600'000};
  options.max_switches = 0;
  auto batch = engine->Submit({Op(OpKind::kWrite, handle, memory)}, options);
  ASSERT_TRUE(batch.ok());
  // Whoever notices the end while writing pauses the rail, for a time of the clock that stands still by itself.
  constexpr int64_t kStepMs = 10;
  for (int64_t waited_ms = 0; waited_ms < kGuardMs && !(*batch)->Wait(kStepMs).ok(); waited_ms += kStepMs) {
    clock.Advance(kStepMs);
  }
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_TRUE((*batch)->all_ok()) << (*batch)->result(0).message;
}

TEST_P(Peers, AnswersThatFitNoRequestCloseTheConnection) {
  for (int variant = 0; variant < 4; ++variant) {
    RawPeer odd(local(), [&](RawConnection& c) {
      if (!AnswerHello(c, kThem)) return;
      FrameHeader header;
      FrameBytes body, out;
      if (!c.ReadFrame(&header, &body)) return;
      switch (variant) {
        case 0: AppendBare(FrameType::kWriteOk, header.id + 1, 0, &out); break;
        case 1: AppendBare(FrameType::kReadOk, header.id, 100, &out); break;  // for a write
        case 2: AppendError(header.id + 0x10000, Error(ErrorCode::kBadGrant, "x"), &out); break;
        default: AppendBare(FrameType::kRelease, header.id, 0, &out); break;
      }
      c.Send(out);
      c.WaitClosed();
    });
    auto engine = Make();
    std::vector<std::byte> memory(100);
    SubmitOptions options{.timeout_ms = 600'000};
    options.max_switches = 0;
    auto batch = engine->Submit({Op(OpKind::kWrite, engine->AddPeer(At(odd.address())), memory)}, options);
    ASSERT_TRUE(batch.ok());
    EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
    EXPECT_EQ((*batch)->result(0).code, ErrorCode::kPeerProtocol) << variant << (*batch)->result(0).message;
  }
}

}  // namespace
}  // namespace tiercel::transfer
