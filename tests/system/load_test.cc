// A whole server under odd keys, full memory, and clients that misbehave.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "tests/support/server_process.h"
#include "tests/system/redis.h"
#include "tiercel/client.h"

namespace tiercel::test {
namespace {

std::string FirstAddress(const ServerProcess& server) {
  const std::string all = server.address("resp");
  return all.substr(0, all.find(','));
}

std::unique_ptr<Client> ConnectTo(const ServerProcess& server, TransportChoice wire) {
  ClientOptions options;
  options.master = FirstAddress(server);
  options.transport = wire;
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.error().ToString();
  return client.ok() ? std::move(*client) : nullptr;
}

bool LongRun() { return std::getenv("TIERCEL_TEST_LONG") != nullptr; }

// P-01: the empty value by redis-cli's protocol and by the C++ client, alone and between neighbours.
TEST(Load, EmptyValues) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  ASSERT_TRUE(redis.Call({"SET", "e", ""}).is_ok());
  EXPECT_EQ(redis.Call({"EXISTS", "e"}).integer, 1);
  EXPECT_EQ(redis.Call({"STRLEN", "e"}).integer, 0);
  const RedisReply got = redis.Call({"GET", "e"});
  EXPECT_EQ(got.type, REDIS_REPLY_STRING);
  EXPECT_EQ(got.text, "");
  EXPECT_EQ(redis.Call({"DEL", "e"}).integer, 1);
  EXPECT_TRUE(redis.Call({"GET", "e"}).is_nil());
  for (TransportChoice wire : {TransportChoice::kTcp, TransportChoice::kShm}) {
    auto client = ConnectTo(**server, wire);
    ASSERT_NE(client, nullptr);
    const std::string large(4 << 20, 'l');
    const std::string one = "1", none;
    const PutItem items[] = {{"one", std::as_bytes(std::span(one))},
                             {"none", std::as_bytes(std::span(none))},
                             {"large", std::as_bytes(std::span(large))}};
    for (const auto& put : client->PutBatch(items)) ASSERT_TRUE(put.ok()) << put.error().ToString();
    const std::string_view keys[] = {"one", "none", "large"};
    auto results = client->GetBatch(keys);
    ASSERT_EQ(results.size(), 3u);
    for (const auto& result : results) ASSERT_TRUE(result.ok() && result->has_value());
    EXPECT_EQ((*results[0])->view(), one);
    EXPECT_EQ((*results[1])->size(), 0u);
    EXPECT_EQ((*results[2])->view(), large);
    EXPECT_EQ(redis.Call({"GET", "none"}).text, "");
    for (std::string_view key : keys) EXPECT_TRUE(*client->Remove(key));
  }
}

// P-02: any bytes as a key, up to the limit.
TEST(Load, AnyBytesAsKey) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  auto client = ConnectTo(**server, TransportChoice::kAuto);
  ASSERT_NE(client, nullptr);
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const std::string keys[] = {all, "*3\r\n$-1\r\n", std::string("a\0b\0", 4), "../../x", "k", std::string(16384, 'K')};
  for (const std::string& key : keys) {
    ASSERT_TRUE(redis.Call({"SET", key, "by redis"}).is_ok());
    auto got = client->Get(key);
    ASSERT_TRUE(got.ok() && got->has_value());
    EXPECT_EQ((*got)->view(), "by redis");
    PutOptions replace;
    replace.replace = true;
    ASSERT_TRUE(client->Put(key, std::string_view("by client"), replace).ok());
    EXPECT_EQ(redis.Call({"GET", key}).text, "by client");
    EXPECT_EQ(redis.Call({"DEL", key}).integer, 1);
  }
  for (size_t size : {size_t{16385}, size_t{65536}}) {
    const std::string key(size, 'K');
    const RedisReply set = redis.Call({"SET", key, "v"});
    ASSERT_TRUE(set.is_error());
    EXPECT_NE(set.text.find("16384"), std::string::npos) << set.text;
    EXPECT_EQ(redis.Call({"PING"}).text, "PONG") << "the connection stays usable";
    auto put = client->Put(key, std::string_view("v"));
    ASSERT_FALSE(put.ok());
    EXPECT_EQ(put.error().code(), ErrorCode::kTooBig);
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator((*server)->dir())) {
    EXPECT_NE(entry.path().filename(), "x");
    EXPECT_NE(entry.path().filename(), "k");
  }
}

