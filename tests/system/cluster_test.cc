// A master and stores in processes of their own: joining, dying, coming back.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "tests/support/server_process.h"
#include "tests/system/redis.h"
#include "tiercel/client.h"

namespace tiercel::test {
namespace {

// Looks every few milliseconds until the condition holds; the time is a hang guard.
template <typename F>
bool Eventually(F&& condition, int64_t guard_ms = 20'000) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(guard_ms);
  while (!condition()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

// A port that nobody listens on now, outside of the range from which the system picks ports by itself.
uint16_t FreePort() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<uint16_t>(15000 + RandomId() % 15000);
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return 0;
}

size_t StoresServing(Redis& redis) {
  size_t serving = 0;
  for (const RedisReply& store : redis.Call({"STORES"}).items)
    serving += store.Field("state").text == "serving" ? 1 : 0;
  return serving;
}

std::unique_ptr<Client> ConnectTo(const ServerProcess& master, TransportChoice wire = TransportChoice::kAuto) {
  ClientOptions options;
  options.master =
      (*master.address("resp").c_str() != 0) ? master.address("resp").substr(0, master.address("resp").find(',')) : "";
  options.transport = wire;
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.error().ToString();
  return client.ok() ? std::move(*client) : nullptr;
}

std::string Pattern(size_t size, char seed) {
  std::string value(size, '\0');
  for (size_t i = 0; i < size; ++i) value[i] = static_cast<char>(seed + i * 31 + (i >> 8));
  return value;
}

// P-03: the same name twice; then a killed store's name is taken over at once.
TEST(Cluster, StoreNameHasOneOwner) {
  auto master = ServerProcess::StartMaster();
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto a = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  ASSERT_TRUE(a.ok()) << a.error().ToString();
  Redis redis((*master)->host(), (*master)->port());
  auto client = ConnectTo(**master);
  ASSERT_NE(client, nullptr);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client->Put("key" + std::to_string(i), Pattern(1000, 'a')).ok());

  auto b = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  // Refused while A lives, naming it; the process goes on asking and never serves.
  ASSERT_TRUE(b.ok()) << b.error().ToString();
  EXPECT_TRUE(Eventually([&] { return (*b)->log().find("NAMEINUSE") != std::string::npos; })) << (*b)->log();
  EXPECT_NE((*b)->log().find((*a)->address("data")), std::string::npos) << (*b)->log();
  EXPECT_EQ(StoresServing(redis), 1u);
  (*b)->Kill();
  EXPECT_TRUE(client->Get("key5").ok());

  const std::string old_incarnation = redis.Call({"STORES", "s1"}).items.at(0).Field("incarnation").text;
  (*a)->Kill();
  auto again = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  ASSERT_TRUE(Eventually([&] { return StoresServing(redis) == 1; }));
  EXPECT_NE(redis.Call({"STORES", "s1"}).items.at(0).Field("incarnation").text, old_incarnation);
  for (int i = 0; i < 100; ++i) {
    auto got = client->Get("key" + std::to_string(i));
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_FALSE(got->has_value()) << "only clean misses";
  }
  EXPECT_TRUE(client->Put("key5", Pattern(1000, 'b')).ok());
}

// A master is killed and started again under a store and a client that go on; what was put before and after.
void RestartTheMaster(const std::vector<std::string>& options, bool keeps) {
  const std::string port = std::to_string(FreePort());
  TempDir dir;
  std::vector<std::string> arguments = {"--roles",      "master", "--port", port,
                                        "--admin-port", "0",      "--dir",  dir.path().string()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  auto master = ServerProcess::Start(arguments);
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto store = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  ASSERT_TRUE(store.ok()) << store.error().ToString();
  auto client = ConnectTo(**master);
  ASSERT_NE(client, nullptr);
  auto first = client->Put("before", Pattern(100'000, 'a'));
  ASSERT_TRUE(first.ok()) << first.error().ToString();

  (*master)->Kill();
  auto again = ServerProcess::Start(arguments);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  Redis redis((*again)->host(), (*again)->port());
  ASSERT_TRUE(Eventually([&] { return StoresServing(redis) == 1; }, 5'000)) << "the store joins again by itself";
  auto second = client->Put("after", Pattern(100'000, 'b'));
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  EXPECT_GT(second->version, first->version) << "versions never repeat";
  auto got = client->Get("after");
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_EQ((*got)->view(), Pattern(100'000, 'b'));
  auto before = client->Get("before");
  ASSERT_TRUE(before.ok()) << before.error().ToString();
  ASSERT_EQ(before->has_value(), keeps);
  if (keeps) EXPECT_EQ((*before)->view(), Pattern(100'000, 'a'));
}

TEST(Cluster, MasterRestartsUnderStoresAndClients) { RestartTheMaster({}, true); }
TEST(Cluster, AMasterWithoutAnIndexRestartsWithCleanMisses) { RestartTheMaster({"--index", "no"}, false); }

// The master's directory was lost: it starts with a generation that a store has seen already, and exceeds it.
TEST(Cluster, MasterWithoutItsDirectoryExceedsWhatStoresHaveSeen) {
  const std::string port = std::to_string(FreePort());
  const std::vector<std::string> arguments = {"--roles", "master", "--port", port, "--admin-port", "0"};
  auto master = ServerProcess::Start(arguments);
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto store = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  ASSERT_TRUE(store.ok()) << store.error().ToString();
  auto client = ConnectTo(**master);
  ASSERT_NE(client, nullptr);
  auto first = client->Put("k", Pattern(1000, 'a'));
  ASSERT_TRUE(first.ok()) << first.error().ToString();
  (*master)->Kill();
  auto again = ServerProcess::Start(arguments);
  ASSERT_TRUE(again.ok()) << again.error().ToString();
  Redis redis((*again)->host(), (*again)->port());
  ASSERT_TRUE(Eventually([&] { return StoresServing(redis) == 1; }));
  auto second = client->Put("k", Pattern(1000, 'b'));
  ASSERT_TRUE(second.ok()) << second.error().ToString();
  EXPECT_GT(second->version, first->version);
  // What the store was told stands on disk, although it was no start that raised it.
  std::string kept;
  std::getline(std::ifstream((*again)->dir() / "generation"), kept);
  EXPECT_GE(std::stoull("0" + kept), 2u);
  EXPECT_NE(redis.Call({"INFO", "tiercel"}).text.find("\r\ngeneration:" + kept + "\r\n"), std::string::npos) << kept;
}
// Payload of other processes through the master: what redis-cli sees of a cluster.
TEST(Cluster, RedisClientReadsAndWritesOtherProcessesStores) {
  auto master = ServerProcess::StartMaster();
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto a = ServerProcess::StartStore(**master, "s1", {"--dram", "256mb"});
  auto b = ServerProcess::StartStore(**master, "s2", {"--dram", "256mb"});
  ASSERT_TRUE(a.ok() && b.ok());
  Redis redis((*master)->host(), (*master)->port());
  auto client = ConnectTo(**master);
  ASSERT_NE(client, nullptr);
  const size_t sizes[] = {0, 1, 1000, 70'000, 1 << 20, (1 << 20) + 1, 5'000'000, 40'000'000};
  for (size_t size : sizes) {
    const std::string key = "by-redis-" + std::to_string(size), value = Pattern(size, 'r');
    const RedisReply set = redis.Call({"SET", key, value});
    ASSERT_TRUE(set.is_ok()) << size << ": " << set.Describe().substr(0, 200);
    ASSERT_TRUE(redis.Call({"GET", key}).text == value) << size;
    auto got = client->Get(key);
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    ASSERT_TRUE(got->has_value() && (*got)->view() == value) << size;
    const std::string other = "by-client-" + std::to_string(size);
    ASSERT_TRUE(client->Put(other, value).ok());
    const RedisReply read = redis.Call({"GET", other});
    ASSERT_TRUE(read.text == value) << size << ": " << read.Describe().substr(0, 200);
  }
}

// O-33 with real processes, and a store killed with a put in flight.
TEST(Cluster, StoreKilledWithPutInFlight) {
  auto master = ServerProcess::StartMaster();
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto a = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb"});
  auto b = ServerProcess::StartStore(**master, "s2", {"--dram", "64mb"});
  ASSERT_TRUE(a.ok() && b.ok());
  Redis redis((*master)->host(), (*master)->port());
  auto client = ConnectTo(**master);
  ASSERT_NE(client, nullptr);
  PutOptions two;
  two.replicas = 2;
  auto put = client->Put("both", Pattern(3 << 20, 'x'), two);
  ASSERT_TRUE(put.ok()) << put.error().ToString();
  EXPECT_EQ(put->replicas, 2u);

  const RedisReply plan = redis.Call({"PUTSTART", "open", "1000000", "PREFER", "s1"});
  ASSERT_EQ(plan.Field("outcome").text, "created") << plan.Describe();
  const std::string id = std::to_string(plan.Field("put").integer);
  (*a)->Kill();
  const RedisReply end = redis.Call({"PUTEND", id, "0000000000000000", "FAILED", "0", "UNREACHABLE"});
  ASSERT_TRUE(end.is_error());
  EXPECT_EQ(end.text.rfind("NOREPLICA", 0), 0u) << end.text;
  EXPECT_EQ(redis.Call({"EXISTS", "open"}).integer, 0);

  auto got = client->Get("both");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((*got)->view(), Pattern(3 << 20, 'x'));
  EXPECT_TRUE(client->Put("open", Pattern(1000, 'y')).ok());
}

// P-07 over RESP: half a value, then the writer is gone.
TEST(Cluster, WriterDiesHalfWay) {
  auto server = ServerProcess::StartSingle({"--dram", "256mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  const auto used = [&] { return redis.Call({"TIERS"}).items.at(0).Field("used").integer; };
  const int64_t before = used();
  {
    Redis writer((*server)->host(), (*server)->port());
    const std::string head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n";
    const std::string half(32 << 20, 'h');
    ASSERT_EQ(send(writer.fd(), head.data(), head.size(), MSG_NOSIGNAL), static_cast<ssize_t>(head.size()));
    size_t sent = 0;
    while (sent < half.size()) {
      const ssize_t n = send(writer.fd(), half.data() + sent, half.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      sent += static_cast<size_t>(n);
    }
    EXPECT_EQ(redis.Call({"EXISTS", "k"}).integer, 0);
  }
  EXPECT_EQ(redis.Call({"EXISTS", "k"}).integer, 0);
  EXPECT_TRUE(redis.Call({"GET", "k"}).is_nil());
  ASSERT_TRUE(Eventually([&] { return redis.Call({"SET", "k", "new"}).is_ok(); }, 2'000));
  EXPECT_EQ(redis.Call({"GET", "k"}).text, "new");
  EXPECT_EQ(redis.Call({"DEL", "k"}).integer, 1);
  EXPECT_TRUE(Eventually([&] { return used() == before; }, 30'000)) << "space comes back";
}

// O-06, O-40 in short: an orphaned reservation is taken over at once.
TEST(Cluster, ReservationOfClosedConnectionIsTakenOver) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  Redis redis((*server)->host(), (*server)->port());
  std::string id;
  {
    Redis writer((*server)->host(), (*server)->port());
    const RedisReply plan = writer.Call({"PUTSTART", "k", "1000"});
    ASSERT_EQ(plan.Field("outcome").text, "created") << plan.Describe();
    id = std::to_string(plan.Field("put").integer);
    EXPECT_EQ(redis.Call({"PUTSTART", "k", "1000"}).Field("outcome").text, "busy");
  }
  ASSERT_TRUE(
      Eventually([&] { return redis.Call({"PUTSTART", "k", "1000"}).Field("outcome").text == "created"; }, 5'000));
  EXPECT_EQ(redis.Call({"PUTEND", id, "0000000000000000"}).text.rfind("NOPUT", 0), 0u);
}

// P-10: IPv6 listeners, addresses in brackets.
TEST(Cluster, Ipv6) {
  const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool has_ipv6 = probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
  if (probe >= 0) close(probe);
  if (!has_ipv6) GTEST_SKIP() << "this machine has no IPv6 loopback address";
  auto master = ServerProcess::StartMaster({"--bind", "::1"});
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  EXPECT_EQ((*master)->address("resp").rfind("[::1]:", 0), 0u) << (*master)->address("resp");
  auto store = ServerProcess::StartStore(**master, "s1", {"--dram", "64mb", "--bind", "::1", "--data-bind", "::1"});
  ASSERT_TRUE(store.ok()) << store.error().ToString();
  EXPECT_EQ((*store)->address("data").rfind("[::1]:", 0), 0u) << (*store)->address("data");
  auto client = ConnectTo(**master, TransportChoice::kTcp);
  ASSERT_NE(client, nullptr);
  const std::string value = Pattern(4 << 20, 'v');
  ASSERT_TRUE(client->Put("k", value).ok());
  auto got = client->Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  ASSERT_TRUE(got->has_value());
  EXPECT_EQ((*got)->view(), value);
  Redis redis("::1", (*master)->port());
  EXPECT_EQ(redis.Call({"STORES", "s1"}).items.at(0).Field("data-address").text.rfind("[::1]:", 0), 0u);
}

}  // namespace
}  // namespace tiercel::test
