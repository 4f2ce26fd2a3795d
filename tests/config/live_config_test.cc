// CONFIG GET, SET and REWRITE.
#include "server/config/live_config.h"

#include <sys/stat.h>

#include <map>
#include <thread>

#include "tests/config/config_fixture.h"

namespace tiercel::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Row = LiveConfig::Row;

class LiveConfigTest : public ConfigFixture {
 protected:
  std::vector<Row> Get(std::vector<std::string_view> patterns) { return live_.Get(patterns); }
  std::string Value(std::string_view name) {
    const auto rows = Get({name});
    return rows.size() == 1 ? rows[0].second : "(not one)";
  }
  // "" when it worked, else the error's message.
  std::string Set(std::vector<Row> changes) {
    const Status status = live_.Set(changes);
    if (status.ok()) return "";
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalid);
    return status.error().message();
  }

  LiveConfig live_{MustLoad({"--dram", "64mb", "128mb", "--requirepass", "pa ss"})};
};

TEST_F(LiveConfigTest, GetShowsWhatRedisWould) {
  EXPECT_EQ(Value("maxmemory"), "201326592");
  EXPECT_EQ(Value("dram"), "67108864 134217728");
  EXPECT_EQ(Value("proto-max-bulk-len"), "536870912");
  EXPECT_EQ(Value("lease-ttl"), "10s");
  EXPECT_EQ(Value("eviction-high-watermark-ratio"), "0.9");
  EXPECT_EQ(Value("bind"), "127.0.0.1 -::1");
  EXPECT_EQ(Value("save"), "");
  EXPECT_EQ(Value("appendonly"), "no");
  EXPECT_EQ(Value("timeout"), "0");
  EXPECT_EQ(Value("unixsocket"), "");
  EXPECT_EQ(Value("requirepass"), "pa ss");
  EXPECT_EQ(Value("user"), "(not one)");
}

TEST_F(LiveConfigTest, GetTakesPatternsInAnyCaseAndShowsEachRowOnce) {
  EXPECT_THAT(Get({"lease-t*", "LEASE-TTL", "lease-ttl"}), ElementsAre(Pair("lease-ttl", "10s")));
  EXPECT_THAT(Get({"soft-pin-[dm]*"}), ElementsAre(Pair("soft-pin-default", "30m"), Pair("soft-pin-max", "24h")));
  EXPECT_TRUE(Get({"no-such-*"}).empty());
  EXPECT_TRUE(Get({}).empty());
  std::map<std::string, int> seen;
  for (const Row& row : Get({"*", "*"})) ++seen[row.first];
  EXPECT_GT(seen.size(), 60u);
  for (const auto& [name, count] : seen) EXPECT_EQ(count, 1) << name;
}

TEST_F(LiveConfigTest, SetIsAllOrNothing) {
  EXPECT_EQ(Set({{"lease-ttl", "5s"}, {"MAXCLIENTS", "77"}}), "");
  EXPECT_EQ(Value("lease-ttl"), "5s");
  EXPECT_EQ(live_.settings()->max_clients, 77u);
  EXPECT_EQ(
      Set({{"lease-ttl", "6s"}, {"maxclients", "none"}}),
      "CONFIG SET failed (possibly related to argument 'maxclients') - argument couldn't be parsed into an integer");
  EXPECT_EQ(Value("lease-ttl"), "5s");
  EXPECT_EQ(Set({}), "");
}

TEST_F(LiveConfigTest, RefusalsUseRedissWords) {
  EXPECT_EQ(Set({{"nothing", "1"}}), "Unknown option or number of arguments for CONFIG SET - 'nothing'");
  EXPECT_EQ(Set({{"no\r\nthing", "1"}}), "Unknown option or number of arguments for CONFIG SET - 'no  thing'");
  EXPECT_EQ(Set({{"lease-ttl", "5s"}, {"port", "1"}}),
            "CONFIG SET failed (possibly related to argument 'port') - can't set immutable config");
  EXPECT_EQ(Set({{"maxmemory", "1gb"}}),
            "CONFIG SET failed (possibly related to argument 'dram') - can't set immutable config");
  EXPECT_EQ(Set({{"timeout", "1"}, {"timeout", "2"}}),
            "CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter");
  EXPECT_EQ(Set({{"timeout", "-1"}}),
            "CONFIG SET failed (possibly related to argument 'timeout') - argument must be between 0 and 1000000000 "
            "inclusive");
  EXPECT_EQ(Set({{"exists-grants-lease", "x"}}),
            "CONFIG SET failed (possibly related to argument 'exists-grants-lease') - argument must be 'yes' or 'no'");
  EXPECT_EQ(Value("timeout"), "0");
}

// O-54: a byte budget of 2^63 or of "abc" is INVALID and the old value stays.
TEST_F(LiveConfigTest, BadByteBudgetsChangeNothing) {
  const std::string before = Value("metadata-max");
  for (const char* bad : {"9223372036854775808", "abc", "-1", "", "1e9"}) {
    EXPECT_THAT(Set({{"metadata-max", bad}}),
                HasSubstr("CONFIG SET failed (possibly related to argument 'metadata-max')"));
    EXPECT_EQ(Value("metadata-max"), before);
  }
}

TEST_F(LiveConfigTest, DirectivesThatDoNotGoTogetherNameTheOneThatWasSet) {
  EXPECT_EQ(
      Set({{"timeout", "5"}, {"soft-pin-max", "10m"}}),
      "CONFIG SET failed (possibly related to argument 'soft-pin-max') - soft-pin-default 30m is above soft-pin-max "
      "10m");
  EXPECT_EQ(Value("timeout"), "0");
  // Together they do go.
  EXPECT_EQ(Set({{"soft-pin-max", "10m"}, {"soft-pin-default", "10m"}}), "");
}

