#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/resp/conn/connection.h"
#include "tests/resp_conn/scripted_server.h"

namespace tiercel::resp {
namespace {

constexpr int64_t kGuardMs = 60'000;

ConnectionOptions Greeting(const ScriptedServer& server) {
  ConnectionOptions options;
  options.host = "127.0.0.1";
  options.port = server.port();
  options.backoff_first_ms = 1;
  options.backoff_cap_ms = 5;
  options.greeting = {{"SELECT", "3"}, {"TICKET", "HOST", "boot/here"}};
  return options;
}

// Takes the greeting, answers it, then one command.
bool TakeGreeting(Peer& peer, std::vector<Command>* seen) {
  if (!peer.Greet()) return false;
  for (int i = 0; i < 2; ++i) {
    auto command = peer.Read();
    if (!command) return false;
    seen->push_back(*command);
    if (!peer.Write("+OK\r\n")) return false;
  }
  return true;
}

TEST(Greeting, ComesBeforeEveryCallOfEveryConnection) {
  std::vector<Command> seen;
  int connections = 0;
  {
    ScriptedServer server([&](Peer& peer, int) {
      ++connections;
      if (!TakeGreeting(peer, &seen) || !peer.Expect("PING")) return;
      peer.Write("+PONG\r\n");  // and closes: the next call needs a new connection
    });
    auto connection = Connection::Create(Greeting(server));
    const std::vector<std::string_view> ping = {"PING"};
    ASSERT_TRUE(connection->Call(ping, kGuardMs).ok());
    // The server's end may be noticed by the call itself.
    auto again = connection->Call(ping, kGuardMs);
    if (!again.ok()) again = connection->Call(ping, kGuardMs);
    EXPECT_TRUE(again.ok());
  }
  const Command select = {"SELECT", "3"}, ticket = {"TICKET", "HOST", "boot/here"};
  ASSERT_GE(seen.size(), 4u);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i % 2 == 0 ? select : ticket);
}

TEST(Greeting, OneThatIsRefusedFailsTheCall) {
  ScriptedServer server([](Peer& peer, int) {
    if (peer.Greet() && peer.Expect("SELECT")) peer.Write("-ERR DB index is out of range\r\n");
    (void)peer.Read();
  });
  auto connection = Connection::Create(Greeting(server));
  const std::vector<std::string_view> ping = {"PING"};
  auto reply = connection->Call(ping, kGuardMs);
  ASSERT_FALSE(reply.ok());
  EXPECT_THAT(reply.error().message(), testing::HasSubstr("out of range"));
  EXPECT_FALSE(connection->connected());
}

}  // namespace
}  // namespace tiercel::resp
