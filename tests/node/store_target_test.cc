// Admission, closing and pinning at a store, over real memory.
#include "server/node/store_target.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "tests/node/store_fixture.h"

namespace tiercel::node {
namespace {

using StoreTargetTest = StoreFixture;
using Versions = std::vector<Version>;

TEST_F(StoreTargetTest, AdmittedMemoryIsTheRangeItself) {
  auto write = Admit(Kind::kWrite, 7, {4096, 100});
  ASSERT_TRUE(write.ok());
  EXPECT_EQ((*write)->memory.data(), segment_->base() + 4096);
  EXPECT_EQ((*write)->memory.size(), 100u);
  EXPECT_EQ((*write)->file, segment_->file());
  EXPECT_EQ((*write)->file_offset, 4096u);
  std::memset((*write)->memory.data(), 0x55, 100);
  write->reset();
  auto read = Admit(Kind::kRead, 7, {4096, 100});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ((*read)->memory[99], std::byte{0x55});
  const StoreTargetFigures figures = target_->Figures();
  EXPECT_EQ(figures.writes, 1u);
  EXPECT_EQ(figures.write_bytes, 100u);
  EXPECT_EQ(figures.reads, 1u);
  EXPECT_EQ(figures.uses_now, 1u);
  EXPECT_EQ(figures.puts_open, 1u);
}

TEST_F(StoreTargetTest, ClosingEndsWhatIsInFlightAndIsToldOnce) {
  int revoked = 0;
  auto first = Admit(Kind::kWrite, 7, {0, 100}, [&] { ++revoked; });
  auto second = Admit(Kind::kWrite, 7, {200, 100}, [&] { ++revoked; });
  auto other = Admit(Kind::kWrite, 8, {400, 100}, [&] { ADD_FAILURE() << "another put's write was revoked"; });
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  Close(7);
  EXPECT_EQ(revoked, 2);
  EXPECT_TRUE(TakeClosed().empty());  // revoked is not ended
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 7, {600, 1})), ErrorCode::kStalePut);
  first->reset();
  EXPECT_TRUE(TakeClosed().empty());
  second->reset();
  EXPECT_EQ(TakeClosed(), Versions{Version{7}});
  EXPECT_TRUE(TakeClosed().empty());
  Close(7);  // the answer was lost, the order comes again
  EXPECT_EQ(TakeClosed(), Versions{Version{7}});
  EXPECT_EQ(revoked, 2);
}

TEST_F(StoreTargetTest, RevokeMayEndTheUseAtOnce) {
  AccessPtr held;
  auto write = Admit(Kind::kWrite, 7, {0, 100}, [&] { held.reset(); });
  ASSERT_TRUE(write.ok());
  held = std::move(write).value();
  Close(7);
  EXPECT_EQ(held, nullptr);
  EXPECT_EQ(TakeClosed(), Versions{Version{7}});
}

// P-07, the store's part: the writer is gone with half of its bytes written, the key is taken over in other space.
TEST_F(StoreTargetTest, AWriterThatDiesHalfWay) {
  auto done = AdmitWithin(Kind::kWrite, 7, ExtentList(Extent{0, 2048}), {0, 1024});
  ASSERT_TRUE(done.ok());
  done->reset();
  bool cut = false;
  auto stuck = AdmitWithin(Kind::kWrite, 7, ExtentList(Extent{0, 2048}), {1024, 1024}, [&] { cut = true; });
  ASSERT_TRUE(stuck.ok());
  Close(7);
  EXPECT_TRUE(cut);
  ASSERT_TRUE(Admit(Kind::kWrite, 9, {4096, 2048}).ok());
  stuck->reset();  // the server has cut the socket
  EXPECT_EQ(TakeClosed(), Versions{Version{7}});
  // Now the master may give the space to others, and a late frame of the dead writer finds its put closed.
  auto next = Admit(Kind::kWrite, 10, {0, 2048});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 7, {1024, 1024})), ErrorCode::kStalePut);
  EXPECT_EQ(target_->Figures().in_use_by_other, 0u);
}

