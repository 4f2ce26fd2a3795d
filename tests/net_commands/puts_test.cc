#include "command_fixture.h"

namespace tiercel::net {
namespace {

class Puts : public CommandFixture {};

TEST_F(Puts, PlanHoldsSealedWriteGrants) {
  const JoinedStore store = Serve("s1", 0xabc, "h1");
  const resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k", "1024"});
  ASSERT_EQ(plan.kind, resp::Reply::Kind::kMap);
  EXPECT_EQ(Text(plan, "outcome"), "created");
  EXPECT_EQ(Integer(plan, "put") >> kCounterBits, 3);
  EXPECT_EQ(Integer(plan, "deadline-ms"), 30'000);
  EXPECT_EQ(Integer(plan, "block"), static_cast<int64_t>(kBlockBytes));
  const auto replicas = Replicas(plan);
  ASSERT_EQ(replicas.size(), 1u);
  EXPECT_EQ(replicas[0].store, "s1");
  EXPECT_EQ(replicas[0].incarnation, store.incarnation);
  EXPECT_EQ(replicas[0].extents.bytes(), 1024u);
  ASSERT_TRUE(replicas[0].has_grant);
  EXPECT_EQ(replicas[0].grant.right, Right::kWrite);
  EXPECT_EQ(replicas[0].grant.user, UserId("alice"));
  EXPECT_EQ(replicas[0].grant.version.value, static_cast<uint64_t>(Integer(plan, "put")));
  ASSERT_FALSE(store.keys.empty());
  EXPECT_TRUE(MacIsRight(store.keys[0], replicas[0].grant)) << "the store can check it with the key of its join";
}

TEST_F(Puts, MapIsAFlatArrayInResp2) {
  Serve("s1", 0xabc, "h1");
  client.protocol = 2;
  const resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k", "10"});
  ASSERT_EQ(plan.kind, resp::Reply::Kind::kArray);
  ASSERT_EQ(plan.items.size(), 10u);
  EXPECT_EQ(plan.items[0].text, "outcome");
  EXPECT_EQ(plan.items[2].text, "put");
  EXPECT_EQ(plan.items[4].text, "deadline-ms");
  EXPECT_EQ(plan.items[6].text, "block");
  EXPECT_EQ(plan.items[8].text, "replicas");
}

// O-01: only the put's user may end it; ending again gives the same answer.
TEST_F(Puts, EndedByItsUserOnAnyConnection) {
  Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", "1024"}), "put"));
  SessionState other = NewSession("bob");
  ExpectError(Run(other, DoPutEnd, {"PUTEND", put, "00000000000000ab"}), "NOPERM");
  ExpectError(Run(other, DoPutRevoke, {"PUTREVOKE", put}), "NOPERM");
  ExpectError(Run(other, DoPutRenew, {"PUTRENEW", put}), "NOPERM");
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k"}).is_null());
  SessionState again = NewSession("alice");
  EXPECT_EQ(Run(again, DoPutEnd, {"PUTEND", put, "00000000000000AB"}).integer, 1);
  EXPECT_EQ(Run(DoPutEnd, {"putend", put, "00000000000000ab"}).integer, 1);
  const resp::Reply found = Run(DoGetReplicas, {"GETREPLICAS", "k"});
  EXPECT_EQ(Text(found, "sum"), "00000000000000ab");
  EXPECT_EQ(std::to_string(Integer(found, "version")), put);
}

// O-03, O-04
TEST_F(Puts, FewerHostsThanReplicas) {
  Serve("s1", 0xabc, "h1");
  EXPECT_EQ(Replicas(Run(DoPutStart, {"PUTSTART", "k", "100", "replicas", "2"})).size(), 1u);
  ExpectError(Run(DoPutStart, {"PUTSTART", "k2", "100", "STRICT", "REPLICAS", "2"}), "STRICT", {"2", "1"});
}

TEST_F(Puts, FailedReplicasAreNotPublished) {
  Serve("s1", 0xabc, "h1");
  Serve("s2", 0xdef, "h2");
  resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k", "100", "REPLICAS", "2"});
  ASSERT_EQ(Replicas(plan).size(), 2u);
  std::string put = std::to_string(Integer(plan, "put"));
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", put, Hex(1), "FAILED", "1", "UNREACHABLE"}).integer, 1);
  const auto replicas = Replicas(Run(DoGetReplicas, {"GETREPLICAS", "k"}));
  ASSERT_EQ(replicas.size(), 1u);
  EXPECT_EQ(replicas[0].store, Replicas(plan)[0].store);

  plan = Run(DoPutStart, {"PUTSTART", "k2", "100", "REPLICAS", "2"});
  put = std::to_string(Integer(plan, "put"));
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1), "failed", "0", "CHECKSUM", "FAILED", "1", "DEADLINE"}),
              "NOREPLICA");
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k2"}).is_null());
}

