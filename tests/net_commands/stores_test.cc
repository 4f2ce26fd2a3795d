#include "command_fixture.h"

namespace tiercel::net {
namespace {

class Stores : public CommandFixture {
 protected:
  Words Work(int max = 100) { return {"STORE", "WORK", std::to_string(max), "0"}; }
  // Items of this kind, of a WORK reply.
  static std::vector<std::vector<std::string>> Items(const resp::Reply& work, std::string_view kind) {
    std::vector<std::vector<std::string>> items;
    const resp::Reply* list = work.Field("items");
    EXPECT_NE(list, nullptr);
    if (list == nullptr) return items;
    for (const resp::Reply& item : list->items) {
      EXPECT_GE(item.items.size(), 2u);
      if (item.items.size() < 2 || item.items[1].text != kind) continue;
      auto& words = items.emplace_back();
      for (const resp::Reply& word : item.items) {
        EXPECT_EQ(word.kind, resp::Reply::Kind::kBulk);
        words.push_back(word.text);
      }
    }
    return items;
  }
};

TEST_F(Stores, JoinAnswersKeysAndTimes) {
  SessionState session = NewSession("store");
  session.progress.dialed = Ok();
  const resp::Reply join = Run(session, DoStoreJoin, JoinWords("s1", 0xabc, "h1"));
  ASSERT_EQ(join.kind, resp::Reply::Kind::kMap);
  EXPECT_GE(Integer(join, "slot"), 0);
  EXPECT_EQ(Integer(join, "generation"), 3);
  EXPECT_FALSE(Keys(join, "keys").empty());
  EXPECT_FALSE(Keys(join, "ticket-keys").empty());
  EXPECT_GE(Integer(join, "floor"), 0);
  EXPECT_EQ(Integer(join, "time-ms"), clock.Now().boot_ms);
  EXPECT_EQ(Integer(join, "ping-ms"), 1000);
  ASSERT_TRUE(session.store.has_value());
  EXPECT_TRUE(static_cast<bool>(session.on_close));
}

TEST_F(Stores, JoinArguments) {
  SessionState session = NewSession("store");
  session.progress.dialed = Ok();
  const auto join = [&](size_t argument, const std::string& value) {
    Words words = JoinWords("s1", 0xabc, "h1");
    words[argument] = value;
    return Run(session, DoStoreJoin, words);
  };
  ExpectError(join(2, ""), "ERR", {"name", "1 to 255"});
  ExpectError(join(2, "a b"), "ERR", {"name"});
  ExpectError(join(2, std::string(256, 's')), "ERR", {"name", "256"});
  ExpectError(join(3, "0"), "ERR", {"incarnation"});
  ExpectError(join(3, "xyz"), "ERR", {"incarnation"});
  ExpectError(join(4, ""), "ERR", {"storage-id"});
  ExpectError(join(5, ""), "ERR", {"host"});
  ExpectError(join(6, "10.0.0.1"), "ERR", {"data-address", "host:port"});
  ExpectError(join(6, "10.0.0.1:0"), "ERR", {"data-address"});
  ExpectError(join(6, "10.0.0.1:65536"), "ERR", {"data-address"});
  ExpectError(join(6, "fe80::1:7380"), "ERR", {"data-address", "[v6]:port"});
  ExpectError(join(7, std::string(108, '/')), "ERR", {"data-socket", "107"});
  ExpectError(join(8, "-1"), "ERR", {"generation-seen"});
  ExpectError(join(8, "8388608"), "ERR", {"generation-seen", "8388607"});
  ExpectError(join(9, "0"), "ERR", {"proto-min"});
  ExpectError(join(10, "0"), "ERR", {"proto-max"});
  Words newer = JoinWords("s1", 0xabc, "h1");
  newer[9] = "2", newer[10] = "5";
  ExpectError(Run(session, DoStoreJoin, newer), "NOPROTO", {"2 to 5", "1.0"});
  EXPECT_FALSE(session.store.has_value());
  EXPECT_TRUE(master.Stores().empty());
}

// The generation's file, as far as joins use it.
class KeptGeneration final : public GenerationPort {
 public:
  explicit KeptGeneration(MasterHost* host) : host_(host) {}
  Status KeepAtLeast(uint64_t generation) override {
    // Files are written without the lock, and before anybody can have heard of the number.
    told_before_kept = host_->With([](core::Master& master, Times) { return master.generation(); });
    asked.push_back(generation);
    return fails ? Status(Error(ErrorCode::kIo, "no space left on device")) : Ok();
  }
  bool fails = false;
  uint64_t told_before_kept = 0;
  std::vector<uint64_t> asked;

