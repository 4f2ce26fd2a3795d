// What the servers do with strangers, forged and damaged frames, and peers that waste their time.
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "base/checksum.h"
#include "tests/transfer/fixture.h"

namespace tiercel::transfer {
namespace {

using State = OpResult::State;
constexpr SegmentRef kPlace{1, 4};
constexpr uint64_t kSegmentBytes = 8 << 20;

class Hostile : public testing::TestWithParam<TransportKind> {
 protected:
  void Start(const SessionLimits& limits = {}) {
    store_ = std::make_unique<Store>(SystemClock::Get(), 0x1001, limits);
    segment_ = store_->target.AddSegment(kPlace, kSegmentBytes);
  }
  void SetUp() override { Start(); }
  void TearDown() override {
    EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
    store_.reset();
  }
  bool local() const { return GetParam() == TransportKind::kShm; }
  TestTarget& target() { return store_->target; }
  std::string address() const { return local() ? store_->socket_path : store_->tcp_server->address(); }
  std::unique_ptr<RawConnection> Connect() { return RawConnection::Connect(address()); }
  std::unique_ptr<RawConnection> Greeted() {
    auto c = Connect();
    EXPECT_TRUE(c->Greet(target().MakeTicket(), target().incarnation()));
    return c;
  }
  // Reads until the connection ends; the error that came before the end, if any.
  static std::optional<Error> LastWords(RawConnection& c) {
    FrameHeader header;
    FrameBytes body;
    std::optional<Error> error;
    while (c.ReadFrame(&header, &body)) {
      bool well_formed = false;
      if (header.type == FrameType::kError) error = DecodeError(body, &well_formed);
      if (header.payload_bytes > 0) c.Drain(header.payload_bytes);
    }
    return error;
  }
  static ErrorCode Answer(RawConnection& c) {
    FrameHeader header;
    FrameBytes body;
    if (!c.ReadFrame(&header, &body)) return ErrorCode::kShutdown;
    bool well_formed = false;
    return header.type == FrameType::kError ? DecodeError(body, &well_formed).code() : ErrorCode::kExists;
  }
  static uint64_t ResidentBytes() {
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0, resident = 0;
    statm >> pages >> resident;
    return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  OpResult RunThrough(const PeerAddress& at, OpKind kind, std::span<std::byte> memory, PieceObserver* observer,
                      int max_switches) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(MakeWire(GetParam(), nullptr));
    EngineOptions options;
    options.jitter = 0;
    options.backoff_first_ms = 1;
    auto engine = Engine::Create(options, std::move(transports), [&] { return Result<Ticket>(target().MakeTicket()); });
    Operation op{
        .kind = kind,
        .peer = (*engine)->AddPeer(at),
        .place = kPlace,
        .offset = 0,
        .memory = memory,
        .grant = target().MakeGrant(kind == OpKind::kRead ? Right::kRead : Right::kWrite, kPlace, {0, UINT64_MAX}),
        .observer = observer,
        .registered = false};
    SubmitOptions submit{.timeout_ms = kSanitized ? 60'000 : 20'000};
    submit.max_switches = max_switches;
    return RunOne(**engine, op, submit);
  }

