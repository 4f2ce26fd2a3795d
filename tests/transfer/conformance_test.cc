// What every transport must do, plain and through the faulty wrapper.
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "base/checksum.h"
#include "tests/transfer/fixture.h"

namespace tiercel::transfer {
namespace {

INSTANTIATE_TEST_SUITE_P(Wires, Conformance, kAllWires, WireName);

using State = OpResult::State;

// Memory with an end that faults.
class Mapped {
 public:
  explicit Mapped(size_t bytes) : bytes_(bytes) {
    data_ = static_cast<std::byte*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Mapped() { Unmap(); }
  void Unmap() {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = nullptr;
  }
  void Forbid() { ASSERT_EQ(mprotect(data_, bytes_, PROT_NONE), 0); }
  std::span<std::byte> span() const { return {data_, bytes_}; }

 private:
  const size_t bytes_;
  std::byte* data_ = nullptr;
};

TEST_P(Conformance, T01_OverlapFailsAsAWhole) {
  Mapped memory(4096);
  std::byte* base = memory.span().data();
  const std::array<std::span<std::byte>, 2> both = {std::span(base + 64, 128), std::span(base, 128)};
  auto refused = engine_->Register(both);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverlap);
  const std::span<std::byte> one(base, 128);
  EXPECT_TRUE(engine_->Register({&one, 1}).ok());
}

TEST_P(Conformance, T02_NeighboursAreNotAnOverlap) {
  Mapped memory(4096);
  std::byte* base = memory.span().data();
  std::array<std::span<std::byte>, 1> first = {std::span(base, 1)}, second = {std::span(base + 1, 1)};
  const std::array<std::span<std::byte>, 2> both = {first[0], second[0]};
  {
    EXPECT_TRUE(engine_->Register(both).ok());
  }
  auto a = engine_->Register(first);
  auto b = engine_->Register(second);
  ASSERT_TRUE(a.ok() && b.ok());
  a->reset();
  base[1] = std::byte{42};
  Operation op = Op(OpKind::kWrite, 7, second[0]);
  op.registered = true;
  EXPECT_EQ(Run(op).state, State::kOk);
  EXPECT_EQ(segment_[7], std::byte{42});
  op = Op(OpKind::kWrite, 7, first[0]);
  op.registered = true;
  EXPECT_EQ(Run(op).code, ErrorCode::kNotRegistered);
}

TEST_P(Conformance, T05_LargerThanOneDeviceRegistration) {
  constexpr uint64_t kLimit = 64 << 20;
  if (!script_) GTEST_SKIP() << "only the faulty wrapper has a limit";
  script_->SetLimits({.max_registration_bytes = kLimit, .remote_seam_bytes = kLimit, .max_rails = 0});
  Mapped memory(256 << 20);
  const std::array<std::span<std::byte>, 1> all = {memory.span()};
  auto registration = engine_->Register(all);
  ASSERT_TRUE(registration.ok());
  EXPECT_EQ(script_->regions(), 4U);
  const auto pattern = Pattern(1 << 20, 5);
  std::span<std::byte> source = memory.span().subspan(255 << 20, 1 << 20);
  std::memcpy(source.data(), pattern.data(), pattern.size());
  Operation op = Op(OpKind::kWrite, 255 << 20, source);
  op.registered = true;
  OpResult r = Run(op);
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.bytes, 1U << 20);
  EXPECT_TRUE(Same(segment_.subspan(255 << 20, 1 << 20), pattern));
  op = Op(OpKind::kWrite, segment_.size() - 1, memory.span().last(1));
  op.registered = true;
  memory.span().back() = std::byte{99};
  EXPECT_EQ(Run(op).state, State::kOk);
  EXPECT_EQ(segment_.back(), std::byte{99});
}

TEST_P(Conformance, T06_AcrossTheSeam) {
  constexpr uint64_t kLimit = 64 << 20;
  constexpr uint64_t kOdd = kLimit - (512 << 10) + 1;
  if (!script_) GTEST_SKIP() << "only the faulty wrapper has a limit";
  script_->SetLimits({.max_registration_bytes = kLimit, .remote_seam_bytes = kLimit, .max_rails = 0});
  Mapped memory(256 << 20);
  const std::array<std::span<std::byte>, 1> all = {memory.span()};
  auto registration = engine_->Register(all);
  ASSERT_TRUE(registration.ok());
  for (const uint64_t from : {uint64_t{0}, kOdd}) {
    const auto pattern = Pattern(1 << 20, from);
    std::span<std::byte> source = memory.span().subspan(from, 1 << 20);
    std::memcpy(source.data(), pattern.data(), pattern.size());
    Operation op = Op(OpKind::kWrite, kOdd, source);
    op.registered = true;
    const OpResult r = Run(op);
    EXPECT_EQ(r.state, State::kOk) << r.message;
    EXPECT_TRUE(Same(segment_.subspan(kOdd, 1 << 20), pattern));
  }
  for (const auto& posted : script_->posted()) {
    const auto local = static_cast<uint64_t>(posted.memory - memory.span().data());
    EXPECT_EQ(local / kLimit, (local + posted.length - 1) / kLimit);
    EXPECT_EQ(posted.offset / kLimit, (posted.offset + posted.length - 1) / kLimit);
  }
}

TEST_P(Conformance, T07_LocalOnlyMemoryStaysLocal) {
  Mapped memory(1 << 20);
  const std::array<std::span<std::byte>, 1> all = {memory.span()};
  auto registration = engine_->Register(all);
  ASSERT_TRUE(registration.ok());
  std::vector<std::byte> other(4096);
  // Whatever name it guesses: there is none for it.
  for (const uint32_t segment : {0U, 2U, 77U, UINT32_MAX}) {
    for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
      Operation op = Op(kind, 0, other, {segment, 4});
      EXPECT_EQ(Run(op).code, ErrorCode::kUnknownSegment);
      op.grant = nullptr;
      EXPECT_EQ(Run(op).code, ErrorCode::kUnknownSegment);
      op = Op(kind, 0, other);
      op.grant = target().MakeGrant(kind == OpKind::kRead ? Right::kRead : Right::kWrite, {9, 4}, {0, 1 << 20});
      EXPECT_EQ(Run(op).code, ErrorCode::kBadGrant);
      op.grant = nullptr;
      EXPECT_EQ(Run(op).code, ErrorCode::kBadGrant);
    }
  }
  EXPECT_EQ(target().admitted(), 0U);
}

