// The control conversation against a master that the test plays, over real sockets. Hang guards only.
#include "server/node/control.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/checksum.h"
#include "tests/node/fake_master.h"
#include "tests/node/store_fixture.h"

namespace tiercel::node {
namespace {

using Script = FakeMaster::Script;
using Seen = FakeMaster::Seen;

constexpr uint64_t kGeneration = uint64_t{1} << kCounterBits;

class ControlTest : public StoreFixture {
 protected:
  void TearDown() override {
    if (control_) control_->Stop();
  }
  MasterEndpoint Endpoint(uint16_t port) const {
    resp::ConnectionOptions options;
    options.host = "127.0.0.1";
    options.port = port;
    return {options, options};
  }
  void Start(std::vector<MasterEndpoint> masters) {
    ControlOptions options;
    options.masters = std::move(masters);
    options.identity = {.name = "s1",
                        .incarnation = kTestStore,
                        .storage_id = "d1",
                        .host = "h1",
                        .data_address = {},
                        .data_socket = "/run/s1",
                        .generation_seen = 0,
                        .proto_min = 1,
                        .proto_max = 1};
    options.data_address = [](const MasterEndpoint&) { return Result<std::string>("10.0.0.9:7380"); };
    options.work_block_ms = 200;
    options.backoff = {.first_ms = 1, .cap_ms = 20, .jitter = 0.2};
    options.clock = &clock_;
    control_ = std::make_unique<Control>(options, target_.get());
    control_->Start();
  }
  void StartServing() {
    Start({Endpoint(master_.port())});
    ASSERT_TRUE(control_->WaitServing(60'000));
    ASSERT_TRUE(master_.Wait([](const Seen& seen) { return !seen.attaches.empty(); }));
  }
  bool WaitFor(const std::function<bool(const Seen&)>& condition) { return master_.Wait(condition); }
  bool WaitClosed(uint64_t put) {
    return WaitFor([put](const Seen& seen) { return std::count(seen.closed.begin(), seen.closed.end(), put) > 0; });
  }

  FakeMaster master_;
  std::unique_ptr<Control> control_;
};

TEST_F(ControlTest, JoinsAndSaysWhatItHas) {
  ASSERT_TRUE(target_->AddSegment(std::make_unique<TestSegment>(5, 1, 4096)).ok());
  StartServing();
  master_.With([](Script&, Seen& seen) {
    ASSERT_EQ(seen.joins.size(), 1u);
    EXPECT_EQ(seen.joins[0], (Words{"STORE", "JOIN", "s1", "000000009f3c20aa", "d1", "h1", "10.0.0.9:7380", "/run/s1",
                                    "0", "1", "1"}));
    ASSERT_EQ(seen.segments.size(), 2u);
    EXPECT_EQ(seen.segments[0], (Words{"STORE", "SEGMENT", "dram", "2", "test-2", "41", "1048576"}));
    EXPECT_EQ(seen.segments[1], (Words{"STORE", "SEGMENT", "dram", "5", "test-5", "1", "4096"}));
    ASSERT_EQ(seen.readies.size(), 1u);
    EXPECT_EQ(seen.readies[0], (Words{"STORE", "READY", "CLOSEDBELOW", std::to_string(kGeneration)}));
    EXPECT_EQ(seen.attaches[0], (Words{"STORE", "ATTACH", "s1", "000000009f3c20aa"}));
  });
  // Signs of life without anything to tell.
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.dones >= 3; }));
  const ControlFigures figures = control_->Figures();
  EXPECT_EQ(figures.state, ControlState::kServing);
  EXPECT_EQ(figures.generation, 1u);
  EXPECT_EQ(figures.data_address, "10.0.0.9:7380");
}

TEST_F(ControlTest, ClosesByOrderAndAnswersWhenNothingIsInFlight) {
  StartServing();
  std::atomic<bool> revoked{false};
  auto write = Admit(Kind::kWrite, kGeneration + 1, {0, 100}, [&] {
    revoked = true;
    revoked.notify_all();
  });
  ASSERT_TRUE(write.ok()) << write.error().message();
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 1), std::to_string(kGeneration + 2)}});
  ASSERT_TRUE(WaitClosed(kGeneration + 2));
  revoked.wait(false);
  master_.With([](Script&, Seen& seen) { EXPECT_EQ(seen.closed, (std::vector<uint64_t>{kGeneration + 2})); });
  write->reset();
  EXPECT_TRUE(WaitClosed(kGeneration + 1));
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, kGeneration + 1, {0, 100})), ErrorCode::kStalePut);
}