  std::unique_ptr<Store> store_;
  std::span<std::byte> segment_;
};

INSTANTIATE_TEST_SUITE_P(Wires, Hostile, testing::Values(TransportKind::kShm, TransportKind::kTcp),
                         [](const auto& info) { return std::string(TransportName(info.param)); });

FrameBytes HelloBytes(const TestTarget& target, uint8_t minor = kProtocolMinor) {
  FrameBytes out;
  AppendHello(minor, {.ticket = target.MakeTicket(), .expected = target.incarnation()}, &out);
  return out;
}

// Writes the header's sum anew after a change to it.
void Reseal(FrameBytes* frame) {
  const uint64_t sum = HashBytes(std::span(*frame).first(40));
  std::memcpy(frame->data() + 40, &sum, 8);
}

TEST_P(Hostile, T30_StrangersOnTheDataPort) {
  struct Stranger {
    const char* name;
    FrameBytes bytes;
    ErrorCode counted;
    bool answered;
  };
  const auto text = [](std::string_view s) {
    const auto b = std::as_bytes(std::span(s.data(), s.size()));
    return FrameBytes(b.begin(), b.end());
  };
  FrameBytes empty = HelloBytes(target());
  empty.resize(kHeaderBytes);
  std::memset(empty.data() + 16, 0, 4);  // a HELLO with a body of length 0
  std::memset(empty.data() + 32, 0, 8);
  Reseal(&empty);
  FrameBytes huge = HelloBytes(target());
  const uint64_t two_to_40 = uint64_t{1} << 40;
  std::memcpy(huge.data() + 24, &two_to_40, 8);
  Reseal(&huge);
  FrameBytes long_body = HelloBytes(target());
  const uint32_t two_to_31 = uint32_t{1} << 31;
  std::memcpy(long_body.data() + 16, &two_to_31, 4);
  Reseal(&long_body);
  FrameBytes major = HelloBytes(target());
  major[4] = std::byte{9};
  Reseal(&major);
  const std::vector<Stranger> strangers = {
      {"TLS hello", text("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), ErrorCode::kProtocol, false},
      {"HTTP GET", text("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), ErrorCode::kProtocol, false},
      {"one byte", text("G"), ErrorCode::kProtocol, false},
      {"zeros", FrameBytes(4096), ErrorCode::kProtocol, false},
      {"length 0", empty, ErrorCode::kProtocol, true},
      {"length 2^40", huge, ErrorCode::kTooBig, true},
      {"body of 2^31", long_body, ErrorCode::kTooBig, true},
      {"unknown major", major, ErrorCode::kPeerProtocol, true},
  };
  for (const Stranger& s : strangers) {
    SCOPED_TRACE(s.name);
    const uint64_t before = target().refusals(s.counted);
    const uint64_t all = target().refusals();
    auto c = Connect();
    c->Send(s.bytes);
    const auto words = LastWords(*c);  // and the connection is closed
    EXPECT_EQ(words.has_value(), s.answered);
    EXPECT_EQ(target().refusals(s.counted), before + 1);
    EXPECT_EQ(target().refusals(), all + 1);
    if (s.counted == ErrorCode::kPeerProtocol && words) {
      EXPECT_NE(words->message().find("9.1"), std::string::npos) << words->message();
      EXPECT_NE(words->message().find(VersionText(kProtocolMajor, kProtocolMinor)), std::string::npos);
    }
  }
  EXPECT_EQ(target().admitted(), 0U);
}

TEST_P(Hostile, P15_AnotherMinorUsesWhatBothKnow) {
  for (const uint8_t minor : {uint8_t{0}, static_cast<uint8_t>(kProtocolMinor + 1), uint8_t{255}}) {
    auto c = Connect();
    FrameBytes out = HelloBytes(target(), minor);
    c->Send(out);
    FrameHeader header;
    FrameBytes body;
    ASSERT_TRUE(c->ReadFrame(&header, &body));
    ASSERT_EQ(header.type, FrameType::kHelloOk);
    EXPECT_EQ(header.minor, kProtocolMinor);
    auto reply = DecodeHelloOk(body);
    ASSERT_TRUE(reply.ok());
    EXPECT_EQ(reply->minor, std::min(minor, kProtocolMinor));
    EXPECT_EQ(reply->grant_time_ms != 0, minor >= kMinorGrantClock);
    // Reads and writes both work.
    segment_[5] = std::byte{55};
    out.clear();
    const auto read = target().MakeGrant(Right::kRead, kPlace, {5, 1});
    AppendRequest(FrameType::kRead, 0, 1, kPlace, 5, 1, read.get(), &out);
    const auto write = target().MakeGrant(Right::kWrite, kPlace, {6, 1});
    AppendRequest(FrameType::kWrite, 0, 2, kPlace, 6, 1, write.get(), &out);
    out.push_back(std::byte{66});
    c->Send(out);
    bool got_read = false, got_write = false;
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(c->ReadFrame(&header, &body));
      if (header.type == FrameType::kReadOk) {
        std::byte byte{};
        ASSERT_TRUE(c->Read({&byte, 1}));
        got_read = byte == std::byte{55};
      }
      got_write = got_write || header.type == FrameType::kWriteOk;
    }
    EXPECT_TRUE(got_read && got_write);
    EXPECT_EQ(segment_[6], std::byte{66});
  }
}

TEST_P(Hostile, P13_HostileDataFrames) {
  auto c = Greeted();
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, 4096});
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, 4096});
  struct Case {
    SegmentRef place;
    uint64_t offset, length;
    ErrorCode code;
  };
  const std::vector<Case> cases = {
      {kPlace, kSegmentBytes - 1, 2, ErrorCode::kOutOfRange},
      {kPlace, UINT64_MAX - 7, 16, ErrorCode::kOutOfRange},
      {kPlace, 1, UINT64_MAX, ErrorCode::kOutOfRange},
      {{77, 4}, 0, 16, ErrorCode::kUnknownSegment},
      {{kPlace.segment, kPlace.epoch - 1}, 0, 16, ErrorCode::kOldEpoch},
      {kPlace, 0, uint64_t{1} << 40, ErrorCode::kOutOfRange},
      {kPlace, 8192, 16, ErrorCode::kBadGrant},
      {kPlace, 0, 0, ErrorCode::kOutOfRange},
  };
  const uint64_t resident = ResidentBytes();
  uint64_t id = 1;
  std::vector<FrameType> types = {FrameType::kRead, FrameType::kWrite};
  if (local()) types.push_back(FrameType::kAdmit);
  for (const Case& k : cases) {
    for (const FrameType type : types) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(type) << " " << k.offset << "+" << k.length);
      const uint64_t before = target().refusals();
      FrameBytes out;
      AppendRequest(type, 0, ++id, k.place, k.offset, k.length, type == FrameType::kWrite ? write.get() : read.get(),
                    &out);
      if (type == FrameType::kWrite && k.length < 100) out.resize(out.size() + k.length);
      ASSERT_TRUE(c->Send(out));
      const ErrorCode code = Answer(*c);
      const bool against_the_rules = type == FrameType::kWrite && k.length == 0;
      EXPECT_EQ(code, against_the_rules ? ErrorCode::kProtocol : k.code);
      EXPECT_EQ(target().refusals(), before + 1);
      if (against_the_rules || (type == FrameType::kWrite && k.length >= 100)) {
        c->WaitClosed();  // nobody reads so much payload for nothing
        c = Greeted();
      }
    }
  }
  EXPECT_EQ(target().admitted(), 0U);
  if (!kSanitized) {
    EXPECT_LT(ResidentBytes(), resident + (1 << 20));
  }
}