TEST_P(Conformance, T09_ThereAndBack) {
  constexpr size_t kBytes = 4'096'000;
  auto source = Pattern(kBytes, 9);
  std::vector<std::byte> sink(kBytes);
  OpResult r = Run(Op(OpKind::kWrite, 12'345, source));
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.bytes, kBytes);
  EXPECT_TRUE(Same(segment_.subspan(12'345, kBytes), source));
  std::memcpy(segment_.data() + (100 << 20), source.data(), kBytes);
  r = Run(Op(OpKind::kRead, 100 << 20, sink));
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_EQ(r.bytes, kBytes);
  EXPECT_TRUE(Same(sink, source));
}

TEST_P(Conformance, T10_HalfOfTheSourceIsNotRegistered) {
  Mapped memory(128 * 1024);
  const std::array<std::span<std::byte>, 1> half = {memory.span().first(64 * 1024)};
  auto registration = engine_->Register(half);
  ASSERT_TRUE(registration.ok());
  std::memset(memory.span().data(), 1, memory.span().size());
  Operation op = Op(OpKind::kWrite, 0, memory.span());
  op.registered = true;
  const OpResult r = Run(op);
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_EQ(r.code, ErrorCode::kNotRegistered);
  EXPECT_EQ(r.bytes, 0U);
  EXPECT_EQ(target().admitted(), 0U);
}

TEST_P(Conformance, T11_TooManyOperations) {
  EngineOptions options = TestOptions();
  options.max_ops_per_batch = 16;
  Build(options);
  std::vector<std::byte> memory(17);
  std::vector<Operation> ops;
  for (size_t i = 0; i < 17; ++i) ops.push_back(Op(OpKind::kWrite, i, {&memory[i], 1}));
  auto refused = engine_->Submit(ops, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kTooManyOps);
  EXPECT_EQ(target().admitted(), 0U);
  if (script_) {
    EXPECT_EQ(script_->posts(), 0U);
  }
  ops.pop_back();
  auto batch = engine_->Submit(ops, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_TRUE((*batch)->all_ok());
}

TEST_P(Conformance, T12_OneBadOperationAmongFour) {
  auto source = Pattern(4 * 8192, 12);
  std::vector<Operation> ops;
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t offset = i == 1 ? kSegmentBytes - 100 : i * 10'000;
    ops.push_back(Op(OpKind::kWrite, offset, std::span(source).subspan(i * 8192, 8192 - i)));
  }
  auto batch = engine_->Submit(ops, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  EXPECT_FALSE((*batch)->all_ok());
  for (size_t i = 0; i < 4; ++i) {
    const OpResult r = (*batch)->result(i);
    if (i == 1) {
      EXPECT_EQ(r.state, State::kFailed);
      EXPECT_EQ(r.code, ErrorCode::kOutOfRange);
      EXPECT_EQ(r.bytes, 0U);
    } else {
      EXPECT_EQ(r.state, State::kOk) << r.message;
      EXPECT_EQ(r.bytes, 8192 - i);
      EXPECT_TRUE(Same(segment_.subspan(i * 10'000, 8192 - i), std::span(source).subspan(i * 8192, 8192 - i)));
    }
  }
}

TEST_P(Conformance, T13_LettingGoOfAnUnfinishedBatch) {
  const int rounds = kSanitized ? 300 : 10'000;
  Random random(13);
  std::thread other;
  for (int i = 0; i < rounds; ++i) {
    auto memory = std::make_unique<Mapped>(128 * 1024);
    std::vector<Operation> ops;
    ops.push_back(Op(OpKind::kRead, random.Below(1 << 20), memory->span().first(64 * 1024 + random.Below(1024) + 1)));
    ops.push_back(Op(OpKind::kWrite, (2 << 20) + random.Below(1 << 20) / 64 * 64, memory->span().last(4096)));
    auto batch = engine_->Submit(ops, {});
    ASSERT_TRUE(batch.ok());
    switch (random.Below(4)) {
      case 0: (void)(*batch)->Wait(0); break;
      case 1: {
        // The progress thread completes it, while it is let go of here.
        auto told = std::make_shared<std::atomic<bool>>(false);
        (*batch)->OnTerminal([told] { told->store(true); });
        batch->reset();
        EXPECT_TRUE(Eventually([&] { return told->load(); }));
        break;
      }
      case 2:
        if (other.joinable()) other.join();
        other = std::thread([b = std::move(*batch), m = std::move(memory)]() mutable {
          b.reset();
          m.reset();
        });
        break;
      default: break;
    }
    if (memory != nullptr) {
      if (*batch != nullptr) batch->reset();
      memory->Unmap();
    }
  }
  if (other.joinable()) other.join();
}

TEST_P(Conformance, T14_MergingIsInvisible) {
  segment_ = target().AddSegment(kPlace, 1 << 20);
  target().AddSegment({2, 1}, 1 << 20);
  Mapped memory(8192);
  auto pattern = Pattern(2048, 14);
  std::memcpy(memory.span().data() + 3072, pattern.data(), 2048);
  const std::array<std::span<std::byte>, 2> regions = {memory.span().first(4096), memory.span().last(4096)};
  auto registration = engine_->Register(regions);  // the seam is between the two parts of the source
  ASSERT_TRUE(registration.ok());
  enum { kPlain, kSegments, kGrants, kPriorities };
  for (const int variant : {kPlain, kSegments, kGrants, kPriorities}) {
    std::vector<Operation> ops;
    for (uint64_t i = 0; i < 2; ++i) {
      const SegmentRef place = variant == kSegments && i == 1 ? SegmentRef{2, 1} : kPlace;
      ops.push_back(Op(OpKind::kWrite, 5000 + i * 1024, memory.span().subspan(3072 + i * 1024, 1024), place));
      ops.back().registered = true;
      if (variant == kPriorities) ops.back().priority = static_cast<uint8_t>(i);
    }
    if (variant != kGrants) ops[1].grant = variant == kSegments ? ops[1].grant : ops[0].grant;
    auto batch = engine_->Submit(ops, {});
    ASSERT_TRUE(batch.ok());
    EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ((*batch)->result(i).state, State::kOk) << (*batch)->result(i).message;
      EXPECT_EQ((*batch)->result(i).bytes, 1024U);
    }
    EXPECT_TRUE(Same(segment_.subspan(5000, 1024), std::span(pattern).first(1024)));
    auto second = variant == kSegments ? target().memory({2, 1}) : segment_;
    EXPECT_TRUE(Same(second.subspan(6024, 1024), std::span(pattern).last(1024)));
    std::memset(segment_.data() + 5000, 0, 2048);
  }
}

TEST_P(Conformance, T15_RangeArithmetic) {
  const auto [small, large] = target().AddAdjacentSegments({2, 1}, 0x2000, {3, 1}, 0x100000);
  const auto before = Pattern(0x100000, 15);
  std::memcpy(large.data(), before.data(), before.size());
  struct Case {
    uint64_t offset, length;
  };
  Mapped memory(4096);
  // A length that no memory has is claimed in the request alone; the engine would cut it, so slices are made large.
  EngineOptions options = TestOptions();
  options.slice_bytes = 1 << 20;
  Build(options);
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    EXPECT_EQ(Run(Op(kind, 0x1FFF, memory.span().first(1), {2, 1})).state, State::kOk);
    for (const Case c : {Case{0x2000, 1}, Case{0x1F00, 0x200}, Case{UINT64_MAX, 1}, Case{UINT64_MAX - 10, 100}}) {
      const OpResult r = Run(Op(kind, c.offset, memory.span().first(c.length), {2, 1}));
      EXPECT_EQ(r.state, State::kFailed);
      EXPECT_EQ(r.code, ErrorCode::kOutOfRange) << c.offset << " " << c.length;
      EXPECT_EQ(r.bytes, 0U);
    }
    auto empty = engine_->Submit({Op(kind, 0, {}, {2, 1})}, {});
    ASSERT_FALSE(empty.ok());
    EXPECT_EQ(empty.error().code(), ErrorCode::kInvalid);
  }
  EXPECT_TRUE(Same(large, before));
  EXPECT_FALSE(Same(small, before));  // the length of 2^64 - 1 goes by hand: see HostileFrames
}

TEST_P(Conformance, T16_LargeWritesUnderNoise) {
  constexpr size_t kLarge = 2432 << 10;
  const int rounds = kSanitized ? 20 : 400;
  std::atomic<bool> stop{false};
  std::vector<std::thread> noise;
  for (uint64_t t = 0; t < 3; ++t) {
    noise.emplace_back([&, t] {
      auto memory = Pattern(16 << 10, t);
      while (!stop) {
        const OpResult r = Run(Op(OpKind::kWrite, (100 << 20) + t * (1 << 20), memory));
        ASSERT_EQ(r.state, State::kOk) << r.message;
      }
    });
  }
  for (int i = 0; i < rounds; ++i) {
    auto pattern = Pattern(kLarge, static_cast<uint64_t>(i) + 1000);
    const OpResult r = Run(Op(OpKind::kWrite, 4096, pattern));
    ASSERT_EQ(r.state, State::kOk) << r.message;
    ASSERT_TRUE(Same(segment_.subspan(4096, kLarge), pattern));
  }
  stop = true;
  for (std::thread& thread : noise) thread.join();
}

TEST_P(Conformance, T17_ARefusalDoesNotPoisonTheConnection) {
  segment_ = target().AddSegment({2, 1}, 8 << 20);
  auto memory = Pattern(1 << 20, 17);
  EXPECT_EQ(Run(Op(OpKind::kWrite, (8 << 20) + 4096, memory, {2, 1})).code, ErrorCode::kOutOfRange);
  EXPECT_EQ(Run(Op(OpKind::kWrite, 4096, memory, {2, 1})).state, State::kOk);
  EXPECT_TRUE(Same(segment_.subspan(4096, 1 << 20), memory));
  EXPECT_EQ(engine_->Figures()[0].connects, 1U);
  EXPECT_EQ(engine_->Figures()[0].reconnects, 0U);
}

TEST_P(Conformance, T18_ARefusedLargeWrite) {
  EngineOptions options = TestOptions();
  options.slice_bytes = 1 << 20;
  Build(options);
  Mapped memory(32 << 20);
  std::memset(memory.span().data(), 1, memory.span().size());
  Operation op = Op(OpKind::kWrite, 0, memory.span());
  op.grant = target().MakeGrant(Right::kWrite, kPlace, {0, UINT64_MAX}, TestTarget::kUser + 1);
  auto batch = engine_->Submit({op}, {});
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  memory.Forbid();
  EXPECT_EQ((*batch)->result(0).code, ErrorCode::kBadGrant);
  EXPECT_EQ((*batch)->result(0).bytes, 0U);
  std::vector<std::byte> small(100);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, small)).state, State::kOk);
}

TEST_P(Conformance, T36_SameNameSamePlaceOtherBytes) {
  auto old_bytes = Pattern(64 << 10, 1);
  std::memcpy(segment_.data(), old_bytes.data(), old_bytes.size());
  std::vector<std::byte> sink(64 << 10);
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, sink)).state, State::kOk);
  ASSERT_TRUE(Same(sink, old_bytes));
  const PeerAddress old_address = store_->address(GetParam().kind);
  // The descriptors of the former life, used by an engine that has never met the new one, and by one that has.
  Store reborn(SystemClock::Get(), 0x2002);
  auto fresh = reborn.target.AddSegment(kPlace, 1 << 20);
  const auto new_bytes = Pattern(64 << 10, 2);
  std::memcpy(fresh.data(), new_bytes.data(), new_bytes.size());
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(MakeWire(GetParam().kind, &reborn.target));
  auto engine =
      Engine::Create(TestOptions(), std::move(transports), [&] { return Result<Ticket>(reborn.target.MakeTicket()); });
  ASSERT_TRUE(engine.ok());
  PeerAddress mixed = reborn.address(GetParam().kind);
  mixed.incarnation = old_address.incarnation;
  const PeerHandle peer = (*engine)->AddPeer(mixed);
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    std::vector<std::byte> memory(64 << 10, std::byte{7});
    Operation op = Op(kind, 0, memory);
    op.peer = peer;
    const OpResult r = RunOne(**engine, op);
    EXPECT_EQ(r.state, State::kFailed);
    EXPECT_EQ(r.code, ErrorCode::kStaleIncarnation) << r.message;
    EXPECT_EQ(r.bytes, 0U);
    EXPECT_EQ(memory[0], std::byte{7});
  }
  EXPECT_TRUE(Same(fresh.first(new_bytes.size()), new_bytes));
  EXPECT_EQ(reborn.target.admitted(), 0U);
}