TEST_F(StoreTargetTest, FloorClosesOlderPuts) {
  bool revoked = false;
  auto old_put = Admit(Kind::kWrite, 7, {0, 100}, [&] { revoked = true; });
  auto new_put = Admit(Kind::kWrite, 20, {200, 100});
  ASSERT_TRUE(old_put.ok() && new_put.ok());
  target_->RaiseFloor(Version{20});
  EXPECT_TRUE(revoked);
  EXPECT_FALSE(target_->AllClosedBelow(Version{20}));
  old_put->reset();
  EXPECT_TRUE(target_->AllClosedBelow(Version{20}));
  EXPECT_TRUE(TakeClosed().empty());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 19, {0, 100})), ErrorCode::kStalePut);
  EXPECT_TRUE(Admit(Kind::kWrite, 20, {0, 100}).ok());
}

TEST_F(StoreTargetTest, AViewKeepsItsPlaceUntilItEnds) {
  auto view = AdmitWithin(Kind::kView, 5, ExtentList(Extent{0, 4096}), {1000, 96});
  ASSERT_TRUE(view.ok());
  ExtentList place;
  place.push_back({0, 2048});
  place.push_back({8192, 2048});
  EXPECT_EQ(CodeOf(AdmitWithin(Kind::kWrite, 9, place, {0, 2048})), ErrorCode::kInUse);
  EXPECT_TRUE(AdmitWithin(Kind::kWrite, 9, place, {8192, 2048}).ok());
  StoreTargetFigures figures = target_->Figures();
  EXPECT_EQ(figures.in_use_by_view, 1u);
  EXPECT_EQ(figures.in_use_by_other, 0u);
  EXPECT_EQ(figures.view_bytes_now, 96u);
  EXPECT_EQ(Refusals(ErrorCode::kInUse), 1u);

  Close(9);  // the writer told the master, which gave up the replica
  EXPECT_EQ(TakeClosed(), Versions{Version{9}});
  EXPECT_TRUE(TakeUnpinned().empty());
  view->reset();
  EXPECT_EQ(TakeUnpinned(), (std::vector<Extent>{{0, 2048}, {8192, 2048}}));
  EXPECT_TRUE(TakeUnpinned().empty());
  EXPECT_TRUE(Admit(Kind::kWrite, 10, {0, 4096}).ok());
}

TEST_F(StoreTargetTest, AViewThatEndsFirstIsNotToldBeforeTheRefusedPutIsClosed) {
  auto view = Admit(Kind::kView, 5, {0, 100});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 9, {0, 100})), ErrorCode::kInUse);
  view->reset();
  EXPECT_TRUE(TakeUnpinned().empty());
  Close(9);
  EXPECT_EQ(TakeUnpinned(), (std::vector<Extent>{{0, 100}}));
}

TEST_F(StoreTargetTest, StaleWinsOverInUse) {
  auto view = Admit(Kind::kView, 5, {0, 100});
  ASSERT_TRUE(view.ok());
  Close(9);
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 9, {0, 100})), ErrorCode::kStalePut);
  EXPECT_EQ(target_->Figures().refused_places, 0u);
}

TEST_F(StoreTargetTest, AReaderThatComesTooLateLearnsThatItsVersionIsGone) {
  auto write = Admit(Kind::kWrite, 9, {0, 100});
  ASSERT_TRUE(write.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kRead, 5, {50, 100})), ErrorCode::kStaleVersion);
  EXPECT_EQ(CodeOf(Admit(Kind::kView, 5, {50, 100})), ErrorCode::kStaleVersion);
  EXPECT_EQ(CodeOf(Admit(Kind::kView, 9, {50, 50})), ErrorCode::kInUse);
  EXPECT_EQ(target_->Figures().views_now, 0u);
}

