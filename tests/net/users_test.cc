// Users in their simplest form: who is let in, as whom, and that no secret of theirs is ever written down.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/grant.h"
#include "base/log.h"
#include "protocol/resp/descriptor.h"
#include "protocol/resp/errors.h"
#include "server/config/live_config.h"
#include "server/config/option.h"
#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"

namespace tiercel::net::test {
namespace {

using Words = std::vector<std::string>;

constexpr char kNoAuth[] = "-NOAUTH Authentication required.";
constexpr char kWrongPass[] = "-WRONGPASS invalid username-password pair or user is disabled.";

UserSpec Parse(const Words& words) {
  Result<UserSpec> spec = ParseUserDirective(words);
  EXPECT_TRUE(spec.ok()) << (spec.ok() ? "" : spec.error().message());
  return spec.ok() ? *spec : UserSpec{};
}

// ---- the directive

TEST(UserDirective, WordsInTheirOrder) {
  const UserSpec plain = Parse({"alice"});
  EXPECT_EQ(plain.name, "alice");
  EXPECT_FALSE(plain.enabled || plain.no_password || plain.store_right);
  const UserSpec full = Parse({"bob", "on", ">one", ">two", "+@store", "~*", "&*", "+@all"});
  EXPECT_TRUE(full.enabled && full.store_right);
  EXPECT_EQ(full.passwords, (Words{"one", "two"}));
  EXPECT_FALSE(Parse({"a", "on", "off"}).enabled);
  EXPECT_FALSE(Parse({"a", "+@store", "-@store"}).store_right);
  EXPECT_TRUE(Parse({"a", ">x", "nopass"}).passwords.empty());
  EXPECT_TRUE(Parse({"a", ">x", "nopass"}).no_password);
  EXPECT_FALSE(Parse({"a", "nopass", ">x"}).no_password);
  EXPECT_FALSE(Parse({"a", "nopass", "resetpass"}).no_password);
  EXPECT_TRUE(Parse({"a", ">x", "resetpass"}).passwords.empty());
  EXPECT_EQ(Parse({"a", ">>"}).passwords, Words{">"});
}

TEST(UserDirective, WhatIsNotKnownIsRefusedByName) {
  for (const Words& words : {Words{}, Words{""}, Words{"@server", "on"}, Words{"a b", "on"}, Words{"a\nb", "on"},
                             Words{"a", ">"}, Words{"a", "ON"}, Words{"a", ""}, Words{"a", "~x*"}, Words{"a", "-@all"},
                             Words{"a", "+get"}, Words{"a", "#0123"}, Words{"a", "<x"}}) {
    EXPECT_FALSE(ParseUserDirective(words).ok()) << (words.size() < 2 ? "" : words[1]);
  }
  EXPECT_NE(ParseUserDirective(Words{"alice", "on", "+get"}).error().message().find("user alice: '+get'"),
            std::string::npos);
}

// A word may be a password whose > was forgotten, or one that was meant to be a hash.
TEST(UserDirective, MistypedSecretsAreNotRepeated) {
  for (const std::string word :
       {"hunter2", "#hunter2", "<hunter2", "!hunter2", "on>hunter2", "hunter2 on", "(hunter2"}) {
    const auto refused = ParseUserDirective(Words{"alice", "on", word});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message().find("hunter2"), std::string::npos) << refused.error().message();
  }
}

// ---- the table

TEST(UserTable, Logins) {
  const auto users = Users::Create("", std::vector<UserSpec>{
                                           Parse({"alice", "on", ">one", ">two"}),
                                           Parse({"off", "off", ">x"}),
                                           Parse({"open", "on", "nopass"}),
                                           Parse({"none", "on"}),
                                           Parse({"store", "on", ">s", "+@store"}),
                                       });
  ASSERT_TRUE(users.ok());
  const Users& table = **users;
  EXPECT_TRUE(table.Login("alice", "one") && table.Login("alice", "two"));
  for (const char* wrong : {"", "One", "one ", "on", "onee", ">one"})
    EXPECT_FALSE(table.Login("alice", wrong)) << wrong;
  EXPECT_FALSE(table.Login("Alice", "one"));
  EXPECT_FALSE(table.Login("off", "x"));
  EXPECT_TRUE(table.Login("open", "") && table.Login("open", "anything"));
  EXPECT_FALSE(table.Login("none", "") || table.Login("none", "x"));
  EXPECT_FALSE(table.Login("nobody", ""));
  EXPECT_FALSE(table.Login(std::string("alice\0", 6), "one"));
  EXPECT_FALSE(table.Login("alice", "one")->store_right);
  EXPECT_TRUE(table.Login("store", "s")->store_right);
  // Without a password everything is open, stores' commands too.
  EXPECT_TRUE(table.Default().has_value() && table.Default()->store_right);
}

TEST(UserTable, RequirepassIsTheDefaultUsers) {
  auto users = Users::Create("secret", std::vector<UserSpec>{Parse({"alice", "on", ">a"})});
  ASSERT_TRUE(users.ok());
  EXPECT_FALSE((*users)->Default());
  EXPECT_TRUE((*users)->default_has_password());
  EXPECT_FALSE((*users)->Login("default", ""));
  EXPECT_TRUE((*users)->Login("default", "secret"));
  EXPECT_FALSE((*users)->Login("default", "secret")->store_right) << "a password closes the stores' commands";
  (*users)->SetRequirePass("other");
  EXPECT_FALSE((*users)->Login("default", "secret"));
  (*users)->SetRequirePass("");
  EXPECT_TRUE((*users)->Default());
  EXPECT_FALSE(Users::Create("", std::vector<UserSpec>{Parse({"a", "on"}), Parse({"a", "on"})}).ok());
  EXPECT_FALSE(Users::Create("", std::vector<UserSpec>{Parse({"default", "on"}), Parse({"default", "on"})}).ok());
  auto off = Users::Create("", std::vector<UserSpec>{Parse({"default", "off", "nopass"})});
  EXPECT_FALSE((*off)->Default()) << "a disabled user is nobody";
}

// ---- connections

struct LoginServer : TestServer {
  LoginServer() : TestServer(Options()) {}
  static Setup Options() {
    Setup setup;
    setup.requirepass = "secret";
    setup.users = {Parse({"alice", "on", ">alicepw"}), Parse({"bob", "on", ">bobpw"}), Parse({"carol", "off", ">c"})};
    return setup;
  }
  RawClient Connect() { return RawClient(server->port()); }
};

TEST(Login, NothingButTheDoorBeforeIt) {
  LoginServer server;
  RawClient client(server.server->port());
  for (const Words& command :
       {Words{"GET", "a"}, Words{"SET", "a", "b"}, Words{"PING"}, Words{"INFO"}, Words{"CONFIG", "GET", "*"},
        Words{"CLIENT", "LIST"}, Words{"COMMAND"}, Words{"DBSIZE"}, Words{"PUTSTART", "a", "1"}, Words{"TICKET"},
        Words{"STORES"}, Words{"STORE", "PING"}, Words{"SELECT", "1"}, Words{"ECHO", "x"}}) {
    EXPECT_EQ(client.Text(command), kNoAuth) << command[0];
  }
  EXPECT_EQ(client.Text({"HELLO", "3"}), "-" + std::string(resp::kNoAuthHelloLine));
  EXPECT_EQ(client.Text({"NOSUCH"}), "-ERR unknown command 'NOSUCH', with args beginning with: ");
  EXPECT_EQ(client.Text({"RESET"}), "+RESET");
  EXPECT_EQ(client.Text({"QUIT"}), "+OK");
}

// What comes in one write with the login is judged after it, and before a refused one not at all.
TEST(Login, InAPipeline) {
  LoginServer server;
  RawClient client(server.server->port());
  client.SendRaw(
      "PING\r\nAUTH wrong\r\nPING\r\nAUTH alice alicepw\r\nPING\r\nAUTH bob wrong\r\nPING\r\nRESET\r\nPING\r\n");
  for (const char* reply : {kNoAuth, kWrongPass, kNoAuth, "+OK", "+PONG", kWrongPass, "+PONG", "+RESET", kNoAuth}) {
    EXPECT_EQ(RawClient::Show(client.Read()), reply);
  }
}

TEST(Login, AllForms) {
  LoginServer server;
  const auto user_of = [](RawClient& client) {
    const std::string info = client.Do({"CLIENT", "INFO"}).text;
    const size_t at = info.find(" user=") + 6;
    return info.substr(at, info.find(' ', at) - at);
  };
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"AUTH", "secret"}), "+OK");
  EXPECT_EQ(user_of(client), "default");
  EXPECT_EQ(client.Text({"AUTH", "alice", "alicepw"}), "+OK");
  EXPECT_EQ(user_of(client), "alice");
  EXPECT_EQ(client.Text({"AUTH", "alice", "bobpw"}), kWrongPass);
  EXPECT_EQ(client.Text({"AUTH", "carol", "c"}), kWrongPass) << "she is off";
  EXPECT_EQ(client.Text({"AUTH", "@server", ""}), kWrongPass);
  EXPECT_EQ(user_of(client), "alice") << "a failed login changes nothing";
  EXPECT_EQ(client.Do({"HELLO", "3", "AUTH", "bob", "bobpw", "SETNAME", "b"}).kind, resp::Reply::Kind::kMap);
  EXPECT_EQ(user_of(client), "bob");
  EXPECT_EQ(client.Text({"HELLO", "2", "AUTH", "bob", "x", "SETNAME", "c"}), kWrongPass);
  EXPECT_EQ(client.Text({"CLIENT", "GETNAME"}), "\"b\"");
  const std::string binary("a\0b\r\n", 5);
  server.server->users().SetRequirePass(binary);
  EXPECT_EQ(client.Text({"AUTH", binary}), "+OK");
  EXPECT_EQ(client.Text({"AUTH", "secret"}), kWrongPass);
}