TEST_F(LiveConfigTest, WhatHasOneValueTakesThatValue) {
  EXPECT_EQ(Set({{"save", ""}, {"appendonly", "no"}}), "");
  EXPECT_THAT(Set({{"save", "60 1"}}), HasSubstr("one of the following"));
}

TEST_F(LiveConfigTest, SnapshotsDoNotChange) {
  const auto before = live_.settings();
  EXPECT_EQ(Set({{"lease-ttl", "5s"}}), "");
  EXPECT_EQ(before->core.lease_ttl_ms, 10'000);
  EXPECT_EQ(live_.settings()->core.lease_ttl_ms, 5'000);
}

TEST_F(LiveConfigTest, ListenersSeeBothSidesAndMayRefuse) {
  std::vector<std::string> calls;
  bool refuse = false;
  live_.AddListener([&](const Settings& before, const Settings& after) {
    calls.push_back("1: " + std::to_string(before.core.lease_ttl_ms) + " " + std::to_string(after.core.lease_ttl_ms));
    return Ok();
  });
  live_.AddListener([&](const Settings&, const Settings&) -> Status {
    calls.push_back("2");
    if (refuse) return Error(ErrorCode::kIo, "the loop is stuck");
    return Ok();
  });
  EXPECT_EQ(Set({{"lease-ttl", "5s"}}), "");
  EXPECT_THAT(calls, ElementsAre("1: 10000 5000", "2"));
  calls.clear();
  refuse = true;
  EXPECT_EQ(Set({{"lease-ttl", "7s"}}),
            "CONFIG SET failed (possibly related to argument 'lease-ttl') - the loop is stuck");
  EXPECT_THAT(calls, ElementsAre("1: 5000 7000", "2", "1: 7000 5000"));
  EXPECT_EQ(Value("lease-ttl"), "5s");
}

TEST_F(LiveConfigTest, ManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= 200; ++i) {
        const std::vector<Row> changes = {{"timeout", std::to_string(i)}, {"maxclients", std::to_string(i)}};
        if (t % 2 == 0) {
          EXPECT_TRUE(live_.Set(changes).ok());
        }
        const auto now = live_.settings();
        if (now->timeout_s != 0) {
          EXPECT_EQ(static_cast<int64_t>(now->max_clients), now->timeout_s);
        }
        const std::string_view pattern[] = {"max*"};
        EXPECT_FALSE(live_.Get(pattern).empty());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LiveConfigTest, RewriteNeedsAFile) {
  EXPECT_EQ(live_.Rewrite().error().message(), "The server is running without a config file");
}

TEST_F(LiveConfigTest, RewriteTouchesOnlyWhatSetHasChanged) {
  const std::string file =
      Write("tiercel.conf",
            "# my server\nport 0\n  LEASE-TTL  7s   \n\nlease-ttl 8s\nrequirepass old\ndram 64mb\ndram 64mb\n");
  ASSERT_EQ(chmod(file.c_str(), 0640), 0);
  LiveConfig live(MustLoad({file, "--maxclients", "9"}));
  const std::vector<Row> changes = {{"lease-ttl", "9s"}, {"requirepass", "new \"pass\""}, {"timeout", "30"}};
  ASSERT_TRUE(live.Set(changes).ok());
  ASSERT_TRUE(live.Rewrite().ok());
  EXPECT_EQ(Read("tiercel.conf"),
            "# my server\nport 0\nlease-ttl 9s\n\nrequirepass 'new \"pass\"'\ndram 64mb\ndram 64mb\n"
            "# Written by CONFIG REWRITE\ntimeout 30\n");
  struct stat status{};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  const Settings again = MustLoad({file});
  EXPECT_EQ(again.core.lease_ttl_ms, 9000);
  EXPECT_EQ(again.requirepass, "new \"pass\"");
  EXPECT_EQ(again.timeout_s, 30);
  // Once more, with another change: no second mark, and what is unset says so.
  const std::vector<Row> more = {{"timeout", "40"}, {"requirepass", ""}};
  ASSERT_TRUE(live.Set(more).ok());
  ASSERT_TRUE(live.Rewrite().ok());
  EXPECT_EQ(Read("tiercel.conf"),
            "# my server\nport 0\nlease-ttl 9s\n\nrequirepass \"\"\ndram 64mb\ndram 64mb\n"
            "# Written by CONFIG REWRITE\ntimeout 40\n");
  EXPECT_EQ(MustLoad({file}).requirepass, "");
}

TEST_F(LiveConfigTest, RewriteGoesBehindIncludes) {
  Write("more.conf", "timeout 5\n");
  const std::string file = Write("tiercel.conf", "timeout 1\ninclude more.conf\n");
  LiveConfig live(MustLoad({file}));
  const std::vector<Row> changes = {{"timeout", "9"}};
  ASSERT_TRUE(live.Set(changes).ok());
  ASSERT_TRUE(live.Rewrite().ok());
  EXPECT_EQ(Read("tiercel.conf"), "include more.conf\n# Written by CONFIG REWRITE\ntimeout 9\n");
  EXPECT_EQ(MustLoad({file}).timeout_s, 9);
}

TEST_F(LiveConfigTest, RewriteThatFailsLeavesTheFile) {
  const std::string file = Write("sub/tiercel.conf", "port 0\n");
  LiveConfig live(MustLoad({file}));
  std::filesystem::remove_all(dir_ / "sub");
  EXPECT_FALSE(live.Rewrite().ok());
}

}  // namespace
}  // namespace tiercel::config