TEST_F(ControlTest, FloorOfAnAnswerClosesAndIsToldWhenItCutSomethingOff) {
  StartServing();
  std::atomic<bool> revoked{false};
  auto write = Admit(Kind::kWrite, kGeneration + 1, {0, 100}, [&] { revoked = true; });
  ASSERT_TRUE(write.ok());
  master_.With([](Script& script, Seen&) {
    script.floor = kGeneration + 10;
    script.time_ms = 77'000;
    script.work.push_back({{"0", "CLOSE", std::to_string(kGeneration + 20)}});
  });
  ASSERT_TRUE(WaitClosed(kGeneration + 20));
  EXPECT_TRUE(revoked);
  master_.With([](Script&, Seen& seen) { EXPECT_TRUE(seen.closed_below.empty()); });
  write->reset();
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.closed_below == std::vector<uint64_t>{kGeneration + 10}; }));
}

TEST_F(ControlTest, ABrokenConnectionIsMadeAnewAndOpenPutsGoOn) {
  StartServing();
  auto write = Admit(Kind::kWrite, kGeneration + 1, {0, 100}, [] { ADD_FAILURE() << "cut by a mere re-join"; });
  ASSERT_TRUE(write.ok());
  for (size_t round = 2; round <= 4; ++round) {
    master_.CutConnections();
    ASSERT_TRUE(
        WaitFor([&](const Seen& seen) { return seen.readies.size() >= round && seen.attaches.size() >= round; }));
  }
  ASSERT_TRUE(control_->WaitServing(60'000));
  master_.With([](Script&, Seen& seen) { EXPECT_EQ(seen.joins.back()[8], "1"); });  // the generation it has seen
  EXPECT_EQ(target_->open_puts(), 1u);
}

TEST_F(ControlTest, ANewGenerationClosesOlderPutsBeforeItIsServed) {
  StartServing();
  std::atomic<bool> revoked{false};
  auto write = Admit(Kind::kWrite, kGeneration + 1, {0, 100}, [&] { revoked = true; });
  ASSERT_TRUE(write.ok());
  uint64_t pings = 0;
  master_.With([&](Script& script, Seen& seen) {
    script.generation = 2;
    script.floor = 2 * kGeneration;
    pings = seen.dones;
  });
  master_.CutConnections();
  // It says that it lives while it waits for what is in flight.
  ASSERT_TRUE(WaitFor([&](const Seen& seen) { return seen.attaches.size() >= 2 && seen.dones >= pings + 5; }));
  EXPECT_TRUE(revoked);
  master_.With([](Script&, Seen& seen) { EXPECT_EQ(seen.readies.size(), 1u); });
  EXPECT_EQ(control_->Figures().state, ControlState::kClosing);
  write->reset();
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.readies.size() == 2; }));
  master_.With([](Script&, Seen& seen) {
    EXPECT_EQ(seen.readies[1].back(), std::to_string(2 * kGeneration));
    EXPECT_EQ(seen.segments[0], seen.segments[1]);  // the segments are kept
  });
  EXPECT_EQ(CodeOf(Admit(Kind::kWrite, kGeneration + 5, {0, 100})), ErrorCode::kStalePut);
}

TEST_F(ControlTest, AnOlderGenerationIsNotObeyed) {
  master_.With([](Script& script, Seen&) {
    script.generation = 7;
    script.floor = 7 * kGeneration;
  });
  StartServing();
  master_.With([](Script& script, Seen&) {
    script.generation = 6;
    script.floor = 6 * kGeneration;
  });
  master_.CutConnections();
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.joins.size() >= 3; }));
  master_.With([](Script& script, Seen& seen) {
    EXPECT_EQ(seen.readies.size(), 1u);
    EXPECT_EQ(seen.joins.back()[8], "7");
    script.generation = 8;
    script.floor = 8 * kGeneration;
  });
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.readies.size() == 2; }));
}