TEST_P(Hostile, FramesOutOfPlaceCloseTheConnection) {
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, 4096});
  std::vector<FrameBytes> frames;
  FrameBytes& hello = frames.emplace_back();
  hello = HelloBytes(target());
  AppendBare(FrameType::kReadOk, 5, 0, &frames.emplace_back());
  AppendBare(FrameType::kHelloOk, 5, 0, &frames.emplace_back());
  AppendBare(FrameType::kRelease, 5, 0, &frames.emplace_back());
  AppendBare(FrameType::kRead, 5, 0, &frames.emplace_back());
  AppendUnmap(4, &frames.emplace_back());
  AppendMap(0, {.map = 1, .size = 4096}, &frames.emplace_back());  // without a descriptor
  FrameBytes& mismatch = frames.emplace_back();
  AppendRequest(FrameType::kWrite, 0, 9, kPlace, 0, 100, read.get(), &mismatch);
  const uint64_t other = 200;
  std::memcpy(mismatch.data() + 24, &other, 8);
  Reseal(&mismatch);
  if (!local()) {
    AppendAttach(3, kPlace, &frames.emplace_back());
    AppendRequest(FrameType::kAdmit, 0, 4, kPlace, 0, 100, read.get(), &frames.emplace_back());
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    SCOPED_TRACE(i);
    auto c = Greeted();
    c->Send(frames[i]);
    const auto words = LastWords(*c);
    ASSERT_TRUE(words.has_value());
    EXPECT_EQ(words->code(), ErrorCode::kProtocol) << words->message();
  }
  // Nothing but HELLO comes first.
  auto c = Connect();
  FrameBytes out;
  AppendRequest(FrameType::kRead, 0, 1, kPlace, 0, 100, read.get(), &out);
  c->Send(out);
  const auto words = LastWords(*c);
  ASSERT_TRUE(words.has_value());
  EXPECT_EQ(words->code(), ErrorCode::kUnauthenticated);
  EXPECT_EQ(target().refusals(ErrorCode::kUnauthenticated), 1U);
  EXPECT_EQ(target().admitted(), 0U);
}