// O-07: existing and busy are answers, not errors.
TEST_F(Puts, ExistsAndBusyAreNormalReplies) {
  Serve("s1", 0xabc, "h1");
  const Version version = Put("k", 4);
  const resp::Reply exists = Run(DoPutStart, {"PUTSTART", "k", "4"});
  EXPECT_EQ(Text(exists, "outcome"), "exists");
  EXPECT_EQ(Integer(exists, "version"), static_cast<int64_t>(version.value));
  EXPECT_EQ(Integer(exists, "size"), 4);
  EXPECT_EQ(Text(exists, "sum"), "00000000000000ab");

  const int64_t put = Integer(Run(DoPutStart, {"PUTSTART", "k2", "4"}), "put");
  clock.Advance(1500);
  SessionState other = NewSession("bob");
  const resp::Reply busy = Run(other, DoPutStart, {"PUTSTART", "k2", "4"});
  EXPECT_EQ(Text(busy, "outcome"), "busy");
  EXPECT_EQ(Integer(busy, "put"), put);
  EXPECT_EQ(Integer(busy, "age-ms"), 1500);
}

TEST_F(Puts, RevokeGivesBackOnce) {
  Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", "1024"}), "put"));
  EXPECT_EQ(Run(DoPutRevoke, {"PUTREVOKE", put}).integer, 1);
  EXPECT_EQ(Run(DoPutRevoke, {"PUTREVOKE", put}).integer, 0);
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1)}), "NOPUT");
  ExpectError(Run(DoPutRenew, {"PUTRENEW", put}), "NOPUT");
  EXPECT_EQ(Text(Run(DoPutStart, {"PUTSTART", "k", "1024"}), "outcome"), "created");
}

