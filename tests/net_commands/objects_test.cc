#include "command_fixture.h"

namespace tiercel::net {
namespace {

class Objects : public CommandFixture {
 protected:
  Objects() { Serve("s1", 0xabc, "h1"); }
};

TEST_F(Objects, PinHardSoftAndNone) {
  Put("k", kMiB);
  ExpectOk(Run(DoPin, {"PIN", "k", "hard"}));
  EXPECT_EQ(Integer(Run(DoObjectPlaces, {"OBJECT", "PLACES", "k"}), "hard-pin"), 1);
  ExpectOk(Run(DoPin, {"PIN", "k", "NONE"}));
  EXPECT_EQ(Integer(Run(DoObjectPlaces, {"OBJECT", "PLACES", "k"}), "hard-pin"), 0);
  ExpectOk(Run(DoPin, {"PIN", "k", "SOFT", "60000"}));
  EXPECT_EQ(Integer(Run(DoObjectPlaces, {"OBJECT", "PLACES", "k"}), "soft-pin-ms"), 60'000);
}

// O-19: the budget is a quarter of 16 MiB.
TEST_F(Objects, PinBudget) {
  for (int i = 0; i < 5; ++i) Put("k" + std::to_string(i), kMiB);
  for (int i = 0; i < 4; ++i) ExpectOk(Run(DoPin, {"PIN", "k" + std::to_string(i), "HARD"}));
  ExpectError(Run(DoPin, {"PIN", "k4", "HARD"}), "PINFULL", {std::to_string(4 * kMiB)});
}

TEST_F(Objects, PinArguments) {
  Put("k", 10);
  ExpectError(Run(DoPin, {"PIN", "k", "FIRM"}), "ERR", {"syntax", "FIRM"});
  ExpectError(Run(DoPin, {"PIN", "k", "SOFT"}), "ERR", {"syntax", "SOFT"});
  ExpectError(Run(DoPin, {"PIN", "k", "SOFT", "-1"}), "ERR", {"SOFT"});
  ExpectError(Run(DoPin, {"PIN", "k", "SOFT", "86400001"}), "ERR", {"86400000"});
  ExpectError(Run(DoPin, {"PIN", "k", "HARD", "1"}), "ERR", {"syntax"});
  ExpectError(Run(DoPin, {"PIN", "nothing", "HARD"}), "NOKEY");
  ExpectError(Run(DoPin, {"PIN", std::string(kMaxKeyBytes + 1, 'k'), "HARD"}), "TOOBIG");
}

TEST_F(Objects, ReportOfABadReplica) {
  Serve("s2", 0xdef, "h2");
  const Version version = Put("k", 10, 2);
  const auto before = Replicas(Run(DoGetReplicas, {"GETREPLICAS", "k"}));
  const std::string store = before[0].store + "." + Hex(before[0].incarnation.value);
  ExpectOk(Run(DoReport, {"REPORT", "k", std::to_string(version.value), store, "0.1", "corrupt"}));
  const auto after = Replicas(Run(DoGetReplicas, {"GETREPLICAS", "k"}));
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[1].store, before[0].store) << "offered last until its store has hashed it again";
}

TEST_F(Objects, ReportArguments) {
  const std::string version = std::to_string(Put("k", 10).value);
  const auto report = [&](const std::string& v, const std::string& s, const std::string& p, const std::string& w) {
    return Run(DoReport, {"REPORT", "k", v, s, p, w});
  };
  const std::string store = "s1." + Hex(0xabc);
  ExpectOk(report(version, store, "0.1", "UNREACHABLE"));
  ExpectOk(report(version, store, "0.1", "expired"));
  ExpectError(report("x", store, "0.1", "CORRUPT"), "ERR", {"version"});
  EXPECT_TRUE(report(version, "s1", "0.1", "CORRUPT").is_error());
  EXPECT_TRUE(report(version, store, "0", "CORRUPT").is_error());
  ExpectError(report(version, store, "0.1", "UGLY"), "ERR", {"syntax", "UGLY"});
}

TEST_F(Objects, VerifyOfAnAbsentKey) { ExpectError(Run(DoVerify, {"VERIFY", "nothing"}), "NOKEY"); }

TEST_F(Objects, PlacesShowEachReplicaWithoutAGrant) {
  const Version version = Put("k", 1000);
  clock.Advance(2000);
  const resp::Reply places = Run(DoObjectPlaces, {"OBJECT", "PLACES", "k"});
  EXPECT_EQ(Text(places, "state"), "live");
  EXPECT_EQ(Integer(places, "version"), static_cast<int64_t>(version.value));
  EXPECT_EQ(Integer(places, "size"), 1000);
  EXPECT_EQ(Integer(places, "age-ms"), 2000);
  EXPECT_EQ(Integer(places, "ttl-ms"), -1);
  const resp::Reply* replicas = places.Field("replicas");
  ASSERT_EQ(replicas->items.size(), 1u);
  EXPECT_EQ(Text(replicas->items[0], "store"), "s1");
  EXPECT_EQ(Text(replicas->items[0], "store-state"), "serving");
  EXPECT_EQ(Text(replicas->items[0], "place"), "dram s1.0000000000000abc 0.1 0+1000 -");
  EXPECT_TRUE(Run(DoObjectPlaces, {"OBJECT", "PLACES", "nothing"}).is_null());
}

TEST_F(Objects, ChainShowsTheObject) {
  Put("k", 1000);
  const resp::Reply chain = Run(DoObjectChain, {"OBJECT", "CHAIN", "k"});
  EXPECT_EQ(Integer(chain, "depth"), 0);
  EXPECT_EQ(Integer(chain, "children"), 0);
  ASSERT_EQ(chain.Field("objects")->items.size(), 1u);
  EXPECT_EQ(Text(chain.Field("objects")->items[0], "key"), "k");
  EXPECT_TRUE(Run(DoObjectChain, {"OBJECT", "CHAIN", "nothing"}).is_null());
}

}  // namespace
}  // namespace tiercel::net