TEST_P(Conformance, T37_ARangeThatIsReadIsNotReused) {
  // What the engine and the servers owe this case: a write never overlaps a read that is under way, and a read
  // whose use was ended by the store never ends well.
  std::atomic<int> seen{0};
  target().OnAdmit([&](const AccessRequest& r) {
    if (r.kind != AccessRequest::Kind::kWrite && seen++ == 0) target().SetEpoch(kPlace.segment, kPlace.epoch + 1);
  });
  std::vector<std::byte> sink(8 << 20);
  OpResult r = Run(Op(OpKind::kRead, 0, sink));
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_EQ(r.code, ErrorCode::kOldEpoch) << r.message;
  target().SetEpoch(kPlace.segment, kPlace.epoch);
  Operation late = Op(OpKind::kRead, 0, sink);
  late.grant = target().MakeGrant(Right::kRead, kPlace, {0, UINT64_MAX}, TestTarget::kUser, -1);
  r = Run(late);
  EXPECT_EQ(r.code, ErrorCode::kGrantExpired);
}

TEST_P(Conformance, T39_GrantsAndAuthentication) {
  std::vector<std::byte> memory(4096);
  ASSERT_EQ(Run(Op(OpKind::kRead, 0, memory)).state, State::kOk);
  const uint64_t admitted = target().admitted();
  const auto expect = [&](const Operation& op, ErrorCode code) {
    const uint64_t before = target().refusals(code);
    const uint64_t all = target().refusals();
    const OpResult r = Run(op);
    EXPECT_EQ(r.state, State::kFailed);
    EXPECT_EQ(r.code, code) << InfoOf(code).name << " " << r.message;
    EXPECT_EQ(target().refusals(code), before + 1);
    EXPECT_EQ(target().refusals(), all + 1);
  };
  const auto with = [&](OpKind kind, const std::function<void(Grant*)>& change) {
    Operation op = Op(kind, 64, memory);
    auto grant = std::make_shared<Grant>(
        *target().MakeGrant(kind == OpKind::kRead ? Right::kRead : Right::kWrite, kPlace, {64, memory.size()}));
    change(grant.get());
    op.grant = grant;
    return op;
  };
  for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
    Operation op = Op(kind, 64, memory);
    const Right right = kind == OpKind::kRead ? Right::kRead : Right::kWrite;
    op.grant = target().MakeGrant(right, kPlace, {64, 4096}, TestTarget::kUser, -10);
    expect(op, ErrorCode::kGrantExpired);
    op.grant = target().MakeGrant(right, kPlace, {64, 4096}, TestTarget::kUser + 1);
    expect(op, ErrorCode::kBadGrant);
    op.grant = target().MakeGrant(kind == OpKind::kRead ? Right::kWrite : Right::kRead, kPlace, {64, 4096});
    expect(op, ErrorCode::kBadGrant);
    op.grant = target().MakeGrant(right, kPlace, {64, 4095});
    expect(op, ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->key_id ^= 1; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->right = static_cast<Right>(static_cast<uint8_t>(g->right) ^ 4); }),
           ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->user ^= 1 << 7; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->version.value ^= uint64_t{1} << 40; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->store.value ^= 2; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->place.segment ^= 1; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->place.epoch ^= 1; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->expiry_ms ^= int64_t{1} << 50; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->mac[11] ^= std::byte{0x20}; }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->extents = ExtentList(Extent{64, 4096 + 64}); }), ErrorCode::kBadGrant);
    expect(with(kind, [](Grant* g) { g->extents = ExtentList(Extent{0, 4096 + 64}); }), ErrorCode::kBadGrant);
  }
  EXPECT_EQ(target().admitted(), admitted);

  for (const int64_t ttl : {int64_t{-1}, int64_t{1000}}) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(MakeWire(GetParam().kind, &target()));
    auto stranger = Engine::Create(TestOptions(), std::move(transports), [&] {
      Ticket ticket = target().MakeTicket(TestTarget::kUser, ttl);
      if (ttl > 0) ticket.mac[0] ^= std::byte{1};
      return Result<Ticket>(ticket);
    });
    ASSERT_TRUE(stranger.ok());
    Operation op = Op(OpKind::kRead, 0, memory);
    op.peer = (*stranger)->AddPeer(store_->address(GetParam().kind));
    const uint64_t before = target().refusals(ErrorCode::kUnauthenticated);
    EXPECT_EQ(RunOne(**stranger, op).code, ErrorCode::kUnauthenticated);
    EXPECT_EQ(target().refusals(ErrorCode::kUnauthenticated), before + 1);
  }
}