// P-03, the store's part: refused while the name is taken, accepted as soon as it is free.
TEST_F(ControlTest, ARefusedNameIsTriedAgain) {
  master_.With([](Script& script, Seen&) { script.refuse_join = "NAMEINUSE store s1 is at 10.0.0.1:7380"; });
  Start({Endpoint(master_.port())});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.joins.size() >= 3; }));
  const ControlFigures figures = control_->Figures();
  EXPECT_NE(figures.last_failure.find("NAMEINUSE"), std::string::npos) << figures.last_failure;
  EXPECT_NE(figures.last_failure.find("10.0.0.1:7380"), std::string::npos);
  EXPECT_NE(figures.last_failure.find("10.0.0.9:7380"), std::string::npos);  // what was advertised
  EXPECT_EQ(figures.state, ControlState::kConnecting);
  EXPECT_GE(figures.refusals, 2u);
  master_.With([](Script& script, Seen&) { script.refuse_join.clear(); });
  EXPECT_TRUE(control_->WaitServing(60'000));
  EXPECT_EQ(control_->Figures().last_failure, "");
}

TEST_F(ControlTest, ARefusedSegmentBeginsTheJoinAnew) {
  master_.With([](Script& script, Seen&) { script.refuse_segment = "NAMEINUSE segment test-2 is of s9"; });
  Start({Endpoint(master_.port())});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.joins.size() >= 2; }));
  master_.With([](Script& script, Seen& seen) {
    EXPECT_TRUE(seen.readies.empty());
    script.refuse_segment.clear();
  });
  EXPECT_TRUE(control_->WaitServing(60'000));
  EXPECT_EQ(target_->Offers()[0].place.epoch, 41u);
}

TEST_F(ControlTest, AnEpochThatTheMasterGaveUpIsGivenUp) {
  master_.With([](Script& script, Seen&) { script.refuse_segment = "STALE segment test-2 epoch 41 is gone"; });
  Start({Endpoint(master_.port())});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return !seen.segments.empty(); }));
  master_.With([](Script& script, Seen&) { script.refuse_segment.clear(); });
  ASSERT_TRUE(control_->WaitServing(60'000));
  EXPECT_GT(target_->Offers()[0].place.epoch, 41u);
}

TEST_F(ControlTest, TheNextMasterIsTriedWhenOneRefuses) {
  FakeMaster other;
  other.With([](Script& script, Seen&) { script.refuse_join = "NOTLEADER 127.0.0.1:1"; });
  Start({Endpoint(other.port()), Endpoint(master_.port())});
  EXPECT_TRUE(control_->WaitServing(60'000));
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return !seen.attaches.empty(); }));  // both connections to the same one
  other.With([](Script&, Seen& seen) { EXPECT_TRUE(seen.attaches.empty()); });
}

TEST_F(ControlTest, AMasterInTheSameProcess) {
  MasterEndpoint endpoint;
  endpoint.work.adopted_fd = master_.Adopt();
  endpoint.report.adopted_fd = master_.Adopt();
  Start({endpoint});
  ASSERT_TRUE(control_->WaitServing(60'000));
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 2)}});
  EXPECT_TRUE(WaitClosed(kGeneration + 2));
}

TEST_F(ControlTest, CarriesOutEveryKindOfItem) {
  std::memset(segment_->base(), 0x77, 1000);
  const uint64_t block = HashBytes({segment_->base(), 1000});
  const uint64_t sum = ObjectSum(KeySeed(0, "k"), 1000, {&block, 1});
  StartServing();
  const std::string good = fmt::format("{:016x}", sum), bad = fmt::format("{:016x}", sum + 1);
  master_.Order({{"11", "VERIFY", "99", "0", "k", "1000", good, "2.41", "0+1000"},
                 {"12", "VERIFY", "99", "0", "k", "1000", bad, "2.41", "0+1000"},
                 {"13", "VERIFY", "99", "0", "k", "1000", good, "2.40", "0+1000"},
                 {"14", "POLISH", "x"},
                 {"15", "DROP", "9.9"},
                 {"0", "KEYS", "1", "2:0102030405060708090a0b0c0d0e0f10", "0"},
                 {"16", "DROP", "2.41"}});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.items.size() == 6; }));
  std::map<std::string, Words> items;
  master_.With([&](Script&, Seen& seen) {
    for (const Words& item : seen.items) items[item[0]] = item;
  });
  // The drop may overtake the checks, whose place is then of an old epoch.
  const auto verdict = [&](const char* id) { return items[id][2]; };
  EXPECT_TRUE(verdict("11") == "OK" || verdict("11") == "OLD_EPOCH");
  EXPECT_TRUE(verdict("12") == "CHECKSUM" || verdict("12") == "OLD_EPOCH");
  EXPECT_EQ(items["13"], (Words{"13", "VERIFY", "OLD_EPOCH", "1000"}));
  EXPECT_EQ(items["14"], (Words{"14", "POLISH", "UNKNOWNCOMMAND", "0"}));
  EXPECT_EQ(items["15"], (Words{"15", "DROP", "OLD_EPOCH", "0"}));
  EXPECT_EQ(items["16"], (Words{"16", "DROP", "OK", "1048576"}));
  EXPECT_EQ(target_->Offers()[0].place.epoch, 42u);
  EXPECT_EQ(CodeOf(Admit(Kind::kRead, 5, {0, 1})), ErrorCode::kOldEpoch);
  place_ = {2, 42};
  EXPECT_EQ(CodeOf(Admit(Kind::kRead, 5, {0, 1})), ErrorCode::kBadGrant);  // its key was taken away
}