 private:
  MasterHost* const host_;
};

std::vector<std::string> Seen(std::vector<std::string> join, uint64_t generation) {
  join[8] = std::to_string(generation);
  return join;
}

TEST_F(Stores, LaterGenerationIsKeptBeforeTheAnswer) {
  KeptGeneration kept(&host);
  shared.ports.generation = &kept;
  JoinedStore first = Join("s1", 0xabc, "h1");
  EXPECT_TRUE(kept.asked.empty()) << "a store that has seen nothing raises nothing";
  SessionState session = NewSession("store");
  session.progress.dialed = Ok();
  const auto join = [&](const std::string& name, uint64_t incarnation, uint64_t seen) {
    return Run(session, DoStoreJoin, Seen(JoinWords(name, incarnation, "h-" + name), seen));
  };
  EXPECT_EQ(Integer(join("s2", 0x2, 7), "generation"), 8);
  EXPECT_EQ(kept.asked, std::vector<uint64_t>{8});
  EXPECT_EQ(kept.told_before_kept, 3u);
  // Coming back with what this master itself has said is no news; a stranger with the same number is.
  EXPECT_EQ(Integer(join("s2", 0x2, 8), "generation"), 8);
  EXPECT_EQ(kept.asked.size(), 1u);
  EXPECT_EQ(Integer(join("s3", 0x3, 8), "generation"), 9);
  EXPECT_EQ(kept.asked, (std::vector<uint64_t>{8, 9}));
  EXPECT_EQ(Integer(join("s4", 0x4, 2), "generation"), 9);
  EXPECT_EQ(kept.asked.size(), 2u);
}

TEST_F(Stores, GenerationThatCannotBeKeptIsNotGivenOut) {
  KeptGeneration kept(&host);
  kept.fails = true;
  shared.ports.generation = &kept;
  SessionState session = NewSession("store");
  session.progress.dialed = Ok();
  ExpectError(Run(session, DoStoreJoin, Seen(JoinWords("s1", 0x1, "h1"), 7)), "ERR", {"no space left"});
  EXPECT_EQ(master.generation(), 3u);
  EXPECT_FALSE(master.FindStore("s1").has_value());
  // What no generation can be is refused without being written anywhere.
  ExpectError(Run(session, DoStoreJoin, Seen(JoinWords("s1", 0x1, "h1"), kMaxGeneration)), "ERR", {});
  EXPECT_EQ(kept.asked.size(), 1u);
}

TEST_F(Stores, AddressThatCannotBeDialledIsRefused) {
  SessionState session = NewSession("store");
  session.progress.dialed = Status(Error(ErrorCode::kUnreachable, "10.1.0.1:7380: connection refused"));
  ExpectError(Run(session, DoStoreJoin, JoinWords("s1", 0xabc, "h1")), "UNREACHABLE", {"10.1.0.1:7380", "refused"});
  EXPECT_TRUE(master.Stores().empty());
}

TEST_F(Stores, LoopbackAddressFromAnotherHostIsRefused) {
  SessionState session = NewSession("store");
  session.peer_ip = "10.9.0.7";
  session.local_address = "10.9.0.1:7379";
  session.progress.dialed = Ok();
  for (const std::string address : {"127.0.0.1:7380", "[::1]:7380", "0.0.0.0:7380", "[::]:7380", "localhost:7380"}) {
    Words words = JoinWords("s1", 0xabc, "h1");
    words[6] = address;
    ExpectError(Run(session, DoStoreJoin, words), "UNREACHABLE", {address, "10.9.0.7", "data-advertise"});
  }
  EXPECT_TRUE(master.Stores().empty());
  session.peer_ip = "127.0.0.1";
  Words words = JoinWords("s1", 0xabc, "h1");
  words[6] = "127.0.0.1:7380";
  EXPECT_FALSE(Run(session, DoStoreJoin, words).is_error());
}

TEST_F(Stores, InProcessStoreIsNotDialled) {
  SessionState session = NewSession("store");
  session.in_process = true;
  Words words = JoinWords("s1", 0xabc, "h1");
  words[6] = "127.0.0.1:7380";
  EXPECT_FALSE(Run(session, DoStoreJoin, words).is_error());
  EXPECT_TRUE(master.store(master.Stores()[0]).in_process);
}

TEST_F(Stores, NothingWithoutAJoin) {
  SessionState session = NewSession("store");
  ExpectError(Run(session, DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "s", "1", "1024"}), "ERR", {"joined"});
  ExpectError(Run(session, DoStoreReady, {"STORE", "READY"}), "ERR", {"joined"});
  ExpectError(Run(session, DoStoreWork, Work()), "ERR", {"joined"});
  ExpectError(Run(session, DoStoreDone, {"STORE", "DONE"}), "ERR", {"joined"});
  ExpectError(Run(session, DoStorePing, {"STORE", "PING"}), "ERR", {"joined"});
  ExpectError(Run(session, DoStoreLeave, {"STORE", "LEAVE"}), "ERR", {"joined"});
}

TEST_F(Stores, SegmentArguments) {
  JoinedStore store = Join("s1", 0xabc, "h1");
  const auto segment = [&](size_t argument, const std::string& value) {
    Words words = {"STORE", "SEGMENT", "dram", "0", "seg", "1", "1048576"};
    if (argument == words.size()) words.emplace_back();
    words[argument] = value;
    return Run(store.session, DoStoreSegment, words);
  };
  ExpectError(segment(2, "tape"), "ERR", {"tier", "tape"});
  ExpectError(segment(3, "-1"), "ERR", {"id"});
  ExpectError(segment(3, "4294967296"), "ERR", {"id", "4294967295"});
  ExpectError(segment(4, ""), "ERR", {"name"});
  ExpectError(segment(5, "x"), "ERR", {"epoch"});
  ExpectError(segment(6, "-1"), "ERR", {"size"});
  ExpectError(segment(7, "WRITTEN"), "ERR", {"syntax"});
  EXPECT_TRUE(master.Segments().empty()) << "nothing is published before READY";
}

TEST_F(Stores, SegmentsArePublishedTogetherOrNot) {
  JoinedStore store = Join("s1", 0xabc, "h1");
  const auto segment = [&](const std::string& id, const std::string& name, const std::string& size) {
    return Run(store.session, DoStoreSegment, {"STORE", "SEGMENT", "dram", id, name, "1", size});
  };
  ExpectOk(segment("0", "seg", "1048576"));
  ExpectOk(segment("0", "seg", "1048576"));
  ExpectError(segment("0", "other", "1048576"), "ERR", {"seg"});
  ExpectError(Run(store.session, DoStoreReady, {"STORE", "READY"}), "ERR", {"seg"});
  EXPECT_TRUE(master.Segments().empty());
  ExpectError(segment("1", "small", "4095"), "ERR", {"size", "4096"});
  ExpectError(segment("1", "large", "17592186044416"), "ERR", {"size", "2^44"});
  store = Join("s1", 0xabc, "h1");
  ExpectOk(segment("0", "seg", "1048576"));
  ExpectOk(segment("1", "seg-1", "1048576"));
  EXPECT_TRUE(master.Segments().empty());
  ExpectOk(Run(store.session, DoStoreReady, {"STORE", "READY"}));
  EXPECT_EQ(master.Segments().size(), 2u);
}

// O-36
TEST_F(Stores, SegmentHasOneOwner) {
  Serve("s1", 0xabc, "h1");
  JoinedStore other = Join("s2", 0xdef, "h2");
  ExpectError(Run(other.session, DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "s1-dram", "1", "1048576"}),
              "NAMEINUSE", {"s1-dram", "s1", "10.1.0.1:7380"});
  JoinedStore again = Join("s1", 0xabc, "h1");
  ExpectError(Run(again.session, DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "s1-dram", "1", "1048576"}), "ERR",
              {"s1-dram", "16777216"});
  ExpectError(Run(again.session, DoStoreReady, {"STORE", "READY"}), "ERR");
  EXPECT_EQ(master.Segments().size(), 1u);
  EXPECT_EQ(master.Segments()[0].size, 16 * kMiB);
}

