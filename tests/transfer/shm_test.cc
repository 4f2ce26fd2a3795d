// Shared memory: mappings, views, and what is refused.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <latch>

#include "base/checksum.h"
#include "tests/transfer/fixture.h"

namespace tiercel::transfer {
namespace {

using State = OpResult::State;
constexpr SegmentRef kPlace{1, 4};
constexpr uint64_t kSegmentBytes = 64 << 20;

class Shm : public testing::Test {
 protected:
  Shm() : store_(std::make_unique<Store>(SystemClock::Get())) {}
  void TearDown() override {
    engine_.reset();
    if (store_) {
      EXPECT_TRUE(Eventually([&] { return store_->target.live() == 0; }));
    }
  }
  void Build(TestTarget::Sharing sharing = TestTarget::Sharing::kSealed, bool with_tcp = false) {
    segment_ = target().AddSegment(kPlace, kSegmentBytes, sharing);
    inode_ = target().inode(kPlace);
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(shm::MakeTransport());
    if (with_tcp) transports.push_back(tcp::MakeTransport());
    EngineOptions options;
    options.jitter = 0;
    auto engine =
        Engine::Create(options, std::move(transports), [this] { return Result<Ticket>(target().MakeTicket()); });
    engine_ = std::move(engine).value();
    address_ = store_->address(TransportKind::kShm);
    peer_ = engine_->AddPeer(address_);
  }
  TestTarget& target() { return store_->target; }
  Operation Op(OpKind kind, uint64_t offset, std::span<std::byte> memory) {
    const Right right = kind == OpKind::kRead ? Right::kRead : Right::kWrite;
    return {.kind = kind,
            .peer = peer_,
            .place = kPlace,
            .offset = offset,
            .memory = memory,
            .grant = target().MakeGrant(right, kPlace, {0, UINT64_MAX}),
            .registered = false};
  }
  Result<std::unique_ptr<Engine::View>> View(Extent range) {
    return engine_->MapView(peer_, kPlace, range, target().MakeGrant(Right::kRead, kPlace, range), kGuardMs);
  }
  // Mappings of the segment's file in this process, other than the store's own writable one.
  std::vector<std::string> ReadOnlyMappings() const {
    std::vector<std::string> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(" " + std::to_string(inode_) + " ") == std::string::npos) continue;
      if (line.find(" r--s ") != std::string::npos) found.push_back(line);
    }
    return found;
  }

  std::unique_ptr<Store> store_;
  std::unique_ptr<Engine> engine_;
  PeerAddress address_;
  PeerHandle peer_;
  std::span<std::byte> segment_;
  ino_t inode_ = 0;
};

