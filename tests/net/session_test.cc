// One connection: the order of its replies, what it may make the server hold, and all the ways in which it ends.
#include <gtest/gtest.h>

#include <future>

#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"

namespace tiercel::net::test {
namespace {

uint64_t Calls(const TestServer& server, std::string_view name) {
  for (const ServerFigures::Command& row : server.server->Figures().by_command) {
    if (row.name == name) return row.calls;
  }
  return 0;
}

std::string ClientList(TestServer& server) { return RawClient(server.server->port()).Do({"CLIENT", "LIST"}).text; }

bool Lists(const std::string& list, int64_t id) {
  return ("\n" + list).find("\nid=" + std::to_string(id) + " ") != std::string::npos;
}

// ---- pipelining

TEST(Pipelining, RepliesComeInOrder) {
  TestServer server;
  RawClient client(server.server->port());
  constexpr int kCommands = 20'000;
  std::string sent;
  for (int i = 0; i < kCommands; ++i) {
    switch (i % 4) {
      case 0: sent += RawClient::Encode({"SET", "k" + std::to_string(i), "v" + std::to_string(i)}); break;
      case 1: sent += RawClient::Encode({"GET", "k" + std::to_string(i - 1)}); break;
      case 2: sent += "ECHO " + std::to_string(i) + "\r\n"; break;
      default: sent += RawClient::Encode({"NOSUCH", std::to_string(i)}); break;
    }
  }
  auto sending = std::async(std::launch::async, [&] { return client.SendRaw(sent); });
  for (int i = 0; i < kCommands; ++i) {
    const std::string reply = RawClient::Show(client.Read());
    switch (i % 4) {
      case 0: ASSERT_EQ(reply, "+OK") << i; break;
      case 1: ASSERT_EQ(reply, "\"v" + std::to_string(i - 1) + "\"") << i; break;
      case 2: ASSERT_EQ(reply, "\"" + std::to_string(i) + "\"") << i; break;
      default:
        ASSERT_EQ(reply, "-ERR unknown command 'NOSUCH', with args beginning with: '" + std::to_string(i) + "' ");
    }
  }
  EXPECT_TRUE(sending.get());
}

// Values that are received into place and sent out of it stand between small commands in one write.
TEST(Pipelining, LargeValuesKeepTheirPlace) {
  for (const bool local : {true, false}) {
    TestServer::Setup setup;
    setup.local_bytes = local ? 64 << 20 : 0;
    setup.remote_bytes = local ? 0 : 64 << 20;
    TestServer server(setup);
    RawClient client(server.server->port());
    const std::string one = Pattern(3 << 20, 1), two = Pattern((1 << 20) + 7, 2), small = Pattern(40'000, 3);
    std::string sent = "PING\r\n" + RawClient::Encode({"SET", "a", one}) + RawClient::Encode({"GET", "a"}) +
                       RawClient::Encode({"SET", "a", two}) + RawClient::Encode({"GET", "a"}) + "PING\r\n" +
                       RawClient::Encode({"MSET", "x", small, "y", one}) + RawClient::Encode({"MGET", "y", "no", "x"}) +
                       RawClient::Encode({"SET", "a", one, "NX"}) + RawClient::Encode({"GETRANGE", "a", "-7", "-1"}) +
                       "PING\r\n";
    auto sending = std::async(std::launch::async, [&] { return client.SendRaw(sent); });
    EXPECT_EQ(RawClient::Show(client.Read()), "+PONG");
    EXPECT_EQ(RawClient::Show(client.Read()), "+OK");
    EXPECT_TRUE(client.Read().text == one);
    EXPECT_EQ(RawClient::Show(client.Read()), "+OK");
    EXPECT_TRUE(client.Read().text == two);
    EXPECT_EQ(RawClient::Show(client.Read()), "+PONG");
    EXPECT_EQ(RawClient::Show(client.Read()), "+OK");
    const resp::Reply many = client.Read();
    ASSERT_EQ(many.items.size(), 3u);
    EXPECT_TRUE(many.items[0].text == one);
    EXPECT_EQ(many.items[1].kind, resp::Reply::Kind::kNull);
    EXPECT_TRUE(many.items[2].text == small);
    EXPECT_EQ(RawClient::Show(client.Read()), "(nil)") << "NX of a key that is there";
    EXPECT_TRUE(client.Read().text == two.substr(two.size() - 7));
    EXPECT_EQ(RawClient::Show(client.Read()), "+PONG");
    EXPECT_TRUE(sending.get());
  }
}

// Every way of cutting a few commands in two: the replies are the same.
TEST(Pipelining, CutAnywhere) {
  TestServer server;
  const std::string sent = RawClient::Encode({"SET", "k", "a\r\nb"}) + "GET k\r\n" + RawClient::Encode({"ECHO", ""}) +
                           "*0\r\n\r\n" + RawClient::Encode({"APPEND", "k"}) + RawClient::Encode({"GET", "k"});
  const std::string expected =
      "+OK\r\n$4\r\na\r\nb\r\n$0\r\n\r\n-ERR unknown command 'APPEND', with args beginning with: 'k' \r\n"
      "$4\r\na\r\nb\r\n";
  for (size_t cut = 0; cut <= sent.size(); ++cut) {
    RawClient client(server.server->port());
    client.SendRaw(std::string_view(sent).substr(0, cut));
    server.PassLoops();  // the first part is read by itself
    client.SendRaw(std::string_view(sent).substr(cut));
    client.ShutdownWrite();
    ASSERT_EQ(client.ReadAll(), expected) << "cut at " << cut;
  }
}

// ---- back-pressure

// P-14: a client that asks and does not read costs its budget, and is closed in the end.
TEST(BackPressure, ASlowReaderIsNotReadFurtherAndClosed) {
  TestServer::Setup setup;
  setup.server.limits.reply_budget_bytes = 64 * 1024;
  setup.server.limits.idle_write_timeout_ms = 1;
  TestServer server(setup);
  RawClient other(server.server->port());
  constexpr uint64_t kValue = 10'000, kCommands = 20'000;
  ASSERT_EQ(other.Text({"SET", "k", Pattern(kValue, 1)}), "+OK");
  RawClient slow(server.server->port());
  std::string sent;
  for (uint64_t i = 0; i < kCommands; ++i) sent += "GET k\r\n";
  slow.SendRaw(sent);
  pollfd gone{.fd = slow.fd(), .events = 0, .revents = 0};
  ASSERT_EQ(::poll(&gone, 1, kHangGuardS * 1000), 1) << "never closed";
  EXPECT_NE(gone.revents & (POLLERR | POLLHUP), 0);
  EXPECT_EQ(other.Text({"PING"}), "+PONG");
  EXPECT_EQ(server.server->Figures().closed_slow_reader, 1u);
  // What it was answered fits into its budget and the kernel's buffers on both sides; asked were 200 MB.
  const uint64_t answered = Calls(server, "get") * kValue;
  EXPECT_GE(answered, setup.server.limits.reply_budget_bytes);
  EXPECT_LT(answered, uint64_t{64} << 20);
}

TEST(BackPressure, EverythingIsAnsweredOnceItIsRead) {
  for (const uint64_t budget : {uint64_t{1}, uint64_t{64} * 1024}) {
    TestServer::Setup setup;
    setup.server.limits.reply_budget_bytes = budget;
    TestServer server(setup);
    RawClient client(server.server->port());
    const std::string value = Pattern(10'000, 1), large = Pattern(300'000, 2);
    ASSERT_EQ(client.Text({"SET", "k", value}), "+OK");
    ASSERT_EQ(client.Text({"SET", "l", large}), "+OK");
    constexpr int kRounds = 300;
    std::string sent;
    for (int i = 0; i < kRounds; ++i) sent += "GET k\r\nGET l\r\nMGET k l k\r\n";
    client.SendRaw(sent);
    server.PassLoops();
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(client.Read().text == value);
      ASSERT_TRUE(client.Read().text == large);
      const resp::Reply both = client.Read();
      ASSERT_EQ(both.items.size(), 3u);
      ASSERT_TRUE(both.items[0].text == value && both.items[1].text == large && both.items[2].text == value);
    }
  }
}

// The output of a connection is never above its budget and one reply, whatever it asks for.
TEST(BackPressure, UnsentRepliesStayWithinTheBudget) {
  TestServer::Setup setup;
  setup.server.limits.reply_budget_bytes = 64 * 1024;
  TestServer server(setup);
  RawClient greedy(server.server->port());
  ASSERT_EQ(greedy.Text({"SET", "k", Pattern(10'000, 1)}), "+OK");
  std::string sent;
  for (int i = 0; i < 20'000; ++i) sent += "GET k\r\n";
  greedy.SendRaw(sent);
  for (int i = 0; i < 50; ++i) {
    const std::string list = ClientList(server);
    for (size_t at = list.find(" omem="); at != std::string::npos; at = list.find(" omem=", at + 1)) {
      ASSERT_LT(std::stoull(list.substr(at + 6)), 64u * 1024 + 10'100) << list;
    }
  }
}

// ---- ends

TEST(Ends, QuitAnswersWhatCameBeforeAndRunsNothingBehind) {
  TestServer server;
  RawClient client(server.server->port());
  client.SendRaw("SET a 1\r\nGET a\r\nQUIT\r\nSET a 2\r\nPING\r\n");
  EXPECT_EQ(client.ReadAll(), "+OK\r\n$1\r\n1\r\n+OK\r\n");
  EXPECT_EQ(RawClient(server.server->port()).Text({"GET", "a"}), "\"1\"");
}

TEST(Ends, QuitBehindALargeValue) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string value = Pattern(2 << 20, 1);
  auto sending = std::async(
      std::launch::async, [&] { return client.SendRaw(RawClient::Encode({"SET", "a", value}) + "GET a\r\nQUIT\r\n"); });
  EXPECT_TRUE(client.ReadAll() == "+OK\r\n$2097152\r\n" + value + "\r\n+OK\r\n");
  sending.get();
}

// A client that has half-closed still gets all its answers.
TEST(Ends, HalfClosedIsAnswered) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string value = Pattern(5 << 20, 1);
  ASSERT_EQ(client.Text({"SET", "a", value}), "+OK");
  client.SendRaw("GET a\r\nGET a\r\nPING\r\nGET");
  client.ShutdownWrite();
  const std::string bulk = "$5242880\r\n" + value + "\r\n";
  EXPECT_TRUE(client.ReadAll() == bulk + bulk + "+PONG\r\n");
}

TEST(Ends, ResetGoesBackToTheBeginning) {
  TestServer::Setup setup;
  setup.requirepass = "secret";
  TestServer server(setup);
  RawClient client(server.server->port());
  ASSERT_EQ(client.Text({"AUTH", "secret"}), "+OK");
  ASSERT_EQ(client.Text({"CLIENT", "SETNAME", "me"}), "+OK");
  ASSERT_EQ(client.Text({"SELECT", "3"}), "+OK");
  ASSERT_EQ(client.Do({"HELLO", "3"}).kind, resp::Reply::Kind::kMap);
  ASSERT_EQ(client.Text({"CLIENT", "NO-TOUCH", "ON"}), "+OK");
  // Behind OFF nothing is answered, but RESET is.
  client.SendRaw("CLIENT REPLY OFF\r\nPING\r\nRESET\r\nPING\r\n");
  EXPECT_EQ(RawClient::Show(client.Read()), "+RESET");
  EXPECT_EQ(RawClient::Show(client.Read()), "-NOAUTH Authentication required.");
  ASSERT_EQ(client.Text({"AUTH", "secret"}), "+OK");
  EXPECT_EQ(client.Text({"CLIENT", "GETNAME"}), "(nil)");
  const std::string info = client.Do({"CLIENT", "INFO"}).text;
  EXPECT_NE(info.find(" db=0 "), std::string::npos) << info;
  EXPECT_NE(info.find(" resp=2 "), std::string::npos) << info;
  EXPECT_NE(info.find(" flags=N "), std::string::npos) << info;
}

// The rest of a value never comes: its key is free for others at once, its bytes come back.
TEST(Ends, ClosedInTheMiddleOfAPayload) {
  for (const bool reset : {false, true}) {
    for (const bool local : {true, false}) {
      TestServer::Setup setup;
      setup.local_bytes = local ? 64 << 20 : 0;
      setup.remote_bytes = local ? 0 : 64 << 20;
      setup.server.limits.put_wait_ms = kHangGuardS * 1000;
      TestServer server(setup);
      RawClient other(server.server->port());
      ASSERT_EQ(other.Text({"SET", "k", "old"}), "+OK");
      RawClient writer(server.server->port());
      const std::string command = RawClient::Encode({"SET", "k", Pattern(8 << 20, 1)});
      writer.SendRaw(std::string_view(command).substr(0, 5 << 20));
      server.PassLoops();
      ASSERT_EQ(server.host.With([](core::Master& m, Times) { return m.open_puts(); }), 1u);
      EXPECT_EQ(server.payload.writes_now(), local ? 1 : 0);
      EXPECT_EQ(other.Text({"GET", "k"}), "\"old\"");
      other.Send({"SET", "k", "new"});  // waits for the put's end
      server.host.AwaitParked(WakeReason::kPutEnded, 1);
      if (reset) {
        writer.Reset();
      } else {
        TestServer::End(writer);
      }
      EXPECT_EQ(RawClient::Show(other.Read()), "+OK");
      EXPECT_EQ(other.Text({"GET", "k"}), "\"new\"");
      EXPECT_EQ(server.payload.writes_now(), 0);
      server.host.With([](core::Master& m, Times) {
        EXPECT_EQ(m.open_puts(), 0u);
        EXPECT_GE(m.counters().puts_revoked, 1u);
      });
    }
  }
}

// A reader goes away in the middle of a value: the bytes that were pinned for it are free again.
TEST(Ends, ClosedInTheMiddleOfAReply) {
  TestServer::Setup setup;
  setup.server.limits.put_wait_ms = kHangGuardS * 1000;
  TestServer server(setup);
  const std::string value = Pattern(40 << 20, 1);
  RawClient reader(server.server->port()), writer(server.server->port());
  ASSERT_EQ(writer.Text({"SET", "a", value}), "+OK");
  reader.Send({"GET", "a"});
  ASSERT_EQ(reader.ReadBytes(1 << 20).size(), size_t{1} << 20);
  ASSERT_EQ(writer.Text({"DEL", "a"}), ":1");
  EXPECT_EQ(writer.Text({"GET", "a"}), "(nil)");
  auto sending = std::async(std::launch::async, [&] { return writer.Send({"SET", "b", value}); });
  server.host.AwaitParked(WakeReason::kSpace, 1);  // the reader's bytes are in the way
  reader.Reset();
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_TRUE(sending.get());
}

TEST(Ends, WaitingForSpaceEndsWithTheConnection) {
  TestServer::Setup setup;
  setup.server.limits.put_wait_ms = kHangGuardS * 1000;
  TestServer server(setup);
  RawClient holder(server.server->port());
  // An open put takes the space; it is not evicted.
  const resp::Reply held = holder.Do({"PUTSTART", "held", std::to_string(50 << 20)});
  ASSERT_EQ(held.Field("outcome")->text, "created");
  RawClient waiting(server.server->port());
  waiting.SendRaw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\nthe first bytes");
  server.host.AwaitParked(WakeReason::kSpace, 1);
  waiting.Reset();
  server.host.AwaitParked(WakeReason::kSpace, 0);
  EXPECT_EQ(RawClient(server.server->port()).Text({"EXISTS", "k"}), ":0");
  EXPECT_EQ(holder.Text({"PUTREVOKE", std::to_string(held.Field("put")->integer)}), ":1");
}

// ---- who is listed

TEST(ClientListing, ClosingConnectionsAreNotListed) {
  TestServer server;
  RawClient leaving(server.server->port());
  const int64_t id = leaving.Do({"CLIENT", "ID"}).integer;
  EXPECT_TRUE(Lists(ClientList(server), id));
  EXPECT_EQ(leaving.Text({"QUIT"}), "+OK");
  // Its socket is open on our side, and lingers on the server's.
  EXPECT_FALSE(Lists(ClientList(server), id));
  EXPECT_EQ(RawClient(server.server->port()).Text({"CLIENT", "KILL", "ID", std::to_string(id)}), ":0");
  EXPECT_TRUE(leaving.AtEnd());
}

TEST(ClientListing, OneThatIsBeingAnsweredIsListed) {
  TestServer server;
  RawClient writer(server.server->port());
  ASSERT_EQ(writer.Text({"SET", "a", Pattern(40 << 20, 1)}), "+OK");
  RawClient leaving(server.server->port());
  const int64_t id = leaving.Do({"CLIENT", "ID"}).integer;
  leaving.SendRaw("GET a\r\n");
  ASSERT_EQ(leaving.ReadBytes(1000).size(), 1000u);
  EXPECT_TRUE(Lists(ClientList(server), id)) << "a value on its way is no end";
}

TEST(ClientListing, KilledConnectionsAreGoneAtOnce) {
  TestServer::Setup setup;
  setup.server.io_threads = 3;
  TestServer server(setup);
  RawClient killer(server.server->port());
  for (int i = 0; i < 20; ++i) {
    RawClient victim(server.server->port());
    const int64_t id = victim.Do({"CLIENT", "ID"}).integer;
    killer.SendRaw("CLIENT KILL ID " + std::to_string(id) + "\r\nCLIENT LIST\r\n");
    EXPECT_EQ(RawClient::Show(killer.Read()), ":1");
    EXPECT_FALSE(Lists(killer.Read().text, id));
    EXPECT_TRUE(victim.AtEnd());
  }
}

// ---- replies that are not wanted

TEST(ReplyModes, SkipLastsUntilTheCommandIsOver) {
  TestServer::Setup setup;
  setup.server.limits.put_wait_ms = kHangGuardS * 1000;
  TestServer server(setup);
  RawClient writer(server.server->port()), client(server.server->port());
  const std::string command = RawClient::Encode({"SET", "k", Pattern(2 << 20, 1)});
  writer.SendRaw(std::string_view(command).substr(0, 1 << 20));
  server.PassLoops();
  // The SET waits for the other put of its key, and then is answered to nobody.
  client.SendRaw("CLIENT REPLY SKIP\r\nSET k new\r\nECHO behind\r\n");
  server.host.AwaitParked(WakeReason::kPutEnded, 1);
  writer.SendRaw(std::string_view(command).substr(1 << 20));
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_EQ(RawClient::Show(client.Read()), "\"behind\"");
  EXPECT_EQ(client.Text({"GET", "k"}), "\"new\"");
}

TEST(ReplyModes, OffMutesValuesToo) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string value = Pattern(3 << 20, 1);
  ASSERT_EQ(client.Text({"SET", "a", value}), "+OK");
  client.SendRaw("CLIENT REPLY OFF\r\nGET a\r\nMGET a a\r\nSET b 1\r\nCLIENT REPLY ON\r\nGET b\r\n");
  EXPECT_EQ(RawClient::Show(client.Read()), "+OK");
  EXPECT_EQ(RawClient::Show(client.Read()), "\"1\"");
}

}  // namespace
}  // namespace tiercel::net::test