// The sums that an observer takes, or is told, are those of the blocks.
class Sums final : public PieceObserver {
 public:
  explicit Sums(uint64_t size) : hasher(size) {}
  void OnPiece(uint64_t offset, std::span<const std::byte> piece) override {
    hasher.Feed(offset, piece);
    seen += piece.size();
  }
  void OnRestart(uint64_t offset, uint64_t length) override {
    for (uint64_t at = offset / kBlockBytes; at * kBlockBytes < offset + length; ++at) hasher.ResetBlock(at);
  }
  void OnHashed(uint64_t offset, uint64_t length, uint64_t sum) override {
    if (offset % kBlockBytes == 0) hasher.SetBlock(offset / kBlockBytes, sum);
    seen += length;
  }
  BlockHasher hasher;
  uint64_t seen = 0;
};

TEST_P(Conformance, ObserversSeeEveryByteOnce) {
  EngineOptions options = TestOptions();
  options.slice_bytes = 1 << 20;
  Build(options);
  const uint64_t bytes = (3 << 20) + 12'345;
  auto registered = engine_->AllocateRegistered(bytes);
  ASSERT_TRUE(registered.ok());
  const auto pattern = Pattern(bytes, 3);
  BlockHasher expected(bytes);
  expected.Feed(0, pattern);
  const auto sums = expected.Finish(pattern);
  for (const OpKind kind : {OpKind::kWrite, OpKind::kRead}) {
    std::memcpy(kind == OpKind::kWrite ? registered->data() : segment_.data() + 8192, pattern.data(), bytes);
    Sums observer(bytes);
    Operation op = Op(kind, 8192, *registered);
    op.observer = &observer;
    op.registered = true;
    const OpResult r = Run(op);
    EXPECT_EQ(r.state, State::kOk) << r.message;
    EXPECT_EQ(observer.seen, bytes);
    EXPECT_EQ(observer.hasher.Finish(pattern), sums);
    EXPECT_TRUE(Same(segment_.subspan(8192, bytes), pattern));
    EXPECT_TRUE(Same(*registered, pattern));
  }
  engine_->FreeRegistered(*registered);
}

