// Replies and the index: nothing is answered before it is durable, and what was undone is answered with an error.
#include <gtest/gtest.h>

#include <future>

#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"
#include "tests/support/held_index.h"

namespace tiercel::net::test {
namespace {

constexpr std::string_view kUndone = "-INDEXRO the index could not be written: the command was undone";
constexpr std::string_view kRefused = "-INDEXRO the index cannot be written at the moment";

class Durable : public testing::Test {
 protected:
  Durable() : server_(Options(&index_)) {}
  static TestServer::Setup Options(core::Index* index) {
    TestServer::Setup setup;
    setup.core.journal = true;
    setup.segments_outlive_master = true;
    setup.index = index;
    return setup;
  }
  uint16_t port() const { return server_.server->port(); }
  // After everything that the server has to do has been done: it has sent nothing to this client.
  void ExpectSilence(const RawClient& client) {
    server_.PassLoops();
    pollfd readable{.fd = client.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&readable, 1, 0), 0) << "answered too early";
  }
  // What is being written fails; the index cannot be written until Mend.
  void BreakIndex() {
    index_.BreakAndLetGo();
    server_.AwaitIndex([](core::Master& m) { return m.index_read_only(); });
  }
  void Mend() {
    index_.Break(false);
    server_.AwaitIndex([](core::Master& m) { return !m.index_read_only(); });
  }