TEST_F(ControlTest, VerdictsOfChecks) {
  std::memset(segment_->base(), 0x77, 1000);
  const uint64_t block = HashBytes({segment_->base(), 1000});
  const uint64_t sum = ObjectSum(KeySeed(0, "k"), 1000, {&block, 1});
  StartServing();
  master_.Order({{"11", "VERIFY", "99", "0", "k", "1000", fmt::format("{:016x}", sum), "2.41", "0+1000"},
                 {"12", "VERIFY", "99", "0", "k", "1000", fmt::format("{:016x}", sum + 1), "2.41", "0+1000"}});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.items.size() == 2; }));
  master_.With([](Script&, Seen& seen) {
    EXPECT_EQ(seen.items[0], (Words{"11", "VERIFY", "OK", "1000"}));
    EXPECT_EQ(seen.items[1], (Words{"12", "VERIFY", "CHECKSUM", "1000"}));
  });
  EXPECT_EQ(control_->Figures().verifies_bad, 1u);
}

TEST_F(ControlTest, ADropIsAnsweredWhenItsUsesHaveEnded) {
  StartServing();
  std::atomic<bool> revoked{false};
  auto read = Admit(Kind::kRead, 5, {0, 10}, [&] { revoked = true; });
  auto view = Admit(Kind::kView, 5, {0, 10});
  ASSERT_TRUE(read.ok() && view.ok());
  master_.Order({{"16", "DROP", "2.41"}, {"0", "CLOSE", std::to_string(kGeneration + 2)}});
  ASSERT_TRUE(WaitClosed(kGeneration + 2));
  EXPECT_TRUE(revoked);
  read->reset();
  uint64_t pings = master_.With([](Script&, Seen& seen) { return seen.dones; });
  ASSERT_TRUE(WaitFor([&](const Seen& seen) { return seen.dones >= pings + 3; }));
  master_.With([](Script&, Seen& seen) { EXPECT_TRUE(seen.items.empty()); });
  view->reset();
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.items.size() == 1 && seen.items[0][2] == "OK"; }));
}

TEST_F(ControlTest, WhatWasNotAcknowledgedIsToldAgain) {
  StartServing();
  master_.With([](Script& script, Seen&) { script.swallow_done = true; });
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 2)}, {"14", "POLISH"}});
  EXPECT_TRUE(WaitClosed(kGeneration + 2));
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.items.size() == 1; }));
}

TEST_F(ControlTest, AMasterThatDoesNotKnowTheStoreIsJoinedAgain) {
  StartServing();
  master_.With([](Script& script, Seen&) { script.refuse_done = "NOSTORE s1 has not joined"; });
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 2)}});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return seen.joins.size() >= 2; }));
  master_.With([](Script& script, Seen&) { script.refuse_done.clear(); });
  EXPECT_TRUE(WaitClosed(kGeneration + 2));
}

TEST_F(ControlTest, ARefusedClauseIsCountedAndNotRepeated) {
  StartServing();
  master_.With([](Script& script, Seen&) { script.refuse_clause = "NOTASK 14 is not known"; });
  master_.Order({{"14", "POLISH"}, {"0", "CLOSE", std::to_string(kGeneration + 2)}});
  ASSERT_TRUE(WaitClosed(kGeneration + 2));
  uint64_t pings = master_.With([](Script&, Seen& seen) { return seen.dones; });
  ASSERT_TRUE(WaitFor([&](const Seen& seen) { return seen.dones >= pings + 3; }));
  master_.With([](Script&, Seen& seen) {
    EXPECT_EQ(seen.joins.size(), 1u);
    EXPECT_EQ(seen.closed.size(), 1u);
  });
}