TEST_P(Conformance, AWriteWhosePutIsClosedIsCutOff) {
  auto memory = Pattern(16 << 20, 4);
  std::atomic<int> seen{0};
  std::thread closer;
  target().OnAdmit([&](const AccessRequest& r) {
    if (r.kind == AccessRequest::Kind::kWrite && seen++ == 20) {
      closer = std::thread([&] { target().ClosePut({5}); });
    }
  });
  const OpResult r = Run(Op(OpKind::kWrite, 0, memory));
  if (closer.joinable()) closer.join();
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_EQ(r.code, ErrorCode::kStalePut) << r.message;
  EXPECT_LT(r.bytes, memory.size());
  std::vector<std::byte> small(100);
  EXPECT_EQ(Run(Op(OpKind::kRead, 0, small)).state, State::kOk);
}

TEST_P(Conformance, ManyThreadsShareAPeer) {
  const int rounds = kSanitized ? 50 : 500;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(t);
      const uint64_t base = t * (32 << 20);
      for (int i = 0; i < rounds; ++i) {
        const uint64_t bytes = 1 + random.Below(300'000);
        auto pattern = Pattern(bytes, random.Next());
        OpResult r = Run(Op(OpKind::kWrite, base, pattern));
        ASSERT_EQ(r.state, State::kOk) << r.message;
        std::vector<std::byte> back(bytes);
        r = Run(Op(OpKind::kRead, base, back));
        ASSERT_EQ(r.state, State::kOk) << r.message;
        ASSERT_TRUE(Same(back, pattern));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Conformance, CallbacksMaySubmitMore) {
  std::vector<std::byte> memory(100'000);
  std::atomic<int> done{0};
  std::mutex mu;
  std::vector<std::unique_ptr<Batch>> batches;
  std::function<void()> next = [&] {
    if (++done >= 200) return;
    auto batch = engine_->Submit({Op(OpKind::kRead, 0, memory)}, {});
    ASSERT_TRUE(batch.ok());
    Batch* raw = batch->get();
    {
      std::lock_guard lock(mu);
      batches.push_back(std::move(*batch));
    }
    raw->OnTerminal(next);
  };
  next();
  EXPECT_TRUE(Eventually([&] { return done >= 200; }));
  std::lock_guard lock(mu);
  for (const auto& batch : batches) EXPECT_TRUE(batch->all_ok());
  batches.clear();
}

}  // namespace
}  // namespace tiercel::transfer