TEST_F(Shm, T34_EightThreadsOneMapping) {
  Build();
  const auto pattern = Pattern(100'000, 34);
  std::memcpy(segment_.data() + 777, pattern.data(), pattern.size());
  std::vector<std::thread> threads;
  std::latch ready(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      ready.arrive_and_wait();
      std::vector<std::byte> memory(pattern.size());
      for (int i = 0; i < 20; ++i) {
        const OpResult r = RunOne(*engine_, Op(OpKind::kRead, 777, memory));
        ASSERT_EQ(r.state, State::kOk) << r.message;
        ASSERT_EQ(r.transport, TransportKind::kShm);
        ASSERT_TRUE(Same(memory, pattern));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReadOnlyMappings().size(), 1U);
  engine_.reset();
  EXPECT_EQ(ReadOnlyMappings().size(), 0U);
}

TEST_F(Shm, T34_NobodyWritesThroughAMapping) {
  Build();
  std::vector<std::byte> memory(64);
  ASSERT_EQ(RunOne(*engine_, Op(OpKind::kRead, 0, memory)).state, State::kOk);
  auto share = target().ShareSegment(kPlace, {});
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, share->memory.get(), 0), MAP_FAILED);
  // Opened anew for writing it still cannot be written.
  const std::string path = "/proc/self/fd/" + std::to_string(share->memory.get());
  UniqueFd again(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (again) {
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
    EXPECT_LT(pwrite(again.get(), "x", 1, 0), 0);
    EXPECT_NE(ftruncate(again.get(), 0), 0);
  }
  auto view = View({0, 4096});
  ASSERT_TRUE(view.ok());
  EXPECT_DEATH(const_cast<std::byte&>((*view)->bytes()[0]) = std::byte{1}, "");
}

TEST_F(Shm, T34_ShortAndShrinkableFilesAreRefused) {
  for (const auto sharing :
       {TestTarget::Sharing::kShort, TestTarget::Sharing::kUnsealed, TestTarget::Sharing::kRefused}) {
    Build(sharing);
    segment_[9] = std::byte{9};
    std::vector<std::byte> memory(3 << 20);
    OpResult r = RunOne(*engine_, Op(OpKind::kRead, 0, memory));
    EXPECT_EQ(r.state, State::kOk) << r.message;  // through the socket
    EXPECT_TRUE(Same(memory, segment_.first(memory.size())));
    EXPECT_EQ(ReadOnlyMappings().size(), 0U);
    const uint64_t shares = target().shares();
    EXPECT_EQ(RunOne(*engine_, Op(OpKind::kRead, 0, memory)).state, State::kOk);
    EXPECT_EQ(target().shares(), shares);  // not asked again
    auto view = View({0, 4096});
    ASSERT_FALSE(view.ok());
    EXPECT_EQ(view.error().code(), ErrorCode::kNoDevice);
    EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
    engine_.reset();
  }
}

TEST_F(Shm, T34_TheOwnerHasDied) {
  Build();
  std::vector<std::byte> memory(64);
  ASSERT_EQ(RunOne(*engine_, Op(OpKind::kRead, 0, memory)).state, State::kOk);
  store_->shm_server->Stop();
  const OpResult r = RunOne(*engine_, Op(OpKind::kRead, 0, memory));
  EXPECT_EQ(r.code, ErrorCode::kStaleIncarnation) << r.message;
}

TEST_F(Shm, AViewIsPinnedUntilItIsReleased) {
  Build();
  const auto pattern = Pattern(2 << 20, 7);
  std::memcpy(segment_.data() + 4096, pattern.data(), pattern.size());
  auto view = View({4096, pattern.size()});
  ASSERT_TRUE(view.ok()) << view.error().ToString();
  EXPECT_TRUE(Same((*view)->bytes(), pattern));
  EXPECT_TRUE((*view)->alive());
  EXPECT_EQ(target().live(), 1);
  // Nobody writes there meanwhile, and a deadline elsewhere does not end it.
  std::vector<std::byte> memory(100);
  EXPECT_EQ(RunOne(*engine_, Op(OpKind::kWrite, 8192, memory)).code, ErrorCode::kInUse);
  EXPECT_TRUE((*view)->alive());
  view->reset();
  EXPECT_TRUE(Eventually([&] { return target().live() == 0; }));
  EXPECT_EQ(RunOne(*engine_, Op(OpKind::kWrite, 8192, memory)).state, State::kOk);
}

TEST_F(Shm, AViewOutlivesItsStoreAndEngine) {
  Build();
  const auto pattern = Pattern(4096, 8);
  std::memcpy(segment_.data(), pattern.data(), pattern.size());
  auto view = View({0, 4096});
  auto other = View({0, 100});
  ASSERT_TRUE(view.ok() && other.ok());
  store_->shm_server->Stop();
  EXPECT_FALSE((*view)->alive());
  EXPECT_TRUE(Same((*view)->bytes(), pattern));
  engine_.reset();
  EXPECT_FALSE((*view)->alive());
  EXPECT_TRUE(Same((*view)->bytes(), pattern));
}

TEST_F(Shm, ViewsAreRefusedLikeReads) {
  Build();
  EXPECT_EQ(engine_->MapView(peer_, kPlace, {0, 10}, nullptr, 1000).error().code(), ErrorCode::kBadGrant);
  EXPECT_EQ(View({kSegmentBytes, 10}).error().code(), ErrorCode::kOutOfRange);
  EXPECT_EQ(View({0, 0}).error().code(), ErrorCode::kInvalid);
  const PeerHandle far =
      engine_->AddPeer({.name = "far", .incarnation = {5}, .data_address = "127.0.0.1:1", .data_socket = {}});
  EXPECT_EQ(engine_->MapView(far, kPlace, {0, 10}, nullptr, 1000).error().code(), ErrorCode::kNoDevice);
}

TEST_F(Shm, WritesFromRegisteredMemoryAreCopiedAndHashedByTheStore) {
  Build();
  class Told final : public PieceObserver {
   public:
    void OnPiece(uint64_t, std::span<const std::byte>) override { ++pieces; }
    void OnRestart(uint64_t, uint64_t) override {}
    void OnHashed(uint64_t offset, uint64_t length, uint64_t sum) override { sums[offset] = {length, sum}; }
    int pieces = 0;
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> sums;
  };
  const uint64_t bytes = (2 << 20) + 777;
  auto memory = engine_->AllocateRegistered(bytes + 64);
  ASSERT_TRUE(memory.ok());
  const auto pattern = Pattern(bytes, 9);
  std::memcpy(memory->data() + 64, pattern.data(), bytes);
  Told told;
  Operation op = Op(OpKind::kWrite, 512, memory->subspan(64, bytes));
  op.observer = &told;
  op.registered = true;
  const OpResult r = RunOne(*engine_, op);
  EXPECT_EQ(r.state, State::kOk) << r.message;
  EXPECT_TRUE(Same(segment_.subspan(512, bytes), pattern));
  EXPECT_EQ(told.pieces, 0);
  ASSERT_EQ(told.sums.size(), 3U);
  for (const auto& [offset, block] : told.sums) {
    EXPECT_EQ(block.first, std::min<uint64_t>(1 << 20, bytes - offset));
    EXPECT_EQ(block.second, HashBytes(std::span(pattern).subspan(offset, block.first)));
  }
  engine_->FreeRegistered(*memory);
  // Memory that the store will not map goes through the socket.
  store_->shm_server->Stop();
  store_->shm_server =
      std::move(shm::MakeServer({.path = store_->socket_path, .limits = {.max_map_bytes = 4096}}, &target())).value();
  auto again = engine_->AllocateRegistered(bytes);
  std::memcpy(again->data(), pattern.data(), bytes);
  std::memset(segment_.data(), 0, bytes);
  op = Op(OpKind::kWrite, 0, *again);
  op.registered = true;
  for (int i = 0; i < 2; ++i) {
    const OpResult s = RunOne(*engine_, op);
    EXPECT_EQ(s.state, State::kOk) << s.message;
    EXPECT_TRUE(Same(segment_.first(bytes), pattern));
  }
  engine_->FreeRegistered(*again);
}

TEST_F(Shm, MemoryThatCanBeTakenAwayIsNotMapped) {
  Build();
  auto c = RawConnection::Connect(store_->socket_path);
  ASSERT_TRUE(c->Greet(target().MakeTicket(), target().incarnation()));
  const auto grant = target().MakeGrant(Right::kWrite, kPlace, {0, 4096});
  uint32_t id = 0;
  const auto offer = [&](int seals, uint64_t real, uint64_t claimed, uint64_t offset, uint64_t length) {
    UniqueFd file(memfd_create("offer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(real)), 0);
    if (seals != 0) {
      EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
    }
    FrameBytes out;
    AppendMap(0, {.map = ++id, .size = claimed}, &out);
    EXPECT_TRUE(c->SendWithFile(out, file.get()));
    out.clear();
    AppendCopy(id, kPlace, 0, length, grant.get(), id, offset, 0, &out);
    EXPECT_TRUE(c->Send(out));
    FrameHeader header;
    FrameBytes body;
    EXPECT_TRUE(c->ReadFrame(&header, &body));
    bool well_formed = false;
    return header.type == FrameType::kError ? DecodeError(body, &well_formed).code() : ErrorCode::kExists;
  };
  EXPECT_EQ(offer(F_SEAL_SHRINK, 8192, 8192, 4096, 4096), ErrorCode::kExists);
  EXPECT_EQ(offer(0, 8192, 8192, 0, 4096), ErrorCode::kNotRegistered);
  EXPECT_EQ(offer(F_SEAL_GROW, 8192, 8192, 0, 4096), ErrorCode::kNotRegistered);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 4096, 8192, 0, 4096), ErrorCode::kNotRegistered);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 4096, 0, 0, 4096), ErrorCode::kNotRegistered);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 4096, uint64_t{1} << 62, 0, 4096), ErrorCode::kNotRegistered);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 8192, 8192, 8192, 1), ErrorCode::kOutOfRange);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 8192, 8192, UINT64_MAX, 4096), ErrorCode::kOutOfRange);
  EXPECT_EQ(offer(F_SEAL_SHRINK, 8192, 8192, 4096, UINT64_MAX), ErrorCode::kOutOfRange);
  // A pipe is no memory.
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reading(ends[0]), writing(ends[1]);
  FrameBytes out;
  AppendMap(0, {.map = ++id, .size = 4096}, &out);
  EXPECT_TRUE(c->SendWithFile(out, reading.get()));
  out.clear();
  AppendCopy(id, kPlace, 0, 10, grant.get(), id, 0, 0, &out);
  c->Send(out);
  FrameHeader header;
  FrameBytes body;
  ASSERT_TRUE(c->ReadFrame(&header, &body));
  EXPECT_EQ(header.type, FrameType::kError);
}