TEST_F(Stores, RevokedPutIsClosedAndItsSpaceComesBack) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", std::to_string(kMiB)}), "put"));
  EXPECT_EQ(Run(DoPutRevoke, {"PUTREVOKE", put}).integer, 1);
  EXPECT_EQ(master.Figures(Tier::kDram).bytes.fencing, kMiB);

  const resp::Reply work = Run(store.session, DoStoreWork, Work());
  EXPECT_EQ(Integer(work, "time-ms"), clock.Now().boot_ms);
  const auto closes = Items(work, "CLOSE");
  ASSERT_EQ(closes.size(), 1u);
  EXPECT_EQ(closes[0], (std::vector<std::string>{"0", "CLOSE", put}));

  JoinedStore reporter = store;
  reporter.session = NewSession("store");
  ExpectOk(Run(reporter.session, DoStoreAttach, {"STORE", "ATTACH", "s1", "ABC"}));
  const resp::Reply done = Run(reporter.session, DoStoreDone, {"STORE", "DONE", "CLOSED", "1", put});
  ASSERT_EQ(done.items.size(), 1u);
  ExpectOk(done.items[0]);
  EXPECT_EQ(master.Figures(Tier::kDram).bytes.free, 16 * kMiB);
}

TEST_F(Stores, VerifyIsHandedOutAndAnswered) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  const Version version = Put("a key\r\n", 1000);
  const resp::Reply verify = Run(DoVerify, {"VERIFY", "a key\r\n"});
  EXPECT_EQ(Integer(verify, "ordered"), 1);
  const auto items = Items(Run(store.session, DoStoreWork, Work()), "VERIFY");
  ASSERT_EQ(items.size(), 1u);
  const std::vector<std::string> words(items[0].begin() + 2, items[0].end());
  EXPECT_EQ(words, (std::vector<std::string>{std::to_string(version.value), "0", "a key\r\n", "1000",
                                             "00000000000000ab", "0.1", "0+1000"}));
  EXPECT_TRUE(Items(Run(store.session, DoStoreWork, Work()), "VERIFY").empty()) << "handed out once";
  const resp::Reply done =
      Run(store.session, DoStoreDone,
          {"STORE", "DONE", "ITEM", items[0][0], "VERIFY", "OK", "1000", "ITEM", items[0][0], "VERIFY", "OK", "1000"});
  ASSERT_EQ(done.items.size(), 2u);
  ExpectOk(done.items[0]);
  ExpectError(done.items[1], "NOTASK");
}