TEST_F(ControlTest, UnpinnedComesBehindTheClosedOfTheRefusedPut) {
  StartServing();
  auto view = Admit(Kind::kView, kGeneration + 1, {0, 4096});
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(CodeOf(AdmitWithin(Kind::kWrite, kGeneration + 2, ExtentList(Extent{64, 128}), {64, 64})),
            ErrorCode::kInUse);
  view->reset();
  uint64_t pings = master_.With([](Script&, Seen& seen) { return seen.dones; });
  ASSERT_TRUE(WaitFor([&](const Seen& seen) { return seen.dones >= pings + 3; }));
  master_.With([](Script&, Seen& seen) { EXPECT_TRUE(seen.unpinned.empty()); });
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 2)}});
  ASSERT_TRUE(WaitFor([](const Seen& seen) { return !seen.unpinned.empty(); }));
  master_.With([](Script&, Seen& seen) {
    EXPECT_EQ(seen.closed, (std::vector<uint64_t>{kGeneration + 2}));
    EXPECT_EQ(seen.unpinned, (std::vector<Words>{{"2.41", "64+128"}}));
  });
}

TEST_F(ControlTest, PutsWhoseBytesArriveAreAlive) {
  StartServing();
  auto write = Admit(Kind::kWrite, kGeneration + 1, {0, 100});
  ASSERT_TRUE(write.ok());
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.alive == std::vector<uint64_t>{kGeneration + 1}; }));
}

TEST_F(ControlTest, GrantsExpireByTheMastersClock) {
  StartServing();
  // The script's clock stands at 5,000 ms.
  const Grant grant = MakeGrant(Right::kRead, Version{5}, place_, ExtentList(Extent{0, 10}), 5'001);
  const transfer::AccessRequest request{Kind::kRead, place_, 0, 10, &grant};
  EXPECT_TRUE(target_->Admit(request, peer_, nullptr).ok());
  master_.With([](Script& script, Seen&) {
    script.time_ms = 5'001;
    script.work.push_back({{"0", "CLOSE", std::to_string(kGeneration + 2)}});
  });
  ASSERT_TRUE(WaitClosed(kGeneration + 2));
  EXPECT_EQ(CodeOf(target_->Admit(request, peer_, nullptr)), ErrorCode::kGrantExpired);
}

TEST_F(ControlTest, LeavesInGoodOrder) {
  StartServing();
  ASSERT_TRUE(Admit(Kind::kWrite, kGeneration + 1, {0, 100}).ok());
  target_->RefuseNewPuts();
  EXPECT_TRUE(control_->Leave({.grace_ms = 5'000}, 60'000));
  EXPECT_EQ(control_->Figures().state, ControlState::kServing);  // orders still come
  master_.Order({{"0", "CLOSE", std::to_string(kGeneration + 1)}});
  EXPECT_TRUE(control_->WaitPutsEnded(60'000));
  EXPECT_TRUE(control_->Leave({}, 60'000));
  EXPECT_EQ(control_->Figures().state, ControlState::kLeft);
  master_.With([](Script&, Seen& seen) {
    EXPECT_EQ(seen.leaves, (std::vector<Words>{{"STORE", "LEAVE", "GRACE", "5000"}, {"STORE", "LEAVE"}}));
    EXPECT_EQ(seen.closed, (std::vector<uint64_t>{kGeneration + 1}));  // told before it left
  });
  master_.CutConnections();  // it does not come back
  control_->Stop();
  master_.With([](Script&, Seen& seen) { EXPECT_EQ(seen.joins.size(), 1u); });
}

TEST_F(ControlTest, StopsWhateverItIsDoing) {
  // Nobody listens there (any more).
  uint16_t port = 0;
  {
    FakeMaster gone;
    port = gone.port();
  }
  Start({Endpoint(port)});
  EXPECT_FALSE(control_->Leave({}, 1));
  control_->Stop();
  EXPECT_FALSE(control_->WaitServing(0));
  control_->Stop();
  EXPECT_EQ(control_->Figures().state, ControlState::kStopped);
}

TEST_F(ControlTest, NonsenseFromTheMasterBeginsTheJoinAnew) {
  StartServing();
  master_.Order({{"0", "CLOSE", "not a put"}});
  EXPECT_TRUE(WaitFor([](const Seen& seen) { return seen.readies.size() >= 2; }));
}

}  // namespace
}  // namespace tiercel::node