// Who is in stays in when the password changes, as in Redis; newcomers need the new one.
TEST(Login, ChangedPassword) {
  LoginServer server;
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"AUTH", "secret"}), "+OK");
  server.server->users().SetRequirePass("");
  EXPECT_EQ(RawClient(server.server->port()).Text({"PING"}), "+PONG");
  server.server->users().SetRequirePass("new");
  EXPECT_EQ(client.Text({"PING"}), "+PONG");
  RawClient late(server.server->port());
  EXPECT_EQ(late.Text({"PING"}), kNoAuth);
  EXPECT_EQ(late.Text({"AUTH", "new"}), "+OK");
}

// A connection that has not logged in cannot make the server hold much.
TEST(Login, LargeArgumentsNeedOne) {
  LoginServer server;
  for (const char* sent : {"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1000000\r\n", "*1000\r\n"}) {
    RawClient client(server.server->port());
    client.SendRaw(sent);
    const std::string answer = client.ReadAll();
    EXPECT_EQ(answer.substr(0, 20), "-ERR Protocol error:") << answer;
    EXPECT_NE(answer.find("unauthenticated"), std::string::npos) << answer;
  }
}

// ---- owners

TEST(Owners, PutsAndGrantsBelongToUsers) {
  LoginServer server;
  RawClient alice(server.server->port()), also_alice(server.server->port()), bob(server.server->port());
  ASSERT_EQ(alice.Text({"AUTH", "alice", "alicepw"}), "+OK");
  ASSERT_EQ(also_alice.Text({"AUTH", "alice", "alicepw"}), "+OK");
  ASSERT_EQ(bob.Text({"AUTH", "bob", "bobpw"}), "+OK");
  const auto grant_of = [](const resp::Reply& reply) {
    const auto replica = resp::ParseReplica(reply.Field("replicas")->items.at(0).text);
    EXPECT_TRUE(replica.ok() && replica->has_grant);
    return replica->grant;
  };
  const resp::Reply plan = alice.Do({"PUTSTART", "k", "100"});
  ASSERT_EQ(plan.Field("outcome")->text, "created");
  EXPECT_EQ(grant_of(plan).user, UserId("alice"));
  EXPECT_EQ(grant_of(plan).right, Right::kWrite);
  const std::string put = std::to_string(plan.Field("put")->integer);
  // Nobody else ends it, gives it up or keeps it going.
  for (const Words& command :
       {Words{"PUTEND", put, "0000000000000001"}, Words{"PUTREVOKE", put}, Words{"PUTRENEW", put}}) {
    EXPECT_EQ(bob.Text(command).substr(0, 8), "-NOPERM ") << command[0];
  }
  EXPECT_EQ(bob.Text({"EXISTS", "k"}), ":0");
  // Another connection of the same user may: a client keeps several.
  EXPECT_EQ(also_alice.Text({"PUTEND", put, "0000000000000001"}), ":1");
  const resp::Reply found = bob.Do({"GETREPLICAS", "k"});
  EXPECT_EQ(grant_of(found).user, UserId("bob"));
  EXPECT_EQ(grant_of(found).right, Right::kRead);
}