// O-28: wrong kind, another store's item.
TEST_F(Stores, OneOutcomePerItemFromTheRightStore) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  JoinedStore other = Serve("s2", 0xdef, "h2");
  Run(DoPutStart, {"PUTSTART", "k", "10", "PREFER", "s1"});
  Run(DoPutEnd, {"PUTEND", std::to_string(uint64_t{3} << 40 | 1), Hex(1)});
  Run(DoVerify, {"VERIFY", "k"});
  const auto items = Items(Run(store.session, DoStoreWork, Work()), "VERIFY");
  ASSERT_EQ(items.size(), 1u);
  const std::string id = items[0][0];
  ExpectError(Run(other.session, DoStoreDone, {"STORE", "DONE", "ITEM", id, "VERIFY", "OK", "10"}).items.at(0),
              "NOPERM");
  ExpectError(Run(store.session, DoStoreDone, {"STORE", "DONE", "ITEM", id, "DROP", "OK", "10"}).items.at(0), "ERR");
  ExpectError(Run(store.session, DoStoreDone, {"STORE", "DONE", "ITEM", "987654", "VERIFY", "OK", "10"}).items.at(0),
              "NOTASK");
  ExpectOk(Run(store.session, DoStoreDone, {"STORE", "DONE", "ITEM", id, "verify", "CHECKSUM", "10"}).items.at(0));
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k"}).is_null()) << "its only copy is bad";
}