TEST_P(Hostile, FramesArriveByteByByte) {
  auto c = Connect();
  FrameBytes out = HelloBytes(target());
  auto memory = Pattern(300, 3);
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, 300});
  AppendRequest(FrameType::kWrite, 0, 7, kPlace, 0, 300, write.get(), &out);
  out.insert(out.end(), memory.begin(), memory.end());
  for (const std::byte b : out) ASSERT_TRUE(c->Send({&b, 1}));
  FrameHeader header;
  FrameBytes body;
  ASSERT_TRUE(c->ReadFrame(&header, &body));
  ASSERT_TRUE(c->ReadFrame(&header, &body));
  EXPECT_EQ(header.type, FrameType::kWriteOk);
  EXPECT_TRUE(Same(segment_.first(300), memory));
}

TEST_P(Hostile, T37_AWriteDoesNotMeetAReadUnderWay) {
  // A reader that takes nothing: its range stays in use for as long as its connection lives.
  auto slow = Greeted();
  FrameBytes out;
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  AppendRequest(FrameType::kRead, 0, 1, kPlace, 0, kSegmentBytes, read.get(), &out);
  slow->Send(out);
  EXPECT_TRUE(Eventually([&] { return target().live() == 1; }));
  auto writer = Greeted();
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, kSegmentBytes});
  out.clear();
  AppendRequest(FrameType::kWrite, 0, 1, kPlace, 4096, 4, write.get(), &out);
  out.resize(out.size() + 4);
  writer->Send(out);
  EXPECT_EQ(Answer(*writer), ErrorCode::kInUse);
  slow.reset();
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
  writer->Send(out);
  EXPECT_EQ(Answer(*writer), ErrorCode::kExists);
}

TEST_P(Hostile, AReadIsInUseUntilItsBytesAreTaken) {
  auto c = Greeted();
  FrameBytes out;
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  AppendRequest(FrameType::kRead, 0, 1, kPlace, 0, kSegmentBytes, read.get(), &out);
  c->Send(out);
  FrameHeader header;
  FrameBytes body;
  ASSERT_TRUE(c->ReadFrame(&header, &body));
  EXPECT_EQ(target().live(), 1);
  EXPECT_TRUE(c->Drain(header.payload_bytes));
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
}

TEST_P(Hostile, RevokedUsesEnd) {
  // A write in mid-payload: the rest is dropped, the peer told, the connection good.
  auto c = Greeted();
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, 4096}, TestTarget::kUser, 60'000, 99);
  FrameBytes out;
  AppendRequest(FrameType::kWrite, 0, 1, kPlace, 0, 4096, write.get(), &out);
  out.resize(out.size() + 1000);
  c->Send(out);
  EXPECT_TRUE(Eventually([&] { return target().live() == 1; }));
  target().ClosePut({99});
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
  EXPECT_EQ(Answer(*c), ErrorCode::kStalePut);
  out.assign(3096, std::byte{});
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, 4});
  AppendRequest(FrameType::kRead, 0, 2, kPlace, 0, 4, read.get(), &out);
  c->Send(out);
  EXPECT_EQ(Answer(*c), ErrorCode::kExists);
  EXPECT_TRUE(c->Drain(4));
  // A read whose bytes are on their way: what was promised cannot be kept, so the connection ends.
  const auto all = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  out.clear();
  AppendRequest(FrameType::kRead, 0, 3, kPlace, 0, kSegmentBytes, all.get(), &out);
  c->Send(out);
  EXPECT_TRUE(Eventually([&] { return target().live() >= 1; }));
  FrameHeader header;
  FrameBytes body;
  ASSERT_TRUE(c->ReadFrame(&header, &body));
  target().RevokeAll();
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
  EXPECT_FALSE(c->Drain(header.payload_bytes));
}

TEST_P(Hostile, AClientThatDiesInMidWriteGivesTheRangeBack) {
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, 1 << 20});
  auto c = Greeted();
  FrameBytes out;
  AppendRequest(FrameType::kWrite, 0, 1, kPlace, 0, 1 << 20, write.get(), &out);
  out.resize(out.size() + 5000);
  c->Send(out);
  EXPECT_TRUE(Eventually([&] { return target().live() == 1; }));
  c.reset();
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
}