TEST_F(StoreTargetTest, ASliceSentAgainEndsItsPredecessor) {
  bool cut = false;
  auto first = Admit(Kind::kWrite, 9, {0, 100}, [&] { cut = true; });
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 9, {50, 100})), ErrorCode::kRetry);
  EXPECT_TRUE(cut);
  first->reset();
  EXPECT_TRUE(Admit(Kind::kWrite, 9, {50, 100}).ok());
  EXPECT_EQ(target_->Figures().refused_places, 0u);
}

class BoundedViewsTest : public StoreFixture {
 protected:
  BoundedViewsTest() : StoreFixture({.view_max_bytes = 1000}) {}
};

TEST_F(BoundedViewsTest, PinnedBytesAreBounded) {
  auto first = Admit(Kind::kView, 5, {0, 600});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kView, 6, {1000, 401})), ErrorCode::kRetry);
  auto second = Admit(Kind::kView, 6, {1000, 400});
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(Admit(Kind::kRead, 6, {1000, 4000}).ok());
  first->reset();
  EXPECT_TRUE(Admit(Kind::kView, 7, {0, 600}).ok());
}

class BoundedUsesTest : public StoreFixture {
 protected:
  BoundedUsesTest() : StoreFixture({.puts = {.max_open = 1}, .ranges = {.max_uses = 2}}) {}
};

TEST_F(BoundedUsesTest, FullTablesAskToComeBack) {
  auto first = Admit(Kind::kWrite, 7, {0, 10});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 8, {100, 10})), ErrorCode::kRetry);
  EXPECT_EQ(target_->Figures().uses_now, 1u);  // the refused one left nothing behind
  auto second = Admit(Kind::kRead, 5, {200, 10});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kRead, 5, {200, 10})), ErrorCode::kRetry);
}

TEST_F(StoreTargetTest, WithoutAWordFromTheMasterReadsGoOnAndNothingIsWritten) {
  clock_.Advance(9'999);
  EXPECT_TRUE(Admit(Kind::kWrite, 7, {0, 10}).ok());
  clock_.Advance(1);
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 7, {0, 10})), ErrorCode::kRetry);
  EXPECT_TRUE(Admit(Kind::kRead, 5, {100, 10}).ok());
  EXPECT_TRUE(Admit(Kind::kView, 5, {100, 10}).ok());
  target_->HeardMaster(clock_.Now().boot_ms);
  EXPECT_TRUE(Admit(Kind::kWrite, 7, {0, 10}).ok());
}

TEST_F(StoreTargetTest, ExpiryIsTheMastersClock) {
  // The master's clock stands at 500 ms, whatever ours says.
  target_->SetMasterTime(500, clock_.Now().boot_ms);
  const Grant grant = MakeGrant(Right::kRead, Version{5}, place_, ExtentList(Extent{0, 10}), 1'500);
  const transfer::AccessRequest request{Kind::kRead, place_, 0, 10, &grant};
  EXPECT_TRUE(target_->Admit(request, peer_, nullptr).ok());
  clock_.Advance(999);
  EXPECT_TRUE(target_->Admit(request, peer_, nullptr).ok());
  clock_.Advance(1);
  EXPECT_EQ(CodeOf(target_->Admit(request, peer_, nullptr)), ErrorCode::kGrantExpired);
}

TEST_F(StoreTargetTest, DroppingASegmentRaisesItsEpoch) {
  bool read_cut = false;
  auto read = Admit(Kind::kRead, 5, {0, 10}, [&] { read_cut = true; });
  auto view = Admit(Kind::kView, 5, {0, 10}, [] { ADD_FAILURE() << "views end by themselves"; });
  ASSERT_TRUE(read.ok() && view.ok());
  EXPECT_FALSE(target_->DropSegment({2, 42}));
  EXPECT_TRUE(target_->DropSegment({2, 40}));  // long ago
  EXPECT_EQ(target_->Offers()[0].place, place_);
  EXPECT_TRUE(target_->DropSegment(place_));
  EXPECT_TRUE(target_->DropSegment(place_));  // the order came twice
  EXPECT_TRUE(read_cut);
  EXPECT_EQ(CodeOf(Admit(Kind::kRead, 5, {0, 10})), ErrorCode::kOldEpoch);
  EXPECT_EQ(target_->FindLocal(place_), nullptr);
  EXPECT_FALSE(target_->Drained(2));
  read->reset();
  EXPECT_FALSE(target_->Drained(2));
  view->reset();
  EXPECT_TRUE(target_->Drained(2));
  const auto offers = target_->Offers();
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].place, (SegmentRef{2, 42}));
  place_ = {2, 42};
  EXPECT_TRUE(Admit(Kind::kWrite, 50, {0, 10}).ok());
  EXPECT_NE(target_->FindLocal(place_), nullptr);
}