TEST_F(Stores, ItemsReturnWhenTheConnectionCloses) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  Put("k", 10);
  Run(DoVerify, {"VERIFY", "k"});
  EXPECT_EQ(Items(Run(store.session, DoStoreWork, Work()), "VERIFY").size(), 1u);
  store.session.on_close(master, clock.Now());
  EXPECT_EQ(master.store(store.session.store->slot).state, core::StoreInfo::State::kSuspect);
  JoinedStore again = Join("s1", 0xabc, "h1");
  ExpectOk(
      Run(again.session, DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "s1-dram", "1", std::to_string(16 * kMiB)}));
  ExpectOk(Run(again.session, DoStoreReady, {"STORE", "READY"}));
  EXPECT_EQ(Items(Run(again.session, DoStoreWork, Work()), "VERIFY").size(), 1u);
}

TEST_F(Stores, EndOfAnOlderConnectionIsNoNews) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  JoinedStore again = Join("s1", 0xabc, "h1");
  ExpectOk(
      Run(again.session, DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "s1-dram", "1", std::to_string(16 * kMiB)}));
  ExpectOk(Run(again.session, DoStoreReady, {"STORE", "READY"}));
  store.session.on_close(master, clock.Now());
  EXPECT_EQ(master.store(again.session.store->slot).state, core::StoreInfo::State::kServing);
}

TEST_F(Stores, WorkAnswersFloorAndTimeWithoutItems) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  const resp::Reply work = Run(store.session, DoStoreWork, Work());
  ASSERT_EQ(work.kind, resp::Reply::Kind::kMap);
  EXPECT_TRUE(Items(work, "CLOSE").empty());
  EXPECT_GT(Integer(work, "floor"), 0);
  ExpectError(Run(store.session, DoStoreWork, {"STORE", "WORK", "0", "0"}), "ERR", {"max", "1 to 1024"});
  ExpectError(Run(store.session, DoStoreWork, {"STORE", "WORK", "1025", "0"}), "ERR", {"max"});
  ExpectError(Run(store.session, DoStoreWork, {"STORE", "WORK", "1", "60001"}), "ERR", {"block-ms", "0 to 60000"});
}

TEST_F(Stores, WorkBelongsToTheConnectionThatJoined) {
  Serve("s1", 0xabc, "h1");
  SessionState reporter = NewSession("store");
  ExpectOk(Run(reporter, DoStoreAttach, {"STORE", "ATTACH", "s1", "abc"}));
  ExpectError(Run(reporter, DoStoreWork, Work()), "ERR", {"joined"});
  EXPECT_FALSE(static_cast<bool>(reporter.on_close)) << "its end says nothing about the store";
}

TEST_F(Stores, AttachNeedsNameIncarnationAndUser) {
  Serve("s1", 0xabc, "h1");
  SessionState session = NewSession("store");
  ExpectError(Run(session, DoStoreAttach, {"STORE", "ATTACH", "s2", "abc"}), "NOSTORE", {"s2"});
  ExpectError(Run(session, DoStoreAttach, {"STORE", "ATTACH", "s1", "abd"}), "STALE", {"0000000000000abc"});
  ExpectError(Run(session, DoStoreAttach, {"STORE", "ATTACH", "s1", "x"}), "ERR", {"incarnation"});
  SessionState other = NewSession("mallory");
  ExpectError(Run(other, DoStoreAttach, {"STORE", "ATTACH", "s1", "abc"}), "NOPERM");
  EXPECT_FALSE(session.store.has_value());
}

TEST_F(Stores, ReportsOfAnOldIncarnationAreStale) {
  JoinedStore old = Serve("s1", 0xabc, "h1");
  SessionState second = NewSession("store");
  second.progress.dialed = Ok();
  ExpectError(Run(second, DoStoreJoin, JoinWords("s1", 0xdef, "h1")), "NAMEINUSE", {"s1", "10.1.0.1:7380"});
  old.session.on_close(master, clock.Now());
  Serve("s1", 0xdef, "h1");
  ExpectError(Run(old.session, DoStorePing, {"STORE", "PING"}), "STALE");
  ExpectError(Run(old.session, DoStoreDone, {"STORE", "DONE"}), "STALE");
  ExpectError(Run(old.session, DoStoreWork, Work()), "STALE");
}

