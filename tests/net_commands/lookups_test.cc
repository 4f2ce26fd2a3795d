#include <optional>
#include <set>

#include "command_fixture.h"
#include "server/net/replica_reply.h"

namespace tiercel::net {
namespace {

class Lookups : public CommandFixture {
 protected:
  Lookups() { store_.emplace(Serve("s1", 0xabc, "boot-1/h1")); }
  std::optional<JoinedStore> store_;
};

TEST_F(Lookups, ShowsPlaceUnderALease) {
  const Version version = Put("k", 1000);
  const resp::Reply found = Run(DoGetReplicas, {"GETREPLICAS", "k"});
  ASSERT_EQ(found.kind, resp::Reply::Kind::kMap);
  EXPECT_EQ(Integer(found, "version"), static_cast<int64_t>(version.value));
  EXPECT_EQ(Integer(found, "size"), 1000);
  EXPECT_EQ(Text(found, "sum"), "00000000000000ab");
  EXPECT_EQ(Integer(found, "lease-ms"), 10'000);
  const auto replicas = Replicas(found);
  ASSERT_EQ(replicas.size(), 1u);
  EXPECT_EQ(replicas[0].grant.right, Right::kRead);
  EXPECT_EQ(replicas[0].grant.version, version);
  EXPECT_TRUE(MacIsRight(store_->keys[0], replicas[0].grant));
}

TEST_F(Lookups, LineIsReadable) {
  Put("k", 1000);
  const resp::Reply found = Run(DoGetReplicas, {"GETREPLICAS", "k"});
  const std::string& line = found.Field("replicas")->items[0].text;
  EXPECT_EQ(line.substr(0, line.rfind(' ')), "dram s1.0000000000000abc 0.1 0+1000");
}

TEST_F(Lookups, OptionsOfTheLease) {
  Put("k", 1000);
  EXPECT_EQ(Integer(Run(DoGetReplicas, {"GETREPLICAS", "k", "nolease"}), "lease-ms"), 0);
  EXPECT_EQ(Integer(Run(DoGetReplicas, {"GETREPLICAS", "k", "LEASE", "500"}), "lease-ms"), 500);
  EXPECT_EQ(Integer(Run(DoGetReplicas, {"GETREPLICAS", "k", "lease", "999999999"}), "lease-ms"), 60'000);
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k", "TIER", "ssd"}).is_null());
  EXPECT_EQ(Integer(Run(DoGetReplicas, {"GETREPLICAS", "k", "TIER", "dram", "LEASE", "1"}), "size"), 1000);
  ExpectError(Run(DoGetReplicas, {"GETREPLICAS", "k", "LEASE", "-1"}), "ERR", {"LEASE"});
  ExpectError(Run(DoGetReplicas, {"GETREPLICAS", "k", "LEASE"}), "ERR", {"syntax"});
  ExpectError(Run(DoGetReplicas, {"GETREPLICAS", "k", "FOREVER"}), "ERR", {"syntax", "FOREVER"});
}

// O-13
TEST_F(Lookups, AbsentIsNullInBothProtocols) {
  Run(DoPutStart, {"PUTSTART", "reserved", "10"});
  for (const std::string key : {"reserved", "never", ""}) {
    EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", key}).is_null()) << key;
  }
  EXPECT_EQ(RunRaw(client, DoGetReplicas, {"GETREPLICAS", "never"}), "_\r\n");
  client.protocol = 2;
  EXPECT_EQ(RunRaw(client, DoGetReplicas, {"GETREPLICAS", "never"}), "$-1\r\n");
  ExpectError(Run(DoGetReplicas, {"GETREPLICAS", std::string(kMaxKeyBytes + 1, 'k')}), "TOOBIG");
}

TEST_F(Lookups, ManyKeepTheirOrder) {
  Words words = {"MGETREPLICAS", "600"};
  for (int i = 0; i < 600; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (i % 3 == 0) Put(key, static_cast<uint64_t>(i) + 1);
    words.push_back(key);
  }
  words.push_back("NOLEASE");
  const resp::Reply all = Run(DoMGetReplicas, words);
  ASSERT_EQ(all.items.size(), 600u);
  for (int i = 0; i < 600; ++i) {
    const resp::Reply& one = all.items[static_cast<size_t>(i)];
    if (i % 3 == 0) {
      EXPECT_EQ(Integer(one, "size"), i + 1);
      EXPECT_EQ(Integer(one, "lease-ms"), 0);
    } else {
      EXPECT_TRUE(one.is_null());
    }
  }
}

TEST_F(Lookups, NumberOfKeys) {
  for (const Handler handler : {DoMGetReplicas, DoPrefixMatch}) {
    ExpectError(Run(handler, {"X", "0", "k"}), "ERR", {"numkeys"});
    ExpectError(Run(handler, {"X", "-1", "k"}), "ERR", {"numkeys"});
    ExpectError(Run(handler, {"X", "x", "k"}), "ERR", {"numkeys"});
    ExpectError(Run(handler, {"X", "2", "k"}), "ERR", {"Number of keys"});
    ExpectError(Run(handler, {"X", "9223372036854775807", "k"}), "ERR", {"Number of keys"});
    ExpectError(Run(handler, {"X", "1", "k", "k2"}), "ERR", {"syntax", "k2"});
    ExpectError(Run(handler, {"X", "1", std::string(kMaxKeyBytes + 1, 'k')}), "TOOBIG");
  }
}

TEST_F(Lookups, PrefixCountsLeadingKeysAndLeasesThem) {
  for (int i = 0; i < 5; ++i) Put("b" + std::to_string(i), 10);
  resp::Reply answer = Run(DoPrefixMatch, {"PREFIXMATCH", "5", "b0", "b1", "nothing", "b3", "b4"});
  ASSERT_EQ(answer.items.size(), 3u);
  EXPECT_EQ(answer.items[0].integer, 2);
  EXPECT_EQ(answer.items[1].integer, 2);
  EXPECT_EQ(answer.items[2].integer, 10'000);
  answer = Run(DoPrefixMatch, {"PREFIXMATCH", "1", "nothing"});
  EXPECT_EQ(answer.items[0].integer, 0);
  EXPECT_EQ(answer.items[1].integer, 0);
  EXPECT_EQ(answer.items[2].integer, 0);
  answer = Run(DoPrefixMatch, {"PREFIXMATCH", "2", "b3", "b4", "NOLEASE"});
  EXPECT_EQ(answer.items[0].integer, 2);
  EXPECT_EQ(answer.items[1].integer, 0);
}

TEST_F(Lookups, PrefixWithReplicas) {
  for (int i = 0; i < 3; ++i) Put("b" + std::to_string(i), 10);
  const resp::Reply answer =
      Run(DoPrefixMatch, {"PREFIXMATCH", "4", "b0", "b1", "b2", "b3", "withreplicas", "LEASE", "700"});
  ASSERT_EQ(answer.items.size(), 4u);
  EXPECT_EQ(answer.items[2].integer, 700);
  ASSERT_EQ(answer.items[3].items.size(), 3u);
  for (const resp::Reply& object : answer.items[3].items) {
    EXPECT_EQ(Replicas(object).size(), 1u);
    EXPECT_TRUE(MacIsRight(store_->keys[0], Replicas(object)[0].grant));
  }
}

TEST_F(Lookups, LongPrefixIsMatchedInSteps) {
  Words words = {"PREFIXMATCH", "1000"};
  for (int i = 0; i < 1000; ++i) {
    words.push_back("b" + std::to_string(i));
    if (i != 700) Put(words.back(), 10);
  }
  const resp::Reply answer = Run(DoPrefixMatch, words);
  EXPECT_EQ(answer.items[0].integer, 700);
  EXPECT_EQ(answer.items[1].integer, 700);
}

// The lease cap is reached within the prefix: still matched, but leased are only leading ones.
TEST_F(Lookups, PrefixBeyondTheLeaseCap) {
  Words words = {"PREFIXMATCH", "12"};
  for (int i = 0; i < 12; ++i) {
    words.push_back("b" + std::to_string(i));
    Put(words.back(), kMiB);
  }
  const resp::Reply answer = Run(DoPrefixMatch, words);
  EXPECT_EQ(answer.items[0].integer, 12);
  EXPECT_EQ(answer.items[1].integer, 8) << "half of 16 MiB may be leased";
}

TEST_F(Lookups, OwnHostComesFirst) {
  Serve("s2", 0xdef, "boot-2/h2");
  Serve("s3", 0x123, "boot-3/h3");
  for (int i = 0; i < 6; ++i) Put("k" + std::to_string(i), 10, 3);
  for (const std::string boot : {"boot-1", "boot-2", "boot-3"}) {
    Run(DoTicket, {"TICKET", "HOST", boot + "/whatever"});
    for (int i = 0; i < 6; ++i) {
      const auto replicas = Replicas(Run(DoGetReplicas, {"GETREPLICAS", "k" + std::to_string(i)}));
      ASSERT_EQ(replicas.size(), 3u);
      EXPECT_EQ(replicas[0].store, "s" + boot.substr(5));
    }
  }
}

TEST_F(Lookups, EqualReplicasAreSpread) {
  Serve("s2", 0xdef, "boot-2/h2");
  std::set<std::string> first;
  for (int i = 0; i < 8; ++i) {
    Put("k" + std::to_string(i), 10, 2);
    first.insert(Replicas(Run(DoGetReplicas, {"GETREPLICAS", "k" + std::to_string(i)}))[0].store);
  }
  EXPECT_EQ(first.size(), 2u);
}

TEST_F(Lookups, SilentStoreComesLast) {
  JoinedStore second = Serve("s2", 0xdef, "boot-2/h2");
  Put("k", 10, 2);
  second.session.on_close(master, clock.Now());
  for (int i = 0; i < 4; ++i) {
    SessionState caller = NewSession("alice");
    Run(caller, DoTicket, {"TICKET", "HOST", "boot-2/h2"});
    const auto replicas = Replicas(Run(caller, DoGetReplicas, {"GETREPLICAS", "k"}));
    ASSERT_EQ(replicas.size(), 2u);
    EXPECT_EQ(replicas[0].store, "s1");
  }
}

TEST(SameHost, BootIdsDecideWhenThereAreTwo) {
  EXPECT_TRUE(SameHost("b/x", "b/y"));
  EXPECT_FALSE(SameHost("b/x", "c/x"));
  EXPECT_TRUE(SameHost("b/x", "x"));
  EXPECT_TRUE(SameHost("x", "x"));
  EXPECT_FALSE(SameHost("x", "y"));
  EXPECT_FALSE(SameHost("", ""));
  EXPECT_FALSE(SameHost("", "b/x"));
}

}  // namespace
}  // namespace tiercel::net