// P-11, shortened unless the long run is asked for: a full cache under constant probing goes on taking puts.
TEST(Load, ProbingAtFullFill) {
  auto server = ServerProcess::StartSingle({"--dram", "256mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  const std::string value(4 << 20, 'v');
  Redis writer((*server)->host(), (*server)->port());
  int written = 0;
  for (; written < 60; ++written) {
    ASSERT_TRUE(writer.Call({"SET", "key" + std::to_string(written), value}).is_ok());
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> probes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Redis redis((*server)->host(), (*server)->port());
      while (!stop) {
        for (int i = 0; i < 100; ++i) redis.Send({"EXISTS", "key" + std::to_string(i)});
        for (int i = 0; i < 100; ++i) {
          if (redis.Receive().broken()) return;
        }
        probes += 100;
        poll(nullptr, 0, 20);  // about the rate of the case, not as fast as possible
      }
    });
  }
  const int more = LongRun() ? 3000 : 150;
  int failed = 0;
  for (int i = 0; i < more; ++i) {
    const RedisReply set = writer.Call({"SET", "key" + std::to_string(written++), value});
    if (!set.is_ok() && failed++ == 0) ADD_FAILURE() << set.Describe();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_GT(probes.load(), 0u);
  EXPECT_EQ(writer.Call({"GET", "key" + std::to_string(written - 1)}).text, value);
}

// P-14: eight clients ask for 4 GiB each and never read.
TEST(Load, ClientsThatDoNotRead) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb", "--client-idle-write-timeout", "5s"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis usual((*server)->host(), (*server)->port());
  ASSERT_TRUE(usual.Call({"SET", "k", std::string(4 << 20, 'v')}).is_ok());
  const uint64_t before = (*server)->resident_bytes();
  std::vector<std::unique_ptr<Redis>> deaf;
  std::string gets;
  for (int i = 0; i < 1000; ++i) gets += "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
  for (int i = 0; i < 8; ++i) {
    deaf.push_back(std::make_unique<Redis>((*server)->host(), (*server)->port()));
    ASSERT_TRUE(deaf.back()->connected());
    send(deaf.back()->fd(), gets.data(), gets.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(usual.Call({"SET", "u", "v"}).is_ok());
    ASSERT_EQ(usual.Call({"GET", "u"}).text, "v");
  }
  // The documented budget is 1 MiB of replies and a 4 MiB window for each, plus what the segment's pages add.
  EXPECT_LT((*server)->resident_bytes(), before + (8 * 5 << 20) + (64 << 20));
  // The slow ones are closed, and counted.
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(60'000);
  size_t closed = 0;
  while (closed < deaf.size() && SystemClock::Get().Now().boot_ms < limit) {
    closed = 0;
    for (auto& client : deaf) {
      pollfd fd{.fd = client->fd(), .events = POLLRDHUP, .revents = 0};
      closed += poll(&fd, 1, 0) == 1 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ? 1 : 0;
    }
    poll(nullptr, 0, 50);
  }
  EXPECT_EQ(closed, deaf.size());
  EXPECT_EQ(usual.Call({"PING"}).text, "PONG");
}

// The tools that people will point at it first.
TEST(Load, RedisToolsWork) {
  auto server = ServerProcess::StartSingle({"--dram", "128mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  const std::string port = std::to_string((*server)->port());
  const std::string out = ((*server)->dir() / "out").string();
  const auto run = [&](const std::string& command) { return std::system((command + " >" + out + " 2>&1").c_str()); };
  EXPECT_EQ(run("redis-benchmark -p " + port + " -n 20000 -c 20 -P 16 -q -t ping,set,get,mset"), 0);
  EXPECT_EQ(run("redis-benchmark -p " + port + " -n 50 -c 4 -d 4194304 -q -t set,get"), 0);
  EXPECT_EQ(run("redis-cli -p " + port + " -3 set greeting hello | grep -qx OK"), 0);
  EXPECT_EQ(run("redis-cli -p " + port + " get greeting | grep -qx hello"), 0);
  EXPECT_EQ(run("redis-cli -p " + port + " --scan --pattern 'greet*' | grep -qx greeting"), 0);
  EXPECT_EQ(run("redis-cli -p " + port + " info server | grep -q redis_version"), 0);
  EXPECT_EQ(run("printf 'SET piped 1\\r\\nGET piped\\r\\n' | redis-cli -p " + port + " --pipe | grep -q 'errors: 0'"),
            0);
}

}  // namespace
}  // namespace tiercel::test
