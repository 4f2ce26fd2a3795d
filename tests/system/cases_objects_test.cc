// Acceptance cases of objects against whole servers: what the core's tests show for places, here with real bytes, by
// a plain Redis client and by the C++ client.
#include <gtest/gtest.h>
#include <poll.h>

#include <map>

#include "base/clock.h"
#include "tests/support/server_process.h"
#include "tests/system/redis.h"
#include "tiercel/client.h"

namespace tiercel::test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

template <typename F>
bool Eventually(F&& condition, int64_t guard_ms = 30'000) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(guard_ms);
  while (!condition()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

// Differs from any other seed's in every 8 bytes.
std::string Value(size_t size, uint64_t seed) {
  std::string value(size, '\0');
  uint64_t word = (seed + 1) * 0x9E3779B97F4A7C15u;
  for (size_t i = 0; i < size; ++i) {
    if (i % 8 == 0) word = word * 6364136223846793005u + 1442695040888963407u;
    value[i] = static_cast<char>(word >> (8 * (i % 8)));
  }
  return value;
}

std::unique_ptr<Client> ConnectTo(const ServerProcess& server) {
  ClientOptions options;
  options.master = server.address("resp").substr(0, server.address("resp").find(','));
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.error().ToString();
  return client.ok() ? std::move(*client) : nullptr;
}

int64_t TierField(Redis& redis, std::string_view field) {
  return redis.Call({"TIERS"}).items.at(0).Field(field).integer;
}

std::string Number(const RedisReply& reply, std::string_view field) {
  return std::to_string(reply.Field(field).integer);
}

class CasesOfObjects : public testing::Test {
 protected:
  void Start(std::vector<std::string> arguments) {
    auto server = ServerProcess::StartSingle(std::move(arguments));
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(*server);
    redis_ = std::make_unique<Redis>(server_->host(), server_->port());
    client_ = ConnectTo(*server_);
    ASSERT_NE(client_, nullptr);
  }
  RedisReply Call(const std::vector<std::string_view>& words) { return redis_->Call(words); }
  // Present and right, or absent; never anything else. True when present.
  bool IntactOrAbsent(const std::string& key, const std::string& value) {
    auto got = client_->Get(key);
    EXPECT_TRUE(got.ok()) << key << ": " << got.error().ToString();
    if (!got.ok() || !got->has_value()) return false;
    EXPECT_TRUE((*got)->view() == value) << key << " has other bytes";
    return true;
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Redis> redis_;
  std::unique_ptr<Client> client_;
};

TEST_F(CasesOfObjects, O01_AReservationIsNotAnEntry) {
  auto server = ServerProcess::StartSingle({"--dram", "16mb", "--user", "w on >w", "--user", "v on >v"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  server_ = std::move(*server);
  const auto login = [&](const char* name) {
    auto redis = std::make_unique<Redis>(server_->host(), server_->port());
    EXPECT_TRUE(redis->Call({"AUTH", name, name}).is_ok());
    return redis;
  };
  auto w = login("w"), v = login("v");
  for (const bool other_connection : {false, true}) {
    const std::string key = other_connection ? "k2" : "k";
    const RedisReply plan = w->Call({"PUTSTART", key, "1024"});
    ASSERT_EQ(plan.Field("outcome").text, "created") << plan.Describe();
    const RedisReply replicas = plan.Field("replicas");
    ASSERT_EQ(replicas.items.size(), 1u);
    const std::string line = replicas.items[0].text;
    EXPECT_NE(line.find("+1024 "), std::string::npos) << line;
    EXPECT_NE(line.find(".W."), std::string::npos) << "a write grant: " << line;
    const std::string put = Number(plan, "put");
    for (Redis* redis : {v.get(), w.get()}) {
      EXPECT_EQ(redis->Call({"EXISTS", key}).integer, 0);
      EXPECT_TRUE(redis->Call({"GETREPLICAS", key}).is_nil());
      EXPECT_TRUE(redis->Call({"GET", key}).is_nil());
      EXPECT_EQ(redis->Call({"DEL", key}).integer, 0);
      EXPECT_EQ(redis->Call({"STRLEN", key}).integer, 0);
      EXPECT_EQ(redis->Call({"TYPE", key}).text, "none");
      EXPECT_EQ(redis->Call({"SCAN", "0"}).items.at(1).items.size(), other_connection ? 1u : 0u);
    }
    EXPECT_EQ(v->Call({"PUTEND", put, "00000000000000ab"}).text.rfind("NOPERM", 0), 0u);
    EXPECT_EQ(v->Call({"PUTREVOKE", put}).text.rfind("NOPERM", 0), 0u);
    EXPECT_EQ(w->Call({"EXISTS", key}).integer, 0);
    auto again = other_connection ? login("w") : nullptr;
    Redis& ender = other_connection ? *again : *w;
    EXPECT_EQ(ender.Call({"PUTEND", put, "00000000000000ab"}).integer, 1);
    const RedisReply found = v->Call({"GETREPLICAS", key});
    EXPECT_EQ(found.Field("replicas").items.size(), 1u);
    EXPECT_EQ(found.Field("size").integer, 1024);
    EXPECT_EQ(Number(found, "version"), put);
    EXPECT_EQ(found.Field("sum").text, "00000000000000ab");
    EXPECT_GT(found.Field("lease-ms").integer, 0);
    EXPECT_EQ(w->Call({"PUTEND", put, "00000000000000ab"}).integer, 1) << "the same answer again";
  }
}

TEST_F(CasesOfObjects, O05_TheEmptyValueAndTheLongestKeyByCommands) {
  Start({"--dram", "16mb"});
  for (const auto& [words, word] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"PUTSTART", "k", "1", "REPLICAS", "0"}, "ERR"},
           {{"PUTSTART", "", "1"}, "ERR"},
           {{"PUTSTART", std::string(16'385, 'k'), "1"}, "TOOBIG"},
           {{"PUTSTART", "k", "68719476737"}, "TOOBIG"}}) {
    const RedisReply reply = Call({words.begin(), words.end()});
    ASSERT_TRUE(reply.is_error());
    EXPECT_EQ(reply.text.substr(0, reply.text.find(' ')), word) << reply.text;
    EXPECT_EQ(Call({"PING"}).text, "PONG");
  }
  EXPECT_EQ(TierField(*redis_, "used"), 0);
  EXPECT_EQ(TierField(*redis_, "free"), 16 << 20);
  // By the client, the empty value has its own sum; both are read back, verified.
  const std::string longest(16'384, 'k');
  ASSERT_TRUE(client_->Put("empty", "").ok());
  ASSERT_TRUE(client_->Put(longest, "v").ok());
  EXPECT_EQ(Call({"EXISTS", "empty", longest}).integer, 2);
  const RedisReply got = Call({"GET", "empty"});
  EXPECT_EQ(got.type, REDIS_REPLY_STRING);
  EXPECT_EQ(got.text, "");
  EXPECT_EQ((*client_->Get("empty"))->size(), 0u);
  EXPECT_EQ((*client_->Get(longest))->view(), "v");
}

TEST_F(CasesOfObjects, O09_O10_RemovedUnderALease) {
  Start({"--dram", "32mb", "--lease-ttl", "60s"});
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Call({"SET", "k" + std::to_string(i), Value(kMiB, i)}).is_ok());
  const int64_t free = TierField(*redis_, "free");
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Call({"EXISTS", "k" + std::to_string(i)}).integer, 1);
  ASSERT_TRUE(Call({"FLUSHDB"}).is_ok());
  EXPECT_EQ(Call({"DBSIZE"}).integer, 0);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(Call({"GET", "k" + std::to_string(i)}).is_nil());
  EXPECT_EQ(TierField(*redis_, "free"), free + static_cast<int64_t>(5 * kMiB));
  EXPECT_EQ(TierField(*redis_, "quarantined"), static_cast<int64_t>(5 * kMiB));
  ASSERT_TRUE(Call({"SET", "new", Value(5 * kMiB, 99)}).is_ok());
  EXPECT_TRUE(IntactOrAbsent("new", Value(5 * kMiB, 99)));
}

TEST_F(CasesOfObjects, O11_LeasesCannotStopEviction) {
  Start({"--dram", "16mb", "--lease-ttl", "60s", "--lease-max-ratio", "0.5"});
  std::map<int, int64_t> leased;
  for (int i = 0; i < 26; ++i) {
    const std::string key = "k" + std::to_string(i);
    const RedisReply set = Call({"SET", key, Value(kMiB, i)});
    ASSERT_TRUE(set.is_ok()) << i << ": " << set.Describe();
    const RedisReply found = Call({"GETREPLICAS", key});
    ASSERT_FALSE(found.is_nil()) << i;
    EXPECT_EQ(found.Field("lease-ms").integer, i < 8 ? 60'000 : 0) << i;
  }
  for (int i = 0; i < 26; ++i) {
    const bool there = IntactOrAbsent("k" + std::to_string(i), Value(kMiB, i));
    EXPECT_TRUE(there || i >= 8) << "a victim was leased: " << i;
  }
}

TEST_F(CasesOfObjects, O13_ProbingWhatIsNotThere) {
  Start({"--dram", "16mb"});
  const RedisReply plan = Call({"PUTSTART", "k1", "4"});
  ASSERT_TRUE(Call({"SET", "k2", "v"}).is_ok());
  ASSERT_EQ(Call({"DEL", "k2"}).integer, 1);
  for (const char* key : {"k1", "k2", "k3"}) {
    EXPECT_EQ(Call({"EXISTS", key}).integer, 0);
    EXPECT_TRUE(Call({"GETREPLICAS", key}).is_nil());
    EXPECT_TRUE(Call({"GET", key}).is_nil());
    EXPECT_EQ(Call({"DEL", key}).integer, 0);
  }
  EXPECT_EQ(TierField(*redis_, "leased"), 0);
  EXPECT_EQ(Call({"PUTEND", Number(plan, "put"), "0000000000000001"}).integer, 1);
}

TEST_F(CasesOfObjects, O18_SoftPinsNeverRefuseAPut) {
  Start({"--dram", "16mb"});
  for (int i = 0; i < 66; ++i) {
    auto put = client_->Put("k" + std::to_string(i), Value(kMiB, i), {.soft_pin_ms = 600'000});
    ASSERT_TRUE(put.ok()) << i << ": " << put.error().ToString();
  }
  int there = 0;
  for (int i = 0; i < 66; ++i) there += IntactOrAbsent("k" + std::to_string(i), Value(kMiB, i)) ? 1 : 0;
  EXPECT_GE(there, 13);
  EXPECT_TRUE(IntactOrAbsent("k65", Value(kMiB, 65)));
}

TEST_F(CasesOfObjects, O19_HardPinsAndTheirBudget) {
  Start({"--dram", "16mb", "--hard-pin-max-ratio", "0.25"});
  ASSERT_TRUE(client_->Put("pinned", Value(kMiB, 1), {.hard_pin = true}).ok());
  for (int i = 0; i < 20; ++i) {
    auto put = client_->Put("f" + std::to_string(i), Value(kMiB, 100 + i));
    ASSERT_TRUE(put.ok()) << i << ": " << put.error().ToString();
  }
  EXPECT_TRUE(IntactOrAbsent("pinned", Value(kMiB, 1)));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client_->Put("p" + std::to_string(i), Value(kMiB, 50 + i), {.hard_pin = true}).ok()) << i;
  }
  const auto refused = client_->Put("p3", Value(kMiB, 53), {.hard_pin = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kPinBudget);
  EXPECT_NE(refused.error().message().find("4194304 of 4194304"), std::string::npos) << refused.error().ToString();
  EXPECT_FALSE(*client_->Exists("p3"));
  EXPECT_EQ(TierField(*redis_, "hard-pinned"), 4 << 20);
  EXPECT_EQ(Call({"DEL", "pinned"}).integer, 1);
  EXPECT_EQ(TierField(*redis_, "hard-pinned"), 3 << 20);
  auto again = client_->Put("p3", Value(kMiB, 53), {.hard_pin = true});
  EXPECT_TRUE(again.ok()) << again.error().ToString();
}

TEST_F(CasesOfObjects, O20_FullToTheLastByteAndOn) {
  constexpr size_t kSize = 15 * 1024;
  Start({"--dram", std::to_string(16'384 * kSize), "--eviction-high-watermark-ratio", "1.0"});
  const auto set = [&](int begin, int end, size_t size, const char* prefix) {
    for (int i = begin; i < end; i += 64) {
      std::vector<std::string> keys, values;
      for (int k = i; k < std::min(i + 64, end); ++k) {
        keys.push_back(prefix + std::to_string(k));
        values.push_back(Value(size, static_cast<uint64_t>(k) + size));
      }
      for (size_t k = 0; k < keys.size(); ++k) redis_->Send({"SET", keys[k], values[k]});
      for (size_t k = 0; k < keys.size(); ++k) {
        const RedisReply reply = redis_->Receive();
        ASSERT_TRUE(reply.is_ok()) << keys[k] << ": " << reply.Describe();
      }
    }
  };
  set(0, 16'384, kSize, "k");
  EXPECT_EQ(Call({"DBSIZE"}).integer, 16'384);
  EXPECT_EQ(TierField(*redis_, "free"), 0);
  set(16'384, 16'434, kSize, "k");
  EXPECT_EQ(Call({"DBSIZE"}).integer, 16'384) << "each of the last 50 at the cost of one";
  int64_t deleted = 0;
  for (int i = 50; i < 16'434; i += 2) deleted += Call({"DEL", "k" + std::to_string(i)}).integer;
  EXPECT_EQ(deleted, 8'192);
  const int large = 8'192 / 2 / 3;
  set(0, large, 3 * kSize, "large");
  EXPECT_EQ(Call({"DBSIZE"}).integer, 8'192 + large) << "scattered space is no reason to evict";
  for (int i = 51; i < 16'434; i += 202) EXPECT_TRUE(IntactOrAbsent("k" + std::to_string(i), Value(kSize, i + kSize)));
  for (int i = 0; i < large; i += 25) {
    EXPECT_TRUE(IntactOrAbsent("large" + std::to_string(i), Value(3 * kSize, i + 3 * kSize)));
  }
}

TEST_F(CasesOfObjects, O25_RemovalStaysInItsNamespace) {
  Start({"--dram", "16mb"});
  for (const char* ns : {"0", "1", "2"}) {
    ASSERT_TRUE(Call({"SELECT", ns}).is_ok());
    ASSERT_TRUE(Call({"SET", "k", std::string("of ") + ns}).is_ok());
  }
  ASSERT_TRUE(Call({"SELECT", "0"}).is_ok());
  EXPECT_EQ(Call({"DEL", "k"}).integer, 1);
  EXPECT_TRUE(Call({"FLUSHDB"}).is_ok());
  EXPECT_EQ(Call({"DBSIZE"}).integer, 0);
  for (const char* ns : {"1", "2"}) {
    ASSERT_TRUE(Call({"SELECT", ns}).is_ok());
    EXPECT_EQ(Call({"GET", "k"}).text, std::string("of ") + ns);
    const RedisReply scan = Call({"SCAN", "0"});
    ASSERT_EQ(scan.items.at(1).items.size(), 1u);
    EXPECT_EQ(scan.items[1].items[0].text, "k");
  }
}

// O-38 with one pinned value of the whole budget.
TEST_F(CasesOfObjects, O38_ReplaceWithAnotherSizeAndWithoutRoom) {
  Start({"--dram", "8mb", "--hard-pin-max-ratio", "0.5", "--lease-ttl", "1ms", "--put-wait", "1ms"});
  auto pinned = client_->Put("pinned", Value(4 * kMiB, 1), {.hard_pin = true});
  ASSERT_TRUE(pinned.ok()) << pinned.error().ToString();
  ASSERT_TRUE(client_->Put("k", Value(kMiB, 2)).ok());
  ASSERT_TRUE(client_->Put("k", Value(3 * kMiB / 2, 3), {.replace = true}).ok());
  EXPECT_TRUE(IntactOrAbsent("k", Value(3 * kMiB / 2, 3)));
  const auto version = (*client_->Stat("k"))->version;
  auto third = client_->Put("k", Value(3 * kMiB, 4), {.replace = true, .timeout_ms = 300});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kNoSpace) << third.error().ToString();
  EXPECT_EQ((*client_->Stat("k"))->version, version);
  EXPECT_TRUE(IntactOrAbsent("k", Value(3 * kMiB / 2, 3)));
  EXPECT_TRUE(IntactOrAbsent("pinned", Value(4 * kMiB, 1)));
}

// O-39, O-40 by commands: revoked and dropped replaces leave the old version; a closed connection's is taken over.
TEST_F(CasesOfObjects, O39_O40_AReplaceThatFailsLosesNothing) {
  Start({"--dram", "64mb", "--lease-ttl", "200ms"});
  ASSERT_TRUE(client_->Put("k", Value(kMiB, 1)).ok());
  const uint64_t v1 = (*client_->Stat("k"))->version.value;
  const int64_t free = TierField(*redis_, "free");
  const RedisReply revoked = Call({"PUTSTART", "k", "1000000", "REPLACE"});
  ASSERT_EQ(revoked.Field("outcome").text, "created");
  EXPECT_EQ(Call({"PUTREVOKE", Number(revoked, "put")}).integer, 1);
  EXPECT_TRUE(IntactOrAbsent("k", Value(kMiB, 1)));
  std::string dropped;
  {
    Redis writer(server_->host(), server_->port());
    const RedisReply plan = writer.Call({"PUTSTART", "k", "1000000", "REPLACE"});
    ASSERT_EQ(plan.Field("outcome").text, "created");
    dropped = Number(plan, "put");
    EXPECT_EQ(Call({"PUTSTART", "k", "10", "REPLACE"}).Field("outcome").text, "busy");
  }
  EXPECT_TRUE(IntactOrAbsent("k", Value(kMiB, 1)));
  EXPECT_EQ((*client_->Stat("k"))->version.value, v1);
  ASSERT_TRUE(Eventually([&] { return client_->Put("k", Value(kMiB, 2), {.replace = true}).ok(); }));
  EXPECT_GT((*client_->Stat("k"))->version.value, std::stoull(dropped));
  EXPECT_EQ(Call({"PUTEND", dropped, "0000000000000001"}).text.rfind("NOPUT", 0), 0u);
  EXPECT_TRUE(IntactOrAbsent("k", Value(kMiB, 2)));
  ASSERT_TRUE(*client_->Remove("k"));
  EXPECT_TRUE(Eventually([&] { return TierField(*redis_, "free") == free + static_cast<int64_t>(kMiB); }))
      << "the abandoned space comes back";
}

// O-34 as an operator sees it: two stores, one leaves with notice.
TEST_F(CasesOfObjects, O34_LeavingWithNotice) {
  auto master = ServerProcess::StartMaster();
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto a = ServerProcess::StartStore(**master, "a", {"--dram", "16mb"});
  auto b = ServerProcess::StartStore(**master, "b", {"--dram", "16mb"});
  ASSERT_TRUE(a.ok() && b.ok());
  Redis redis((*master)->host(), (*master)->port());
  ASSERT_TRUE(Eventually([&] { return redis.Call({"STORES"}).items.size() == 2; }));
  client_ = ConnectTo(**master);
  ASSERT_TRUE(client_->Put("k", Value(kMiB, 1), {.preferred_store = "a"}).ok());
  ASSERT_EQ((*client_->Stat("k"))->replicas.at(0).store, "a");
  EXPECT_TRUE(redis.Call({"STORE", "LEAVE", "a", "GRACE", "3600000"}).is_ok());
  EXPECT_TRUE(redis.Call({"STORE", "LEAVE", "a", "GRACE", "3600000"}).is_ok()) << "a repeat";
  EXPECT_EQ(redis.Call({"STORE", "LEAVE", "nobody"}).text.rfind("NOSTORE", 0), 0u);
  EXPECT_TRUE(IntactOrAbsent("k", Value(kMiB, 1))) << "readable during the grace";
  for (int i = 0; i < 10; ++i) {
    const std::string key = "n" + std::to_string(i);
    ASSERT_TRUE(client_->Put(key, "v").ok());
    EXPECT_EQ((*client_->Stat(key))->replicas.at(0).store, "b");
  }
  EXPECT_TRUE(redis.Call({"STORE", "LEAVE", "a", "GRACE", "0"}).is_ok());
  EXPECT_EQ(redis.Call({"EXISTS", "k"}).integer, 0);
}

}  // namespace
}  // namespace tiercel::test