TEST_F(Puts, RenewGivesALaterDeadlineAndFreshGrants) {
  const JoinedStore store = Serve("s1", 0xabc, "h1");
  const resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k", "1024"});
  clock.Advance(20'000);
  const resp::Reply renewed = Run(DoPutRenew, {"PUTRENEW", std::to_string(Integer(plan, "put"))});
  EXPECT_EQ(Integer(renewed, "deadline-ms"), 30'000);
  const auto before = Replicas(plan), after = Replicas(renewed);
  ASSERT_EQ(after.size(), 1u);
  EXPECT_EQ(after[0].extents, before[0].extents);
  EXPECT_EQ(after[0].grant.expiry_ms, before[0].grant.expiry_ms + 20'000);
  EXPECT_TRUE(MacIsRight(store.keys[0], after[0].grant));
}

TEST_F(Puts, OptionsInAnyOrderAndCase) {
  Serve("s1", 0xabc, "h1");
  Serve("s2", 0xdef, "h2");
  Put("parent", 10);
  const resp::Reply plan =
      Run(DoPutStart, {"putstart", "k",      "10",       "hardpin", "Px",      "60000", "exclude", "s1",
                       "softpin",  "1000",   "TIER",     "DRAM",    "ack",     "dram",  "Group",   "g",
                       "PARENT",   "parent", "priority", "-3",      "replace", "Strict"});
  ASSERT_EQ(Text(plan, "outcome"), "created");
  EXPECT_EQ(Replicas(plan)[0].store, "s2");
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", std::to_string(Integer(plan, "put")), Hex(1)}).integer, 1);
  const resp::Reply places = Run(DoObjectPlaces, {"OBJECT", "PLACES", "k"});
  EXPECT_EQ(Integer(places, "hard-pin"), 1);
  EXPECT_EQ(Integer(places, "ttl-ms"), 60'000);
  EXPECT_EQ(Text(places, "group"), "g");
}

TEST_F(Puts, PreferredStore) {
  Serve("s1", 0xabc, "h1");
  Serve("s2", 0xdef, "h2");
  for (int i = 0; i < 8; ++i) {
    const std::string store = i % 2 == 0 ? "s1" : "s2";
    const resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k" + std::to_string(i), "10", "PREFER", store});
    EXPECT_EQ(Replicas(plan)[0].store, store);
  }
}

// O-05: each error names the argument and its limit; nothing is reserved.
TEST_F(Puts, ArgumentLimits) {
  Serve("s1", 0xabc, "h1");
  const auto start = [&](Words more) {
    Words words = {"PUTSTART", "k"};
    words.insert(words.end(), more.begin(), more.end());
    return Run(DoPutStart, words);
  };
  ExpectError(start({"4", "REPLICAS", "0"}), "ERR", {"REPLICAS", "'0'", "1 to 16"});
  ExpectError(start({"4", "REPLICAS", "17"}), "ERR", {"REPLICAS", "1 to 16"});
  ExpectError(start({"4", "REPLICAS", "x"}), "ERR", {"REPLICAS", "1 to 16"});
  ExpectError(start({"4", "REPLICAS"}), "ERR", {"syntax", "REPLICAS"});
  ExpectError(start({"-1"}), "ERR", {"size", "'-1'", "68719476736"});
  ExpectError(start({"1.5"}), "ERR", {"size"});
  ExpectError(start({std::to_string(kMaxValueBytes + 1)}), "TOOBIG", {"size", "68719476737", "68719476736"});
  ExpectError(start({"18446744073709551616"}), "ERR", {"size"});
  ExpectError(start({"4", "TIER", "tape"}), "ERR", {"TIER", "tape", "dram, ssd and dfs"});
  ExpectError(start({"4", "ACK", "ssd"}), "ERR", {"ACK", "ssd"});
  ExpectError(start({"4", "PX", "0"}), "ERR", {"PX"});
  ExpectError(start({"4", "PX", "9223372036854775807"}), "ERR", {"PX"});
  ExpectError(start({"4", "SOFTPIN", "-1"}), "ERR", {"SOFTPIN"});
  ExpectError(start({"4", "PRIORITY", "101"}), "ERR", {"PRIORITY", "-100 to 100"});
  ExpectError(start({"4", "PARENT", ""}), "ERR", {"PARENT", "16384"});
  ExpectError(start({"4", "PARENT", std::string(kMaxKeyBytes + 1, 'p')}), "TOOBIG", {"PARENT", "16385", "16384"});
  ExpectError(start({"4", "GROUP", std::string(257, 'g')}), "ERR", {"GROUP", "257", "256"});
  ExpectError(start({"4", "PREFER", "a b"}), "ERR", {"PREFER"});
  ExpectError(start({"4", "NX"}), "ERR", {"syntax error", "NX"});
  ExpectError(Run(DoPutStart, {"PUTSTART", "", "4"}), "ERR", {"key", "empty", "16384"});
  ExpectError(Run(DoPutStart, {"PUTSTART", std::string(kMaxKeyBytes + 1, 'k'), "4"}), "TOOBIG",
              {"key", "16385", "16384"});
  EXPECT_EQ(master.open_puts(), 0u);
  EXPECT_EQ(master.Figures(Tier::kDram).bytes.free, 16 * kMiB);

  EXPECT_EQ(Text(Run(DoPutStart, {"PUTSTART", std::string(kMaxKeyBytes, 'k'), "4"}), "outcome"), "created");
  const resp::Reply empty = start({"0"});
  EXPECT_EQ(Text(empty, "outcome"), "created");
  EXPECT_EQ(Replicas(empty)[0].extents.size(), 0u);
}

// O-23
TEST_F(Puts, SoftPinBeyondTheLongestIsRefused) {
  Serve("s1", 0xabc, "h1");
  ExpectError(Run(DoPutStart, {"PUTSTART", "k", "4", "SOFTPIN", "86401000"}), "ERR", {"86400000"});
  EXPECT_EQ(Text(Run(DoPutStart, {"PUTSTART", "k", "4", "SOFTPIN", "86400000"}), "outcome"), "created");
}

TEST_F(Puts, PutArgumentsOfTheOthers) {
  Serve("s1", 0xabc, "h1");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k", "1024"}), "put"));
  for (const std::string bad : {"0", "-1", "x", "9223372036854775808", ""}) {
    ExpectError(Run(DoPutEnd, {"PUTEND", bad, Hex(1)}), "ERR", {"put"});
    ExpectError(Run(DoPutRenew, {"PUTRENEW", bad}), "ERR", {"put"});
    ExpectError(Run(DoPutRevoke, {"PUTREVOKE", bad}), "ERR", {"put"});
  }
  for (const std::string bad : {"", "1", "00000000000000abc", "000000000000000g"}) {
    ExpectError(Run(DoPutEnd, {"PUTEND", put, bad}), "ERR", {"sum", "16 hexadecimal"});
  }
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1), "FAILED", "16", "CHECKSUM"}), "ERR", {"FAILED", "0 to 15"});
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1), "FAILED", "0"}), "ERR", {"syntax"});
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1), "FAILED", "0", "BECAUSE"}), "ERR", {"reason"});
  ExpectError(Run(DoPutEnd, {"PUTEND", put, Hex(1), "LOST", "0"}), "ERR", {"syntax", "LOST"});
  Words many = {"PUTEND", put, Hex(1)};
  for (int i = 0; i < 17; ++i) many.insert(many.end(), {"FAILED", "0", "CHECKSUM"});
  ExpectError(Run(DoPutEnd, many), "TOOBIG", {"FAILED", "16"});
  ExpectError(Run(DoPutEnd, {"PUTEND", "12345", Hex(1)}), "NOPUT");
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", put, Hex(1)}).integer, 1);
}

TEST_F(Puts, NoRoomNamesTheNumbers) {
  Serve("s1", 0xabc, "h1");
  ExpectError(Run(DoPutStart, {"PUTSTART", "k", std::to_string(17 * kMiB)}), "OOM",
              {"needed", "free 16777216", "quarantined"});
}

TEST_F(Puts, NoStoreIsNoRoom) { ExpectError(Run(DoPutStart, {"PUTSTART", "k", "4"}), "OOM"); }

}  // namespace
}  // namespace tiercel::net