TEST_F(Shm, ASocketThatIsListenedOnIsNotTakenAway) {
  auto second = shm::MakeServer({.path = store_->socket_path}, &target());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kNameInUse);
  store_->shm_server->Stop();
  store_->shm_server.reset();
  // What a dead process left is.
  const std::string path = TemporarySocketPath();
  const pid_t child = fork();
  if (child == 0) {
    RawPeer left(true, RawPeer::Talk());
    (void)!rename(left.address().c_str(), path.c_str());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  auto third = shm::MakeServer({.path = path}, &target());
  EXPECT_TRUE(third.ok());
  (*third)->Stop();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(Shm, AnotherProcessReadsAndWrites) {
  Build();
  const auto pattern = Pattern(3 << 20, 11);
  std::memcpy(segment_.data(), pattern.data(), pattern.size());
  const Ticket ticket = target().MakeTicket();
  const auto read = target().MakeGrant(Right::kRead, kPlace, {0, kSegmentBytes});
  const auto write = target().MakeGrant(Right::kWrite, kPlace, {0, kSegmentBytes});
  engine_.reset();
#ifndef TIERCEL_SANITIZED  // a forked child may not start threads under TSan
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::unique_ptr<Transport>> transports;
    transports.push_back(shm::MakeTransport());
    auto engine = Engine::Create({}, std::move(transports), [&] { return Result<Ticket>(ticket); });
    const PeerHandle peer = (*engine)->AddPeer(address_);
    auto memory = (*engine)->AllocateRegistered(pattern.size());
    Operation op{.kind = OpKind::kRead, .peer = peer, .place = kPlace, .offset = 0, .memory = *memory, .grant = read};
    bool good = RunOne(**engine, op).state == State::kOk && Same(*memory, pattern);
    op.kind = OpKind::kWrite;
    op.offset = 16 << 20;
    op.grant = write;
    good = good && RunOne(**engine, op).state == State::kOk;
    (*engine)->FreeRegistered(*memory);
    engine->reset();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Same(segment_.subspan(16 << 20, pattern.size()), pattern));
#endif
}

}  // namespace
}  // namespace tiercel::transfer
