// Connecting, logging in, masters and stores that come and go.
#include <gmock/gmock.h>
#include <signal.h>

#include <thread>

#include "tests/client_system/cluster.h"

namespace tiercel::test {
namespace {

TEST(Life, AServerOfOneProcessServesEveryWireAndAddress) {
  TempDir dir;
  const std::string path = (dir.path() / "resp.sock").string();
  auto server = ServerProcess::StartSingle({"--dram", "64mb", "--unixsocket", path});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  for (const std::string& address : {MasterOption(**server), "unix:" + path}) {
    for (TransportChoice choice : {TransportChoice::kAuto, TransportChoice::kTcp, TransportChoice::kShm}) {
      ClientOptions options;
      options.master = address;
      options.transport = choice;
      auto client = Client::Connect(options);
      ASSERT_TRUE(client.ok()) << address << ": " << client.error().ToString();
      auto put = (*client)->Put("k", "value", {.replace = true});
      ASSERT_TRUE(put.ok()) << put.error().ToString();
      auto got = (*client)->Get("k");
      ASSERT_TRUE(got.ok()) << got.error().ToString();
      EXPECT_EQ((*got)->view(), "value");
      EXPECT_GE(*(*client)->PingMicros(), 0);
    }
  }
}

TEST(Life, WhatRespClientsStoreIsReadAndTheOtherWayRound) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  ClientOptions options;
  options.master = MasterOption(**server);
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.error().ToString();
  const std::string large(3'000'000, 'x');
  for (const std::string& value : {std::string("small"), std::string(), large}) {
    const std::string_view set[] = {"SET", "k", value};
    ASSERT_TRUE((*client)->Command(set).ok());
    auto got = (*client)->Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_EQ((*got)->view(), value);
    ASSERT_TRUE((*client)->Put("j", value, {.replace = true}).ok());
    const std::string_view get[] = {"GET", "j"};
    EXPECT_EQ(*(*client)->Command(get), value + "\n");
  }
}

TEST(Life, NamespacesAreApartAlsoAfterAReconnect) {
  Cluster cluster(1);
  ClientOptions options = cluster.Options();
  auto zero = cluster.Connect(options);
  options.name_space = 3;
  auto three = cluster.Connect(options);
  ASSERT_TRUE(zero->Put("k", "zero").ok());
  ASSERT_TRUE(three->Put("k", "three").ok());
  const std::string_view id[] = {"CLIENT", "ID"};
  for (Client* client : {zero.get(), three.get()}) {
    std::string text = *client->Command(id);
    text = text.substr(text.find(' ') + 1);
    text.pop_back();
    const std::string_view kill[] = {"CLIENT", "KILL", "ID", text};
    // Whoever kills its own connection may not hear that it worked.
    (void)(client == zero.get() ? three : zero)->Command(kill);
  }
  EXPECT_EQ((*zero->Get("k"))->view(), "zero");
  EXPECT_EQ((*three->Get("k"))->view(), "three");
}

TEST(Life, LogInWithRightAndWrongPasswords) {
  auto server = ServerProcess::StartSingle({"--dram", "64mb", "--requirepass", "secret"});
  ASSERT_TRUE(server.ok()) << server.error().ToString();
  ClientOptions options;
  options.master = MasterOption(**server);
  auto refused = Client::Connect(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNoAuth) << refused.error().ToString();
  options.password = "wrong";
  refused = Client::Connect(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kWrongPass) << refused.error().ToString();
  options.password = "secret";
  auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.error().ToString();
  EXPECT_TRUE((*client)->Put("k", "v").ok());
  EXPECT_EQ((*(*client)->Get("k"))->view(), "v");
}

TEST(Life, NobodyThereIsATypedError) {
  ClientOptions options;
  options.master = "unix:/nonexistent/tiercel.sock";
  options.connect_timeout_ms = 50;
  EXPECT_EQ(Client::Connect(options).error().code(), ErrorCode::kUnreachable);
  options.master = "no:port:here]";
  auto bad = Client::Connect(options);
  EXPECT_FALSE(bad.ok());
  options.master = "host:notaport";
  EXPECT_EQ(Client::Connect(options).error().code(), ErrorCode::kInvalid);
  auto idle = Client::Create(options);
  EXPECT_EQ(idle->Get("k").error().code(), ErrorCode::kUnreachable);
  EXPECT_FALSE(idle->Healthy());
  idle->Close();
}

TEST(Life, TheMasterComesBackUnderRunningClients) {
  Cluster cluster(1);
  auto client = cluster.Connect();
  ASSERT_TRUE(client->Put("k", "before").ok());
  cluster.RestartMaster();
  // Without an index what it knew is a clean miss; the store re-joins by itself and takes puts again.
  auto got = client->Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  if (got->has_value()) {
    EXPECT_EQ((*got)->view(), "before");
  }
  EXPECT_TRUE(Eventually([&] { return client->Put("k2", "after").ok(); }));
  EXPECT_EQ((*client->Get("k2"))->view(), "after");
}

TEST(Life, AStoreThatRestartedIsAnotherOne) {
  for (const Wire& wire : kWires) {
    Cluster cluster(1);
    auto client = cluster.Connect(wire.choice);
    ASSERT_TRUE(client->Put("k", "before").ok());
    ASSERT_TRUE(client->Get("k").ok());
    cluster.store(0).Kill();
    cluster.StartStore(0);
    cluster.WaitForStores(1);
    auto got = client->Get("k");
    ASSERT_TRUE(got.ok()) << wire.name << ": " << got.error().ToString();
    EXPECT_FALSE(got->has_value()) << "its memory died with it";
    auto put = client->Put("k", "after");
    ASSERT_TRUE(put.ok()) << wire.name << ": " << put.error().ToString();
    EXPECT_EQ((*client->Get("k"))->view(), "after");
  }
}

TEST(Life, AStoreThatHangsIsGivenUpForTheOtherCopy) {
  Cluster cluster(2);
  ClientOptions options = cluster.Options(TransportChoice::kTcp);
  options.timeout_ms = HangGuardMs(4'000);
  auto client = cluster.Connect(options);
  const auto value = Bytes(500'000, 1);
  ASSERT_EQ(client->Put("k", value, {.replicas = 2})->replicas, 2u);
  cluster.store(0).Signal(SIGSTOP);
  for (int i = 0; i < 3; ++i) {
    auto got = client->Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(std::ranges::equal((*got)->span(), value));
  }
  cluster.store(0).Signal(SIGCONT);
}

}  // namespace
}  // namespace tiercel::test