TEST_P(Hostile, TimeOutsOfConnections) {
  store_.reset();
  Start({.max_connections = 4,
         .max_unauthenticated = 2,
         .hello_timeout_ms = 50,
         .idle_timeout_ms = 50,
         .stall_timeout_ms = 50,
         .max_held = 2,
         .max_maps = 1,
         .max_map_bytes = 1 << 20});
  // No greeting.
  auto mute = Connect();
  mute->WaitClosed();
  EXPECT_EQ(target().refusals(ErrorCode::kUnauthenticated), 1U);
  // Nothing to do.
  auto idle = Greeted();
  idle->WaitClosed();
  // Half a payload, then nothing.
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, 1 << 20});
  auto half = Greeted();
  FrameBytes out;
  AppendRequest(FrameType::kWrite, 0, 1, kPlace, 0, 1 << 20, write.get(), &out);
  out.resize(out.size() + 5000);
  half->Send(out);
  half->WaitClosed();
  EXPECT_EQ(target().refusals(ErrorCode::kDeadline), 1U);
  // An answer that nobody reads.
  auto deaf = Greeted();
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  out.clear();
  for (uint64_t id = 1; id <= 20; ++id) {
    AppendRequest(FrameType::kRead, 0, id, kPlace, 0, kSegmentBytes, read.get(), &out);
  }
  deaf->Send(out);
  EXPECT_TRUE(Eventually([&] { return target().refusals(ErrorCode::kDeadline) == 2; }));
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
  deaf.reset();
  // More connections than are allowed.
  std::vector<std::unique_ptr<RawConnection>> many;
  for (int i = 0; i < 3; ++i) many.push_back(Connect());
  many.back()->WaitClosed();
  EXPECT_GE(target().refusals(ErrorCode::kRetry), 1U);
}

TEST_P(Hostile, AThousandRequestsWithoutReadingAnswers) {
  auto c = Greeted();
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  std::thread sender([&] {
    FrameBytes out;
    for (uint64_t id = 1; id <= 1000; ++id) {
      out.clear();
      AppendRequest(FrameType::kRead, 0, id, kPlace, 0, kSegmentBytes, read.get(), &out);
      if (!c->Send(out)) return;
    }
  });
  // The server stops taking requests at its bound, and others are served meanwhile.
  EXPECT_TRUE(Eventually([&] { return target().live() > 0; }));
  for (int i = 0; i < 50; ++i) {
    auto other = Greeted();
    FrameBytes out;
    AppendRequest(FrameType::kRead, 0, 1, kPlace, 0, 100, read.get(), &out);
    other->Send(out);
    EXPECT_EQ(Answer(*other), ErrorCode::kExists);
  }
  EXPECT_LE(target().live(), 128 + 1 + 256);
  c->Shutdown();
  sender.join();
}