TEST_F(Stores, EmptyReportIsAHeartbeat) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  clock.Advance(5000);
  const resp::Reply done = Run(store.session, DoStoreDone, {"STORE", "DONE"});
  EXPECT_EQ(done.kind, resp::Reply::Kind::kArray);
  EXPECT_TRUE(done.items.empty());
  EXPECT_EQ(master.store(store.session.store->slot).last_heard_ms, clock.Now().boot_ms);
  clock.Advance(5000);
  ExpectOk(Run(store.session, DoStorePing, {"STORE", "PING"}));
  EXPECT_EQ(master.store(store.session.store->slot).last_heard_ms, clock.Now().boot_ms);
}

// A report that is malformed anywhere has no effect at all.
TEST_F(Stores, ReportIsReadWholeBeforeItActs) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", "100"}), "put"));
  Run(DoPutRevoke, {"PUTREVOKE", put});
  Run(store.session, DoStoreWork, Work());
  const uint64_t fencing = master.Figures(Tier::kDram).bytes.fencing;
  EXPECT_GT(fencing, 0u);
  const auto done = [&](Words more) {
    Words words = {"STORE", "DONE", "CLOSED", "1", put};
    words.insert(words.end(), more.begin(), more.end());
    return Run(store.session, DoStoreDone, words);
  };
  ExpectError(done({"CLOSED", "2", "1"}), "ERR", {"2 puts", "1 words"});
  ExpectError(done({"CLOSED", "65537"}), "ERR", {"65536"});
  ExpectError(done({"CLOSED", "-1"}), "ERR");
  ExpectError(done({"CLOSED", "1", "x"}), "ERR", {"put"});
  ExpectError(done({"ITEM", "1", "CLOSE", "OK"}), "ERR", {"syntax"});
  ExpectError(done({"ITEM", "1", "PAINT", "OK", "0"}), "ERR", {"CLOSE, VERIFY, DROP or KEYS"});
  ExpectError(done({"ITEM", "x", "VERIFY", "OK", "0"}), "ERR", {"ITEM"});
  ExpectError(done({"UNPINNED", "0.1"}), "ERR");
  ExpectError(done({"UNPINNED", "0", "0+64"}), "ERR");
  ExpectError(done({"UNPINNED", "0.1", "0+64,128+64"}), "ERR", {"UNPINNED"});
  ExpectError(done({"CLOSEDBELOW"}), "ERR", {"syntax"});
  ExpectError(done({"FINISHED"}), "ERR", {"syntax", "FINISHED"});
  EXPECT_EQ(master.Figures(Tier::kDram).bytes.fencing, fencing);
  const resp::Reply good = done({"CLOSEDBELOW", "1", "ALIVE", "0", "UNPINNED", "0.1", "0+64"});
  EXPECT_EQ(good.items.size(), 4u);
  EXPECT_EQ(master.Figures(Tier::kDram).bytes.fencing, 0u);
}

TEST_F(Stores, AliveKeepsAPutGoing) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", "100"}), "put"));
  for (int i = 0; i < 5; ++i) {
    clock.Advance(20'000);
    ExpectOk(Run(store.session, DoStoreDone, {"STORE", "DONE", "ALIVE", "1", put}).items.at(0));
    host.With([](core::Master& m, Times now) { m.Tick(now, 1000); });
  }
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", put, Hex(1)}).integer, 1);
}

// O-31
TEST_F(Stores, LeaveIsIdempotent) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  Put("k", 10);
  ExpectError(Run(DoStoreLeave, {"STORE", "LEAVE", "s9"}), "NOSTORE", {"s9"});
  ExpectOk(Run(store.session, DoStoreLeave, {"STORE", "LEAVE"}));
  ExpectOk(Run(DoStoreLeave, {"STORE", "LEAVE", "s1"}));
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k"}).is_null());
}