// ---- secrets

// Whatever goes wrong at the door, and however much is logged: no password stands in the log.
TEST(Secrets, AreNeverLogged) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("users-test-" + std::to_string(::getpid()) + ".log")).string();
  ASSERT_TRUE(OpenLog(file, LogLevel::kDebug).ok());
  const Words secrets = {"SESAME-default", "SESAME-alice", "SESAME-wrong", "SESAME-changed"};
  {
    config::LiveConfig live{config::TableDefaults()};
    TestServer::Setup setup;
    setup.requirepass = secrets[0];
    setup.users = {Parse({"alice", "on", ">" + secrets[1]}), Parse({"store", "on", ">" + secrets[1], "+@store"})};
    TestServer server(setup);
    live.AddListener([&](const config::Settings&, const config::Settings& after) {
      server.server->users().SetRequirePass(after.requirepass);
      return Ok();
    });
    EXPECT_TRUE(live.Set(std::vector<config::LiveConfig::Row>{{"requirepass", secrets[3]}}).ok());
    EXPECT_FALSE(
        live.Set(std::vector<config::LiveConfig::Row>{{"requirepass", std::string(2000, 'x') + secrets[2]}}).ok());
    for (const std::string& bytes :
         {"AUTH " + secrets[2] + "\r\n", "AUTH alice " + secrets[1] + "\r\nPING\r\n", "AUTH a b " + secrets[2] + "\r\n",
          "HELLO 3 AUTH alice " + secrets[2] + "\r\n", "HELLO 9 AUTH alice " + secrets[1] + "\r\n",
          "AUT " + secrets[2] + "\r\n", "*2\r\n$4\r\nAUTH\r\n$999999999\r\n" + secrets[2],
          "*2\r\n$4\r\nAUTH\r\n" + secrets[2] + "\r\n", "AUTH \"" + secrets[2] + "\r\n",
          "CONFIG SET requirepass " + secrets[2] + "\r\n"}) {
      RawClient client(server.server->port());
      client.SendRaw(bytes);
      client.ShutdownWrite();
      EXPECT_FALSE(client.ReadAll().empty());
    }
    // The log works, at its finest level: this line is there.
    Log(LogLevel::kDebug, "the end of the test");
  }
  FlushLog();
  ASSERT_TRUE(OpenLog("", LogLevel::kNotice).ok());
  std::ostringstream log;
  log << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  EXPECT_NE(log.str().find("the end of the test"), std::string::npos);
  EXPECT_EQ(log.str().find("SESAME"), std::string::npos) << log.str();
}

// The replies of a refused login do not repeat it either.
TEST(Secrets, AreNotRepeatedInReplies) {
  LoginServer server;
  for (const Words& command :
       {Words{"AUTH", "SESAME"}, Words{"AUTH", "alice", "SESAME"}, Words{"AUTH", "a", "b", "SESAME"},
        Words{"HELLO", "3", "AUTH", "alice", "SESAME"}, Words{"HELLO", "7", "AUTH", "alice", "SESAME"}}) {
    RawClient client(server.server->port());
    const std::string answer = client.Text(command);
    EXPECT_EQ(answer[0], '-');
    EXPECT_EQ(answer.find("SESAME"), std::string::npos) << answer;
    EXPECT_EQ(RawClient::Show(client.Do({"CLIENT", "LIST"})), kNoAuth);
  }
}

}  // namespace
}  // namespace tiercel::net::test