TEST_F(StoreTargetTest, SharesReadOnlyWhatMayBeShared) {
  const auto share = target_->ShareSegment(place_, peer_);
  ASSERT_TRUE(share.ok());
  EXPECT_EQ(share->size, kSegmentBytes);
  segment_->shared = false;
  const auto refused = target_->ShareSegment(place_, peer_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNoPerm);
  EXPECT_FALSE(target_->ShareSegment({2, 40}, peer_).ok());
  EXPECT_EQ(Refusals(ErrorCode::kOldEpoch), 1u);
}

// P-13 and T-39 (counters), T-36: each refusal is counted by its own cause, exactly once.
TEST_F(StoreTargetTest, RefusalsAreCountedByCause) {
  const Grant grant = MakeGrant(Right::kRead, Version{5}, place_, ExtentList(Extent{0, 4096}), 1'000'000'000);
  const auto ask = [&](SegmentRef place, uint64_t offset, uint64_t length, const Grant* g) {
    return CodeOf(target_->Admit({Kind::kRead, place, offset, length, g}, peer_, nullptr));
  };
  EXPECT_EQ(ask(place_, kSegmentBytes - 1, 2, &grant), ErrorCode::kOutOfRange);
  EXPECT_EQ(Refusals(ErrorCode::kOutOfRange), 1u);
  EXPECT_EQ(ask(place_, UINT64_MAX - 7, 16, &grant), ErrorCode::kOutOfRange);
  EXPECT_EQ(ask(place_, 0, uint64_t{1} << 40, &grant), ErrorCode::kOutOfRange);
  EXPECT_EQ(Refusals(ErrorCode::kOutOfRange), 3u);
  EXPECT_EQ(ask({3, 41}, 0, 1, &grant), ErrorCode::kUnknownSegment);
  EXPECT_EQ(ask({UINT32_MAX, 41}, 0, 1, &grant), ErrorCode::kUnknownSegment);
  EXPECT_EQ(Refusals(ErrorCode::kUnknownSegment), 2u);
  EXPECT_EQ(ask({2, 40}, 0, 1, &grant), ErrorCode::kOldEpoch);
  EXPECT_EQ(Refusals(ErrorCode::kOldEpoch), 1u);
  EXPECT_EQ(ask(place_, 0, 0, &grant), ErrorCode::kInvalid);
  EXPECT_EQ(ask(place_, 0, 1, nullptr), ErrorCode::kBadGrant);
  EXPECT_EQ(Refusals(ErrorCode::kBadGrant), 1u);
  Grant former = grant;
  former.store = Incarnation{1};
  Seal(TestKey(1), &former);
  EXPECT_EQ(ask(place_, 0, 1, &former), ErrorCode::kStaleIncarnation);
  EXPECT_EQ(Refusals(ErrorCode::kStaleIncarnation), 1u);
  target_->CountRefusal(ErrorCode::kPeerProtocol);
  EXPECT_EQ(Refusals(ErrorCode::kPeerProtocol), 1u);
  Ticket ticket;
  EXPECT_FALSE(target_->Authenticate(ticket, "x").ok());
  EXPECT_EQ(Refusals(ErrorCode::kUnauthenticated), 1u);
  EXPECT_EQ(target_->Figures().reads, 0u);
  EXPECT_EQ(target_->Figures().uses_now, 0u);
}

TEST_F(StoreTargetTest, BeforeTheJoinNothingIsLetIn) {
  StoreTarget fresh({.incarnation = kTestStore, .clock = &clock_});
  ASSERT_TRUE(fresh.AddSegment(std::make_unique<TestSegment>(2, 41, 4096)).ok());
  const Grant grant = MakeGrant(Right::kRead, Version{5}, place_, ExtentList(Extent{0, 10}), 1'000'000'000);
  EXPECT_EQ(CodeOf(fresh.Admit({Kind::kRead, place_, 0, 10, &grant}, peer_, nullptr)), ErrorCode::kBadGrant);
  Ticket ticket{.key_id = 0, .user = kUser, .client = 5, .expiry_ms = 1'000'000'000, .mac = {}};
  Seal(TestKey(1), &ticket);
  EXPECT_FALSE(fresh.Authenticate(ticket, "x").ok());
}

TEST_F(StoreTargetTest, SegmentIdsAreChecked) {
  EXPECT_FALSE(target_->AddSegment(std::make_unique<TestSegment>(2, 1, 4096)).ok());
  EXPECT_FALSE(target_->AddSegment(std::make_unique<TestSegment>(StoreTarget::kMaxSegments, 1, 4096)).ok());
}

TEST_F(StoreTargetTest, OwnWritesHoldTheirPutOpenAndTheirRanges) {
  ExtentList place;
  place.push_back({0, 64});
  place.push_back({128, 64});
  ASSERT_TRUE(target_->BeginLocalWrite(place_, Version{30}, place).ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kView, 5, {32, 64})), ErrorCode::kStaleVersion);
  Close(30);
  EXPECT_TRUE(TakeClosed().empty());
  target_->EndLocalWrite(place_, Version{30}, place);
  EXPECT_EQ(TakeClosed(), Versions{Version{30}});
  EXPECT_EQ(target_->Figures().uses_now, 0u);
  const Status late = target_->BeginLocalWrite(place_, Version{30}, place);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), ErrorCode::kStalePut);
  EXPECT_EQ(target_->Figures().uses_now, 0u);
}