TEST_F(Stores, LeaveArguments) {
  JoinedStore store = Serve("s1", 0xabc, "h1");
  ExpectError(Run(DoStoreLeave, {"STORE", "LEAVE", "s1", "GRACE", "-1"}), "ERR", {"GRACE"});
  ExpectError(Run(DoStoreLeave, {"STORE", "LEAVE", "s1", "SEGMENT"}), "ERR", {"syntax"});
  ExpectError(Run(DoStoreLeave, {"STORE", "LEAVE", "s1", "NOW"}), "ERR", {"syntax", "NOW"});
  ExpectError(Run(DoStoreLeave, {"STORE", "LEAVE", "s1", "SEGMENT", "nothing"}), "NOSEGMENT");
  ExpectOk(Run(store.session, DoStoreLeave, {"STORE", "LEAVE", "grace", "50", "segment", "s1-dram"}));
}

TEST_F(Stores, ListShowsAddressesAndTiers) {
  Serve("s1", 0xabc, "boot/h1");
  Serve("s2", 0xdef, "boot/h2");
  Put("k", 1000);
  const resp::Reply all = Run(DoStores, {"STORES"});
  ASSERT_EQ(all.items.size(), 2u);
  const resp::Reply one = Run(DoStores, {"STORES", "s2"});
  ASSERT_EQ(one.items.size(), 1u);
  const resp::Reply& store = one.items[0];
  EXPECT_EQ(Text(store, "name"), "s2");
  EXPECT_EQ(Text(store, "incarnation"), "0000000000000def");
  EXPECT_EQ(Text(store, "state"), "serving");
  EXPECT_EQ(Text(store, "host"), "boot/h2");
  EXPECT_EQ(Text(store, "location"), "host=h2");
  EXPECT_EQ(Text(store, "data-address"), "10.1.0.1:7380");
  EXPECT_EQ(Text(store, "data-socket"), "/run/s2");
  ASSERT_EQ(store.Field("transports")->items.size(), 2u);
  const resp::Reply* dram = store.Field("tiers")->Field("dram");
  ASSERT_NE(dram, nullptr);
  EXPECT_EQ(Integer(*dram, "size"), static_cast<int64_t>(16 * kMiB));
  ExpectError(Run(DoStores, {"STORES", "s3"}), "NOSTORE", {"s3"});
}

TEST_F(Stores, Tiers) {
  EXPECT_EQ(Run(DoTiers, {"TIERS"}).items.size(), 1u);
  Serve("s1", 0xabc, "h1");
  Put("k", 6400);
  const resp::Reply tiers = Run(DoTiers, {"TIERS"});
  ASSERT_EQ(tiers.items.size(), 1u);
  EXPECT_EQ(Text(tiers.items[0], "tier"), "dram");
  EXPECT_EQ(Integer(tiers.items[0], "configured"), static_cast<int64_t>(16 * kMiB));
  EXPECT_EQ(Integer(tiers.items[0], "used"), 6400);
  EXPECT_EQ(Integer(tiers.items[0], "objects"), 1);
  EXPECT_EQ(Integer(tiers.items[0], "free"), static_cast<int64_t>(16 * kMiB - 6400));
}

TEST_F(Stores, TicketOpensADataConnection) {
  const JoinedStore store = Serve("s1", 0xabc, "h1");
  const resp::Reply text = Run(DoTicket, {"TICKET"});
  const std::optional<Ticket> ticket = ParseTicketText(text.text);
  ASSERT_TRUE(ticket.has_value());
  EXPECT_EQ(ticket->user, UserId("alice"));
  ASSERT_FALSE(store.ticket_keys.empty());
  EXPECT_TRUE(MacIsRight(store.ticket_keys[0], *ticket));
  SessionState other = NewSession("alice");
  EXPECT_NE(ParseTicketText(Run(other, DoTicket, {"TICKET", "host", "b/h"}).text)->client, ticket->client);
  EXPECT_EQ(other.host_id, "b/h");
  ExpectError(Run(DoTicket, {"TICKET", "HOST"}), "ERR", {"syntax"});
  ExpectError(Run(DoTicket, {"TICKET", "HOST", std::string(513, 'h')}), "ERR", {"HOST", "512"});
  ExpectError(Run(DoTicket, {"TICKET", "NOW"}), "ERR", {"syntax"});
}

}  // namespace
}  // namespace tiercel::net