TEST_P(Hostile, T40_ABitFlipsInAHeader) {
  if (local()) GTEST_SKIP() << "a proxy does not pass descriptors; the frames are the same";
  FlippingProxy proxy(address());
  PeerAddress through = store_->address(GetParam());
  through.data_address = proxy.address();
  const auto pattern = Pattern(4096, 40);
  std::memcpy(segment_.data(), pattern.data(), pattern.size());
  std::vector<std::byte> memory(4096);
  Random random(40);
  // Bytes of the first request behind HELLO, and of the first answer behind HELLO_OK: each field once, several bits.
  const uint64_t hello = HelloBytes(target()).size();
  const uint64_t hello_ok = kHeaderBytes + 24;
  for (const auto direction : {FlippingProxy::Direction::kToServer, FlippingProxy::Direction::kToClient}) {
    const uint64_t base = direction == FlippingProxy::Direction::kToServer ? hello : hello_ok;
    for (const uint64_t field : {0, 4, 5, 6, 7, 8, 16, 20, 24, 32, 40}) {
      for (const OpKind kind : {OpKind::kRead, OpKind::kWrite}) {
        const int bit = static_cast<int>(random.Below(8));
        SCOPED_TRACE(testing::Message() << "field " << field << " bit " << bit << " direction "
                                        << static_cast<int>(direction) << " kind " << static_cast<int>(kind));
        proxy.Flip(direction, base + field, bit);
        const OpResult r = RunThrough(through, kind, memory, nullptr, 1);
        EXPECT_EQ(r.state, State::kFailed);
        EXPECT_EQ(r.code, ErrorCode::kPeerProtocol) << r.message;
      }
    }
  }
  // In HELLO and HELLO_OK as well, body included.
  for (uint64_t at = 5; at < hello; at += 5) {  // a stranger without the magic gets no answer: see T30
    proxy.Flip(FlippingProxy::Direction::kToServer, at, static_cast<int>(at % 8));
    EXPECT_EQ(RunThrough(through, OpKind::kRead, memory, nullptr, 1).code, ErrorCode::kPeerProtocol) << at;
  }
  for (uint64_t at = 0; at < hello_ok; at += 5) {
    proxy.Flip(FlippingProxy::Direction::kToClient, at, static_cast<int>(at % 8));
    EXPECT_EQ(RunThrough(through, OpKind::kRead, memory, nullptr, 1).code, ErrorCode::kPeerProtocol) << at;
  }
  // The rest of a request: place, grant, extents.
  for (uint64_t at = kHeaderBytes; at < kHeaderBytes + 104; at += 3) {
    proxy.Flip(FlippingProxy::Direction::kToServer, hello + at, static_cast<int>(at % 8));
    EXPECT_EQ(RunThrough(through, OpKind::kRead, memory, nullptr, 1).code, ErrorCode::kPeerProtocol) << at;
  }
  proxy.Clear();
  EXPECT_EQ(RunThrough(through, OpKind::kRead, memory, nullptr, 1).state, State::kOk);
}

TEST_P(Hostile, T40_ABitFlipsInThePayload) {
  if (local()) GTEST_SKIP() << "a proxy does not pass descriptors";
  store_.reset();
  store_ = std::make_unique<Store>(SystemClock::Get());
  segment_ = target().AddSegment(kPlace, 65 << 20);
  FlippingProxy proxy(address());
  PeerAddress through = store_->address(GetParam());
  through.data_address = proxy.address();
  class Sums final : public PieceObserver {
   public:
    explicit Sums(uint64_t size) : hasher(size) {}
    void OnPiece(uint64_t offset, std::span<const std::byte> piece) override { hasher.Feed(offset, piece); }
    void OnRestart(uint64_t offset, uint64_t) override { hasher.ResetBlock(offset / kBlockBytes); }
    void OnHashed(uint64_t, uint64_t, uint64_t) override {}
    BlockHasher hasher;
  };
  Random random(41);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{1} << 20, (uint64_t{1} << 20) + 1, uint64_t{64} << 20}) {
    const auto pattern = Pattern(bytes, bytes);
    BlockHasher good(bytes);
    good.Feed(0, pattern);
    const auto sums = good.Finish(pattern);
    std::memcpy(segment_.data(), pattern.data(), bytes);
    // Within the first slice's payload, whichever that is.
    const uint64_t spot = random.Below(std::min<uint64_t>(bytes, 1 << 20));
    std::vector<std::byte> memory(bytes);
    proxy.Flip(FlippingProxy::Direction::kToClient, kHeaderBytes + 24 + kHeaderBytes + spot, 3);
    Sums seen(bytes);
    OpResult r = RunThrough(through, OpKind::kRead, memory, &seen, 0);
    // The engine moves bytes; the sums that it takes on the way convict them.
    if (r.state == State::kOk) {
      EXPECT_NE(seen.hasher.Finish(memory), sums);
      EXPECT_FALSE(Same(memory, pattern));
    } else {
      EXPECT_EQ(r.code, ErrorCode::kPeerProtocol) << r.message;
    }
    memory = pattern;
    proxy.Flip(FlippingProxy::Direction::kToServer, HelloBytes(target()).size() + kHeaderBytes + 104 + spot, 3);
    r = RunThrough(through, OpKind::kWrite, memory, nullptr, 0);
    if (r.state == State::kOk) {
      BlockHasher there(bytes);
      there.Feed(0, segment_.first(bytes));
      EXPECT_NE(there.Finish(segment_.first(bytes)), sums);  // the first read finds it
    }
    proxy.Clear();
  }
  EXPECT_GE(proxy.flips(), 8U);  // a large one may use two connections
}

}  // namespace
}  // namespace tiercel::transfer