TEST_F(StoreTargetTest, OwnWritesDoNotTouchAPinnedView) {
  auto view = Admit(Kind::kView, 5, {150, 10});
  ASSERT_TRUE(view.ok());
  ExtentList place;
  place.push_back({0, 64});
  place.push_back({128, 64});
  const Status refused = target_->BeginLocalWrite(place_, Version{30}, place);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInUse);
  EXPECT_FALSE(target_->BeginLocalWrite({2, 40}, Version{31}, place).ok());
  Close(30);
  view->reset();
  EXPECT_EQ(TakeUnpinned(), (std::vector<Extent>{{0, 64}, {128, 64}}));
}

TEST_F(StoreTargetTest, AnEmptyValueIsWrittenWithoutARange) {
  ASSERT_TRUE(target_->BeginLocalWrite(place_, Version{30}, ExtentList()).ok());
  EXPECT_EQ(target_->Figures().puts_open, 1u);
  target_->EndLocalWrite(place_, Version{30}, ExtentList());
}

TEST_F(StoreTargetTest, AStoppingStoreFinishesWhatIsOpen) {
  ASSERT_TRUE(Admit(Kind::kWrite, 7, {0, 10}).ok());
  target_->RefuseNewPuts();
  EXPECT_TRUE(Admit(Kind::kWrite, 7, {10, 10}).ok());
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, 8, {100, 10})), ErrorCode::kShutdown);
  EXPECT_EQ(target_->open_puts(), 1u);
  Close(7);
  EXPECT_EQ(target_->open_puts(), 0u);
}

