// Starting, refusing to start, and ending.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <vector>

#include "tests/support/server_process.h"
#include "tests/system/redis.h"

namespace tiercel::test {
namespace {

TEST(Start, ServesAndEndsCleanly) {
  auto server = ServerProcess::StartSingle();
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  EXPECT_EQ(redis.Call({"PING"}).text, "PONG");
  EXPECT_TRUE(redis.Call({"SET", "k", "v"}).is_ok());
  EXPECT_EQ(redis.Call({"GET", "k"}).text, "v");
  (*server)->Signal(SIGTERM);
  EXPECT_EQ((*server)->WaitExit(HangGuardMs(20'000)), 0);
}

TEST(Start, SigtermWithRunningCommandsStillEnds) {
  auto server = ServerProcess::StartSingle();
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis half((*server)->host(), (*server)->port());
  ASSERT_TRUE(half.connected());
  // A value of which only a part ever arrives.
  const std::string part = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nonly this";
  ASSERT_EQ(send(half.fd(), part.data(), part.size(), MSG_NOSIGNAL), static_cast<ssize_t>(part.size()));
  (*server)->Signal(SIGTERM);
  EXPECT_EQ((*server)->WaitExit(HangGuardMs(30'000)), 0);
}

TEST(Start, PortInUseIsNamed) {
  auto first = ServerProcess::StartSingle();
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  const std::string port = std::to_string((*first)->port());
  auto second = ServerProcess::Start({"--port", port, "--data-port", "0", "--admin-port", "0"});
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find(port), std::string::npos) << second.error().message();
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
}

TEST(Start, DataAndAdminPortsInUseAreNamedToo) {
  auto first = ServerProcess::StartSingle();
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  const auto port_of = [&](const std::string& field) {
    const std::string address = (*first)->address(field);
    return address.substr(0, address.find(',')).substr(address.substr(0, address.find(',')).rfind(':') + 1);
  };
  for (const bool data : {true, false}) {
    const std::string taken = port_of(data ? "data" : "admin");
    auto second = ServerProcess::Start(
        {"--port", "0", "--data-port", data ? taken : "0", "--admin-port", data ? "0" : taken, "--dram", "64mb"});
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message().find(taken), std::string::npos) << second.error().message();
    EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  }
  EXPECT_TRUE(Redis((*first)->host(), (*first)->port()).Call({"SET", "k", "v"}).is_ok());
}

TEST(Start, SegmentLargerThanMemoryIsRefusedWithNumbers) {
  auto server = ServerProcess::StartSingle({"--dram", "10tb"});
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message().find("OOM"), std::string::npos) << server.error().message();
}

// P-09 (tcp): a locked-memory limit does not matter without RDMA.
TEST(Start, LockedMemoryLimitDoesNotMatter) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit low{.rlim_cur = 64 * 1024, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  auto server = ServerProcess::StartSingle({"--dram", "256mb"});
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  EXPECT_TRUE(redis.Call({"SET", "k", "v"}).is_ok());
}

TEST(Start, OutOfDescriptorsIsSurvived) {
  auto server = ServerProcess::StartSingle();
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis before((*server)->host(), (*server)->port());
  ASSERT_EQ(before.Call({"PING"}).text, "PONG");
  const rlimit few{.rlim_cur = 64, .rlim_max = 64};
  ASSERT_EQ(prlimit((*server)->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    std::vector<std::unique_ptr<Redis>> many;
    for (int i = 0; i < 100; ++i) many.push_back(std::make_unique<Redis>((*server)->host(), (*server)->port(), 0));
    EXPECT_EQ(before.Call({"PING"}).text, "PONG") << "a connection from before must go on";
    EXPECT_TRUE(before.Call({"SET", "k", "v"}).is_ok());
    // Until the server has closed its side of all of them.
    for (const auto& client : many) {
      if (!client->connected()) continue;
      shutdown(client->fd(), SHUT_WR);
      char bytes[256];
      while (recv(client->fd(), bytes, sizeof(bytes), 0) > 0) {
      }
    }
  }
  Redis after((*server)->host(), (*server)->port());
  EXPECT_EQ(after.Call({"PING"}).text, "PONG");
}

TEST(Start, NoStoreJoined) {
  auto master = ServerProcess::StartMaster();
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  Redis redis((*master)->host(), (*master)->port());
  const RedisReply set = redis.Call({"SET", "k", "v"});
  ASSERT_TRUE(set.is_error());
  EXPECT_EQ(set.text.rfind("OOM", 0), 0u) << set.text;
  const RedisReply put = redis.Call({"PUTSTART", "k", "1000"});
  ASSERT_TRUE(put.is_error());
  EXPECT_EQ(put.text.rfind("OOM", 0), 0u) << put.text;
  EXPECT_TRUE(redis.Call({"GET", "k"}).is_nil());
  EXPECT_EQ(redis.Call({"EXISTS", "k"}).integer, 0);
}

TEST(Start, ValueLargerThanAllSpace) {
  auto server = ServerProcess::StartSingle({"--dram", "16mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  ASSERT_TRUE(redis.Call({"SET", "small", "v"}).is_ok());
  const std::string large(32 << 20, 'x');
  const RedisReply set = redis.Call({"SET", "large", large});
  ASSERT_TRUE(set.is_error()) << set.Describe();
  EXPECT_EQ(set.text.rfind("OOM", 0), 0u) << set.text;
  EXPECT_TRUE(redis.Call({"GET", "large"}).is_nil());
  EXPECT_EQ(redis.Call({"PING"}).text, "PONG");
  EXPECT_TRUE(redis.Call({"SET", "after", "v"}).is_ok());
}

}  // namespace
}  // namespace tiercel::test
