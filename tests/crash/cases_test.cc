// Acceptance cases whose subject is a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "base/clock.h"
#include "tests/crash/load.h"

namespace tiercel::test {
namespace {

namespace fs = std::filesystem;

class RestartCases : public testing::Test {
 protected:
  void SetUp() override {
    if (!MemoryDir::Fits(Deployment::Shape::Bytes(2))) GTEST_SKIP() << "no tmpfs with room for two stores";
  }
  static void RestartAll(Deployment& system) {
    for (size_t i = 0; i < system.size(); ++i) system.Kill(i);
    for (size_t i = 0; i < system.size(); ++i) {
      const Status started = system.Start(i);
      ASSERT_TRUE(started.ok()) << started.error().ToString();
    }
    ASSERT_TRUE(system.AwaitSettled());
  }
  static uint64_t VersionOf(Redis& redis, const std::string& key) {
    return static_cast<uint64_t>(redis.Call({"OBJECT", "PLACES", key}).Field("version").integer);
  }
  static int64_t UsedBytes(Redis& redis) { return redis.Call({"TIERS"}).items.at(0).Field("used").integer; }
};

// O-39: the master is killed with a replace under way. The old version stays, and nothing of the new one.
TEST_F(RestartCases, O39_AReplaceThatItsMastersDeathCutsLosesNothing) {
  Deployment system({.stores = 1, .more = {"--lease-ttl", "100ms", "--put-start-discard-timeout", "1s"}});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto client = system.ConnectClient();
  const std::string v1 = ValueOf(1, 3'000'000);
  const auto put = client->Put("k", v1);
  ASSERT_TRUE(put.ok()) << put.error().ToString();
  const int64_t used = UsedBytes(*system.Connect());
  const RedisReply plan = system.Connect()->Call({"PUTSTART", "k", "4000000", "REPLACE"});
  ASSERT_EQ(plan.Field("outcome").text, "created") << plan.Describe();
  const auto abandoned = static_cast<uint64_t>(plan.Field("put").integer);
  system.Kill(0);
  ASSERT_TRUE(system.Start(0).ok());
  ASSERT_TRUE(system.AwaitSettled());
  const auto redis = system.Connect();
  EXPECT_EQ(VersionOf(*redis, "k"), put->version.value);
  EXPECT_EQ(redis->Call({"GET", "k"}).text, v1);
  EXPECT_TRUE(redis->Call({"PUTEND", std::to_string(abandoned), "0000000000000000"}).text.starts_with("NOPUT"));
  EXPECT_TRUE(Eventually([&] { return UsedBytes(*redis) == used; })) << "the abandoned space comes back";
  PutOptions replace;
  replace.replace = true;
  const auto next = client->Put("k", ValueOf(2, 10), replace);
  ASSERT_TRUE(next.ok()) << next.error().ToString();
  EXPECT_GT(next->version.value, abandoned);
}

// O-41, the restart: after a replace that was answered it is the new version, whatever dies.
TEST_F(RestartCases, O41_AfterARestartOfMasterAndStoresAKeyIsItsNewVersion) {
  Deployment system({.stores = 2});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto client = system.ConnectClient();
  PutOptions how;
  how.replicas = 2;
  ASSERT_TRUE(client->Put("k", ValueOf(1, 2'000'000), how).ok());
  how.replace = true;
  const auto second = client->Put("k", ValueOf(2, 1'500'000), how);
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  RestartAll(system);
  const auto redis = system.Connect();
  EXPECT_EQ(VersionOf(*redis, "k"), second->version.value);
  EXPECT_EQ(redis->Call({"OBJECT", "PLACES", "k"}).Field("replicas").items.size(), 2u);
  EXPECT_EQ(redis->Call({"GET", "k"}).text, ValueOf(2, 1'500'000));
}

// O-48, as memory on tmpfs has it: what is whole is served; what was cut, or is another storage's, is a miss; what is
// not ours is left alone.
TEST_F(RestartCases, O48_WhatLiesInTheMemoryDirectoryIsServedWhenItIsOurs) {
  Deployment system({.stores = 2});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto client = system.ConnectClient();
  for (int i = 0; i < 50; ++i) {
    PutOptions how;
    how.preferred_store = i % 2 == 0 ? "s1" : "s2";
    ASSERT_TRUE(client->Put("k" + std::to_string(i), ValueOf(i + 1, 20'000), how).ok());
  }
  for (size_t i = 0; i < system.size(); ++i) system.Kill(i);
  std::ofstream(system.memory_of(1) / "notes.txt") << "not ours";
  for (const auto& entry : fs::directory_iterator(system.memory_of(2))) {
    if (entry.path().filename().string().starts_with("segment")) fs::resize_file(entry.path(), entry.file_size() / 2);
  }
  for (size_t i = 0; i < system.size(); ++i) {
    const Status started = system.Start(i);
    ASSERT_TRUE(started.ok()) << started.error().ToString();
  }
  ASSERT_TRUE(system.AwaitSettled());
  const auto redis = system.Connect();
  for (int i = 0; i < 50; ++i) {
    const RedisReply got = redis->Call({"GET", "k" + std::to_string(i)});
    if (i % 2 == 0) {
      EXPECT_EQ(got.text, ValueOf(i + 1, 20'000)) << i;
    } else {
      EXPECT_TRUE(got.is_nil()) << i << ": its segment was cut";
    }
  }
  EXPECT_TRUE(fs::exists(system.memory_of(1) / "notes.txt"));
  EXPECT_TRUE(redis->Call({"SET", "k1", "new"}).is_ok());
}

// O-49: bytes that reached their store, and whose put was not acknowledged, are nobody's after a restart.
TEST_F(RestartCases, O49_WhatWasWrittenAndNotAcceptedIsNotServed) {
  Deployment system({.stores = 1, .more = {"--lease-ttl", "100ms"}});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto redis = system.Connect();
  ASSERT_TRUE(redis->Call({"SET", "kept", ValueOf(1, 1'000)}).is_ok());
  const int64_t used = UsedBytes(*redis);
  // Half a value on its way into its extents.
  Redis writer("127.0.0.1", static_cast<uint16_t>(std::stoi(system.Options().master.substr(10))));
  const std::string head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n", half(4'000'000, 'h');
  ASSERT_GT(write(writer.fd(), head.data(), head.size()), 0);
  ASSERT_TRUE(Eventually([&] { return UsedBytes(*redis) > used; })) << "the put is open";
  for (size_t sent = 0; sent < half.size();) {
    const ssize_t n = write(writer.fd(), half.data() + sent, half.size() - sent);
    ASSERT_GT(n, 0);
    sent += static_cast<size_t>(n);
  }
  RestartAll(system);
  const auto again = system.Connect();
  EXPECT_TRUE(again->Call({"GET", "k"}).is_nil());
  EXPECT_EQ(again->Call({"GET", "kept"}).text, ValueOf(1, 1'000));
  EXPECT_TRUE(Eventually([&] { return UsedBytes(*again) == used; })) << "used bytes are what is served";
}

// P-02 across a restart of everything: keys are bytes, and no file is named after one.
TEST_F(RestartCases, P02_AnyBytesAsAKeySurviveARestart) {
  Deployment system({.stores = 1});
  ASSERT_TRUE(system.ok()) << system.error();
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const std::vector<std::string> keys = {
      all,           "*3\r\n$-1\r\n",     std::string("a\0b\0", 4), "../../x", "k", std::string(16 * 1024, 'l'),
      "%00\r\n\xff", std::string("\0", 1)};
  {
    const auto redis = system.Connect();
    for (size_t i = 0; i < keys.size(); ++i) ASSERT_TRUE(redis->Call({"SET", keys[i], ValueOf(i + 1, 500)}).is_ok());
    ASSERT_TRUE(redis->Call({"SET", all + "x", "gone"}).is_ok());
    ASSERT_EQ(redis->Call({"DEL", all + "x"}).integer, 1);
  }
  RestartAll(system);
  const auto redis = system.Connect();
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(redis->Call({"GET", keys[i]}).text, ValueOf(i + 1, 500)) << i;
  EXPECT_TRUE(redis->Call({"GET", all + "x"}).is_nil());
  for (const size_t size : {16 * 1024 + 1, 64 * 1024}) {
    const RedisReply refused = redis->Call({"SET", std::string(size, 'l'), "v"});
    EXPECT_TRUE(refused.text.starts_with("TOOBIG") && refused.text.find("16384") != std::string::npos)
        << refused.Describe();
  }
  EXPECT_EQ(redis->Call({"PING"}).text, "PONG");
  for (const auto& entry : fs::recursive_directory_iterator(system.dir())) {
    EXPECT_NE(entry.path().filename(), "x");
    EXPECT_NE(entry.path().filename(), "k");
  }
}

// P-03 with memory that outlives its process: the same storage is taken over at once with what it holds; another
// process with the name and other memory offers nothing of it.
TEST_F(RestartCases, P03_AStoreThatWasKilledIsTakenOverWithItsStorage) {
  Deployment system({.stores = 1});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto client = system.ConnectClient();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client->Put("k" + std::to_string(i), ValueOf(i + 1, 3'000)).ok());
  const auto redis = system.Connect();
  const std::string life = redis->Call({"STORES", "s1"}).items.at(0).Field("incarnation").text;
  {
    const auto other = ServerProcess::StartStore(system.process(0), "s1", {"--dram", "64mb"});
    ASSERT_TRUE(other.ok()) << other.error().ToString();
    EXPECT_TRUE(Eventually([&] { return (*other)->log().find("NAMEINUSE") != std::string::npos; })) << (*other)->log();
    EXPECT_NE((*other)->log().find(system.process(1).address("data")), std::string::npos) << (*other)->log();
  }
  system.Kill(1);
  ASSERT_TRUE(system.Start(1).ok());
  ASSERT_TRUE(system.AwaitSettled());
  EXPECT_NE(redis->Call({"STORES", "s1"}).items.at(0).Field("incarnation").text, life);
  for (int i = 0; i < 100; ++i) {
    const auto got = client->Get("k" + std::to_string(i));
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    ASSERT_TRUE(got->has_value()) << i << ": the bytes are still there";
    EXPECT_EQ((*got)->view(), ValueOf(i + 1, 3'000));
  }
  system.Kill(1);
  const auto stranger = ServerProcess::StartStore(system.process(0), "s1", {"--dram", "64mb"});
  ASSERT_TRUE(stranger.ok()) << stranger.error().ToString();
  ASSERT_TRUE(Eventually([&] { return redis->Call({"STORES", "s1"}).items.at(0).Field("state").text == "serving"; }));
  for (int i = 0; i < 100; ++i) {
    const auto got = client->Get("k" + std::to_string(i));
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_FALSE(got->has_value()) << i << ": only clean misses";
  }
}

// P-05: large values, the master killed again and again; writers note what was acknowledged.
TEST_F(RestartCases, P05_TheMasterIsKilledUnderSixteenWriters) {
  if (!MemoryDir::Fits(uint64_t{1} << 30)) GTEST_SKIP() << "no tmpfs with room for what 16 writers keep";
  Deployment system({.stores = 2, .dram = "512mb", .more = {"--lease-ttl", "100ms"}});
  ASSERT_TRUE(system.ok()) << system.error();
  const bool all = std::getenv("TIERCEL_TEST_LONG") != nullptr;
  const int kills = all ? 10 : 3;
  constexpr int kWriters = 16;
  constexpr size_t kBytes = size_t{4} << 20;
  constexpr uint64_t kKeysAWriter = 8;  // then they begin again, with new values
  struct Noted {
    std::vector<uint64_t> acknowledged = std::vector<uint64_t>(kKeysAWriter), tried = acknowledged;
  };
  std::vector<Noted> notes(kWriters);
  Journal journal;
  std::atomic<bool> stopping{false};
  std::vector<std::thread> writers;
  writers.reserve(kWriters);
  for (uint64_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      const auto client = system.ConnectClient();
      PutOptions how;
      how.replace = true;
      for (uint64_t n = 1; !stopping; ++n) {
        const uint64_t key = n % kKeysAWriter, number = (w << 32) + n;
        notes[w].tried[key] = number;
        const auto put = client->Put("w" + std::to_string(w) + "-" + std::to_string(key), ValueOf(number, kBytes), how);
        if (!put.ok()) continue;
        notes[w].acknowledged[key] = number;
        journal.Acknowledged();
      }
    });
  }
  Random random(RandomId());
  bool moves = true;
  for (int i = 0; i < kills && moves; ++i) {
    moves = journal.AwaitMore(5 + random.Below(40));
    system.Kill(0);
    if (all) poll(nullptr, 0, 3'000);  // down for a while: what the case asks for, not a wait for an effect
    const Status started = system.Start(0);
    EXPECT_TRUE(started.ok()) << started.error().ToString();
    moves = moves && started.ok() && journal.AwaitMore(1);
  }
  EXPECT_TRUE(moves) << "writers go on by themselves";
  stopping = true;
  for (std::thread& writer : writers) writer.join();
  ASSERT_TRUE(system.AwaitSettled());
  EXPECT_EQ(system.Info("evicted_objects"), 0);
  const auto redis = system.Connect();
  for (uint64_t w = 0; w < kWriters; ++w) {
    for (uint64_t key = 0; key < kKeysAWriter; ++key) {
      const uint64_t last = notes[w].acknowledged[key], tried = notes[w].tried[key];
      if (last == 0) continue;
      const RedisReply got = redis->Call({"GET", "w" + std::to_string(w) + "-" + std::to_string(key)});
      // What was tried after it and not answered may have happened.
      EXPECT_TRUE(got.text == ValueOf(last, kBytes) || (tried != last && got.text == ValueOf(tried, kBytes)))
          << w << "-" << key << ": " << got.text.size() << " bytes of " << last << " or " << tried;
    }
  }
  if (HasFailure()) std::cerr << system.Logs();
}

// Beside the cases: a key that is deleted while its store is away does not come back with the store.
TEST_F(RestartCases, WhatIsDeletedWhileItsStoreIsAwayStaysDeleted) {
  Deployment system({.stores = 1});
  ASSERT_TRUE(system.ok()) << system.error();
  const auto redis = system.Connect();
  ASSERT_TRUE(redis->Call({"SET", "deleted", "v"}).is_ok());
  ASSERT_TRUE(redis->Call({"SET", "kept", "v"}).is_ok());
  system.Kill(1);
  ASSERT_TRUE(Eventually([&] { return redis->Call({"GET", "deleted"}).is_nil(); }));
  EXPECT_EQ(redis->Call({"DEL", "deleted"}).integer, 0) << "nobody can see it";
  ASSERT_TRUE(system.Start(1).ok());
  ASSERT_TRUE(Eventually([&] { return redis->Call({"GET", "kept"}).text == "v"; }));
  EXPECT_TRUE(redis->Call({"GET", "deleted"}).is_nil());
  RestartAll(system);
  EXPECT_TRUE(system.Connect()->Call({"GET", "deleted"}).is_nil());
  EXPECT_EQ(system.Connect()->Call({"GET", "kept"}).text, "v");
}

}  // namespace
}  // namespace tiercel::test