  tiercel::test::HeldIndex index_;
  TestServer server_;
};

TEST_F(Durable, AReplyWaitsForItsRecord) {
  RawClient writer(port()), reader(port());
  index_.Hold(true);
  writer.Send({"SET", "k", "v"});
  index_.AwaitWriting();
  ExpectSilence(writer);
  // Readers see the value, and are told of it no sooner; a key that is absent waits for nothing.
  reader.SendRaw("EXISTS none\r\nGET k\r\n");
  EXPECT_EQ(RawClient::Show(reader.Read()), ":0");
  ExpectSilence(reader);
  index_.Hold(false);
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_EQ(RawClient::Show(reader.Read()), "\"v\"");
}

// Later commands run, their replies stay behind; other connections do not wait.
TEST_F(Durable, RepliesLeaveInOrderWhileLaterCommandsRun) {
  RawClient writer(port()), other(port());
  ASSERT_EQ(other.Text({"SET", "there", "1"}), "+OK");
  index_.Hold(true);
  writer.SendRaw("SET k v\r\nPING\r\nDEL there\r\nSELECT 2\r\nECHO end\r\n");
  index_.AwaitWriting();
  ExpectSilence(writer);
  EXPECT_EQ(other.Text({"PING"}), "+PONG");
  other.Send({"EXISTS", "there"});  // the DEL has run already: its absence may be told, a null waits for nothing
  EXPECT_EQ(RawClient::Show(other.Read()), ":0");
  index_.Hold(false);
  const char* const expected[] = {"+OK", "+PONG", ":1", "+OK", "\"end\""};
  for (const char* reply : expected) EXPECT_EQ(RawClient::Show(writer.Read()), reply);
}

TEST_F(Durable, LargeValuesWaitAsWell) {
  RawClient writer(port()), reader(port());
  const std::string value = Pattern(8 << 20, 1);
  index_.Hold(true);
  writer.Send({"SET", "k", value});
  index_.AwaitWriting();
  ExpectSilence(writer);
  reader.SendRaw("GET k\r\nPING\r\n");
  ExpectSilence(reader);
  index_.Hold(false);
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_TRUE(reader.Read().text == value);
  EXPECT_EQ(RawClient::Show(reader.Read()), "+PONG");
}

TEST_F(Durable, PutsOfTiercelClientsWaitAsWell) {
  RawClient writer(port());
  const resp::Reply plan = writer.Do({"PUTSTART", "k", "100"});
  ASSERT_EQ(plan.Field("outcome")->text, "created");
  index_.Hold(true);
  writer.Send({"PUTEND", std::to_string(plan.Field("put")->integer), "0000000000000001"});
  index_.AwaitWriting();
  ExpectSilence(writer);
  RawClient reader(port());
  reader.Send({"GETREPLICAS", "k"});
  ExpectSilence(reader);
  index_.Hold(false);
  EXPECT_EQ(RawClient::Show(writer.Read()), ":1");
  EXPECT_EQ(reader.Read().kind, resp::Reply::Kind::kArray);
}

TEST_F(Durable, WhatWasUndoneIsAnsweredWithAnError) {
  RawClient writer(port()), reader(port()), streamed(port());
  const std::string large = Pattern(2 << 20, 1);
  ASSERT_EQ(writer.Text({"SET", "old", "1"}), "+OK");
  index_.Hold(true);
  writer.SendRaw("SET k v\r\nPING\r\nDEL old\r\n" + RawClient::Encode({"SET", "l", large}) + "ECHO behind\r\n");
  index_.AwaitWriting();
  ExpectSilence(writer);
  reader.SendRaw("GET k\r\nECHO behind\r\n");
  streamed.SendRaw("GET l\r\nECHO behind\r\n");
  ExpectSilence(reader);
  ExpectSilence(streamed);
  BreakIndex();
  EXPECT_EQ(RawClient::Show(writer.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(writer.Read()), "+PONG");
  EXPECT_EQ(RawClient::Show(writer.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(writer.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(writer.Read()), "\"behind\"");
  for (RawClient* client : {&reader, &streamed}) {
    EXPECT_EQ(RawClient::Show(client->Read()), kUndone) << "nobody is told of a value that has been taken back";
    EXPECT_EQ(RawClient::Show(client->Read()), "\"behind\"");
  }
  EXPECT_EQ(reader.Text({"MGET", "k", "l", "old"}), "[(nil) (nil) \"1\"]");
  Mend();
  EXPECT_EQ(writer.Text({"SET", "k", "v2"}), "+OK");
  EXPECT_EQ(reader.Text({"GET", "k"}), "\"v2\"");
}

// A command that takes several turns has one answer, also when the first of them was undone.
TEST_F(Durable, ACommandOfManyTurnsIsUndoneOnce) {
  constexpr int kKeys = 10'000;
  RawClient client(port());
  std::vector<std::string> set = {"MSET"}, del = {"DEL"};
  for (int i = 0; i < kKeys; ++i) {
    set.push_back("k" + std::to_string(i));
    set.push_back("v");
    del.push_back("k" + std::to_string(i));
  }
  ASSERT_EQ(client.Text(set), "+OK");
  index_.Hold(true);
  client.SendRaw(RawClient::Encode(del) + "PING\r\n");
  index_.AwaitWriting();
  ExpectSilence(client);
  BreakIndex();
  EXPECT_EQ(RawClient::Show(client.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(client.Read()), "+PONG") << "one error, and the connection goes on";
  EXPECT_EQ(client.Text({"DBSIZE"}), ":" + std::to_string(kKeys));
  Mend();
  EXPECT_EQ(client.Text(del), ":" + std::to_string(kKeys));
}

// A SET that waited before it ran is one command as well.
TEST_F(Durable, ACommandThatWaitedIsUndoneLikeAnyOther) {
  RawClient writer(port()), waiting(port());
  const std::string command = RawClient::Encode({"SET", "k", Pattern(2 << 20, 1)});
  writer.SendRaw(std::string_view(command).substr(0, 1 << 20));
  server_.PassLoops();
  index_.Hold(true);
  waiting.SendRaw("SET k new\r\nPING\r\n");
  server_.host.AwaitParked(WakeReason::kPutEnded, 1);
  writer.SendRaw(std::string_view(command).substr(1 << 20));
  index_.AwaitWriting();
  server_.host.AwaitParked(WakeReason::kPutEnded, 0);
  ExpectSilence(waiting);
  BreakIndex();
  EXPECT_EQ(RawClient::Show(writer.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(waiting.Read()), kUndone);
  EXPECT_EQ(RawClient::Show(waiting.Read()), "+PONG");
  Mend();
}

TEST_F(Durable, NothingIsChangedWhileTheIndexCannotBeWritten) {
  RawClient client(port());
  ASSERT_EQ(client.Text({"SET", "k", "v", "EX", "1000"}), "+OK");
  index_.Hold(true);
  client.Send({"SET", "lost", "v"});
  index_.AwaitWriting();
  BreakIndex();
  ASSERT_EQ(RawClient::Show(client.Read()), kUndone);
  using Words = std::vector<std::string>;
  for (const Words& change :
       {Words{"DEL", "k"}, Words{"DEL", "none", "k"}, Words{"UNLINK", "k"}, Words{"EXPIRE", "k", "5"},
        Words{"PEXPIRE", "k", "5"}, Words{"EXPIREAT", "k", "1"}, Words{"PEXPIREAT", "k", "1"}, Words{"PERSIST", "k"},
        Words{"GETDEL", "k"}, Words{"FLUSHDB"}, Words{"FLUSHALL"}, Words{"PIN", "k", "HARD"}, Words{"SET", "k", "w"},
        Words{"SET", "k", "w", "EXAT", "1"}, Words{"MSET", "k", "w"}, Words{"SETEX", "k", "5", "w"}}) {
    EXPECT_EQ(client.Text(change), kRefused) << change[0];
  }
  // Reads go on, and syntax is checked as ever.
  EXPECT_EQ(client.Text({"GET", "k"}), "\"v\"");
  EXPECT_GT(client.Do({"TTL", "k"}).integer, 900);
  EXPECT_EQ(client.Text({"EXPIRE", "k", "x"}), "-ERR value is not an integer or out of range");
  EXPECT_NE(client.Do({"INFO", "persistence"}).text.find("index_read_only:1"), std::string::npos);
  Mend();
  EXPECT_EQ(client.Text({"PERSIST", "k"}), ":1");
  EXPECT_EQ(client.Text({"DEL", "k"}), ":1");
}

// The end of a connection whose replies wait is no end of what it did.
TEST_F(Durable, WhoeverLeftBeforeTheAnswerHasWrittenAllTheSame) {
  RawClient writer(port());
  index_.Hold(true);
  writer.Send({"SET", "k", "v"});
  index_.AwaitWriting();
  writer.Reset();
  server_.PassLoops();
  index_.Hold(false);
  EXPECT_EQ(RawClient(port()).Text({"GET", "k"}), "\"v\"");
}

}  // namespace
}  // namespace tiercel::net::test
