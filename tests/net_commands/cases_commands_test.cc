// Acceptance cases whose answer is the form of a reply: order in batches, addresses, versions.
#include "command_fixture.h"
#include "protocol/resp/version.h"

namespace tiercel::net {
namespace {

class CasesOfCommands : public CommandFixture {};

// O-32: what lay on a store that has left, before any sweep: absent one by one and in every batch, in order.
TEST_F(CasesOfCommands, O32_BatchesKeepTheirOrderWithoutTheLeftStore) {
  Serve("s1", 0xabc, "h1");
  Put("k1", 10);
  Serve("s2", 0xdef, "h2");
  const std::string put = std::to_string(Integer(Run(DoPutStart, {"PUTSTART", "k2", "20", "EXCLUDE", "s1"}), "put"));
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", put, Hex(1)}).integer, 1);
  client.store_right = true;
  ExpectOk(Run(DoStoreLeave, {"STORE", "LEAVE", "s1"}));
  EXPECT_TRUE(Run(DoGetReplicas, {"GETREPLICAS", "k1"}).is_null());
  for (const bool k1_first : {true, false}) {
    const Words keys = k1_first ? Words{"k1", "k2"} : Words{"k2", "k1"};
    const resp::Reply both = Run(DoMGetReplicas, {"MGETREPLICAS", "2", keys[0], keys[1]});
    ASSERT_EQ(both.items.size(), 2u);
    EXPECT_TRUE(both.items[k1_first ? 0 : 1].is_null());
    EXPECT_EQ(Integer(both.items[k1_first ? 1 : 0], "size"), 20);
    EXPECT_EQ(Run(DoExists, {"EXISTS", keys[0], keys[1]}).integer, 1);
    EXPECT_EQ(Run(DoPrefixMatch, {"PREFIXMATCH", "2", keys[0], keys[1]}).items.at(0).integer, k1_first ? 0 : 1);
  }
  EXPECT_EQ(Run(DoExists, {"EXISTS", "k1"}).integer, 0);
  EXPECT_EQ(Run(DoExists, {"EXISTS", "k1", "k1", "k2", "k2"}).integer, 2);
  const resp::Reply scan = Run(DoScan, {"SCAN", "0", "COUNT", "100"});
  ASSERT_EQ(scan.items.at(1).items.size(), 1u);
  EXPECT_EQ(scan.items[1].items[0].text, "k2");
  const resp::Reply plan = Run(DoPutStart, {"PUTSTART", "k1", "10"});
  ASSERT_EQ(Text(plan, "outcome"), "created");
  EXPECT_EQ(Replicas(plan).at(0).store, "s2");
  EXPECT_EQ(Run(DoPutEnd, {"PUTEND", std::to_string(Integer(plan, "put")), Hex(2)}).integer, 1);
  master.Tick(clock.Now(), 100'000);  // the late sweep
  EXPECT_EQ(Integer(Run(DoGetReplicas, {"GETREPLICAS", "k1"}), "version"), Integer(plan, "put"));
}

// P-10: an IPv6 address comes out as it went in, and can be pasted back.
TEST_F(CasesOfCommands, P10_AddressesInBrackets) {
  SessionState session = NewSession("store");
  session.store_right = true;
  session.progress.dialed = Ok();
  Words words = JoinWords("s1", 0xabc, "h1");
  words[6] = "[fd00::1]:7380";
  EXPECT_FALSE(Run(session, DoStoreJoin, words).is_error());
  EXPECT_EQ(Text(Run(DoStores, {"STORES", "s1"}).items.at(0), "data-address"), "[fd00::1]:7380");
}

// O-04: "fewer than asked" is counted once for each put that is short, and not for one that is not.
TEST_F(CasesOfCommands, O04_PartialPlacementIsCounted) {
  Serve("s1", 0xabc, "h1");
  Serve("s2", 0xdef, "h2");
  EXPECT_EQ(Replicas(Run(DoPutStart, {"PUTSTART", "a", "10", "REPLICAS", "3"})).size(), 2u);
  EXPECT_EQ(master.counters().puts_partial, 1u);
  EXPECT_EQ(Replicas(Run(DoPutStart, {"PUTSTART", "b", "10", "REPLICAS", "2"})).size(), 2u);
  EXPECT_EQ(master.counters().puts_partial, 1u);
  ExpectError(Run(DoPutStart, {"PUTSTART", "c", "10", "REPLICAS", "3", "STRICT"}), "STRICT", {"3", "2"});
  EXPECT_EQ(master.counters().puts_partial, 1u);
}

// P-15
TEST_F(CasesOfCommands, P15_TicketsForKnownMajorsOnly) {
  EXPECT_FALSE(Run(DoTicket, {"TICKET", "proto", "1.0", "HOST", "b/h"}).is_error());
  EXPECT_EQ(client.host_id, "b/h");
  ExpectError(Run(DoTicket, {"TICKET", "HOST", "other", "PROTO", "7.3"}), "NOPROTO", {"7.3", "1.0"});
  EXPECT_EQ(shared.versions_refused, 1u);
  ExpectError(Run(DoTicket, {"TICKET", "PROTO"}), "ERR", {"syntax"});
  EXPECT_EQ(shared.versions_refused, 1u);
}

TEST(ControlVersion, TextBothWays) {
  using resp::ControlVersion;
  for (const ControlVersion version : {ControlVersion{0, 0}, ControlVersion{1, 0}, ControlVersion{65535, 65535}}) {
    EXPECT_EQ(resp::ParseControlVersion(resp::ControlVersionText(version)), version);
  }
  for (const char* bad :
       {"", ".", "1", "1.", ".1", "1.2.3", "+1.0", "-1.0", "1.65536", "99999999999999999999.0", "1 .0"}) {
    EXPECT_FALSE(resp::ParseControlVersion(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace tiercel::net