// Writers, readers and viewers against a master that closes puts and reuses their space only when they are closed.
// Every put owns its place while it is open, so its bytes must stay as it wrote them; TSan watches the rest.
TEST_F(StoreTargetTest, ManyThreads) {
  constexpr int kPlaces = 8;
  constexpr uint64_t kPlaceBytes = 4096;
  std::atomic<uint64_t> next_put{100};
  std::atomic<int> admitted{0}, closed_seen{0};
  std::atomic<bool> stop{false};
  const auto worker = [&](uint64_t seed) {
    Random random(seed);
    const uint64_t mine = seed % kPlaces;  // one writer a place
    for (int round = 0; round < 300; ++round) {
      const Extent place{mine * kPlaceBytes, kPlaceBytes};
      const uint64_t put = next_put.fetch_add(1);
      std::atomic<bool> revoked{false};
      auto write = Admit(Kind::kWrite, put, place, [&] { revoked = true; });
      if (!write.ok()) {
        // The floor went past a thread that was held up.
        ASSERT_EQ(write.error().code(), ErrorCode::kStalePut) << write.error().message();
        Close(put);
        continue;
      }
      ++admitted;
      std::thread closer;
      if (random.OneIn(4)) closer = std::thread([&] { Close(put); });
      std::memset((*write)->memory.data(), static_cast<int>(put & 0xFF), kPlaceBytes);
      ASSERT_EQ((*write)->memory[17], static_cast<std::byte>(put & 0xFF));
      write->reset();
      if (closer.joinable()) closer.join();
      Close(put);
      auto read = Admit(random.OneIn(2) ? Kind::kRead : Kind::kView, put, place);
      ASSERT_TRUE(read.ok()) << read.error().message();
      ASSERT_EQ((*read)->memory[kPlaceBytes - 1], static_cast<std::byte>(put & 0xFF));
    }
  };
  std::thread reporter([&] {
    while (!stop) {
      closed_seen += static_cast<int>(TakeClosed().size());
      TakeUnpinned();
      target_->Figures();
      target_->RaiseFloor(Version{next_put.load() > 200 ? next_put.load() - 200 : 1});
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> workers;
  for (uint64_t i = 0; i < 4; ++i) workers.emplace_back(worker, i);
  for (auto& t : workers) t.join();
  stop = true;
  reporter.join();
  closed_seen += static_cast<int>(TakeClosed().size());
  EXPECT_GT(admitted, 0);
  EXPECT_GE(closed_seen, 1200);
  EXPECT_EQ(target_->Figures().uses_now, 0u);
}

// What a hand-shake tells a client, so that it need not send an expired grant again (T-31).
TEST_F(StoreTargetTest, GrantsRunOnTheMastersClock) {
  target_->SetMasterTime(5'000, clock_.Now().boot_ms);
  EXPECT_EQ(target_->GrantTimeMs(), 5'000);
  clock_.Advance(70);
  EXPECT_EQ(target_->GrantTimeMs(), 5'070);
}

// The server's end of a use races with the closing: the callback never runs after the use is gone.
TEST_F(StoreTargetTest, RevokeNeverComesAfterTheEnd) {
  for (uint64_t round = 1; round <= 500; ++round) {
    struct Server {
      std::atomic<bool> alive{true};
    };
    auto server = std::make_unique<Server>();
    auto write = Admit(Kind::kWrite, round, {0, 64}, [s = server.get()] { EXPECT_TRUE(s->alive.load()); });
    ASSERT_TRUE(write.ok());
    std::thread closer([&] { Close(round); });
    write->reset();
    server->alive = false;
    server.reset();
    closer.join();
    ASSERT_EQ(TakeClosed(), Versions{Version{round}});
  }
}

}  // namespace
}  // namespace tiercel::node
