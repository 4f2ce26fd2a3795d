#include "protocol/resp/conn/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/random.h"
#include "tests/resp_conn/scripted_server.h"

namespace tiercel::resp {
namespace {

using Words = std::vector<std::string_view>;

// Long enough for any machine: these end tests that hang, and are never waited out in one that passes.
constexpr int64_t kGuardMs = 60'000;

ConnectionOptions To(const ScriptedServer& server) {
  ConnectionOptions options;
  if (server.path().empty()) {
    options.host = "127.0.0.1";
    options.port = server.port();
  } else {
    options.unix_socket = server.path();
  }
  options.backoff_first_ms = 1;
  options.backoff_cap_ms = 5;
  return options;
}

Result<Reply> Call(Connection& connection, const Words& words, int64_t timeout_ms = kGuardMs) {
  return connection.Call(words, timeout_ms);
}

std::string TextOf(const Result<Reply>& reply) { return reply.ok() ? reply->text : reply.error().ToString(); }

ErrorCode CodeOf(const Result<Reply>& reply) { return reply.ok() ? ErrorCode::kInternal : reply.error().code(); }

TEST(Connection, CallsAndErrorReplies) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  EXPECT_FALSE(connection->connected());
  EXPECT_EQ(connection->epoch(), 0u);
  EXPECT_EQ(TextOf(Call(*connection, {"ECHO", "hello"})), "hello");
  EXPECT_TRUE(connection->connected());
  EXPECT_EQ(connection->epoch(), 1u);
  const auto unknown = Call(*connection, {"NOPE"});
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->kind, Reply::Kind::kError);
  EXPECT_EQ(unknown->ToError().code(), ErrorCode::kUnknownCommand);
  EXPECT_EQ(connection->pending(), 0u);
}

// A store must be able to wait for its master at such a moment: its bytes are lost with its process.
TEST(Connection, SurvivesWithoutDescriptors) {
  ScriptedServer server(ServeAsRedis);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto connection = Connection::Create(To(server));
  const auto refused = Call(*connection, {"PING"}, 20);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(CodeOf(refused), ErrorCode::kUnreachable);
  EXPECT_THAT(TextOf(refused), testing::HasSubstr("Too many open files"));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
}

TEST(Connection, ReachesV6UnixAndNames) {
  ScriptedServer v6(ServeAsRedis, ScriptedServer::Where::kV6);
  ConnectionOptions options = To(v6);
  options.host = "::1";
  EXPECT_EQ(TextOf(Call(*Connection::Create(options), {"PING"})), "PONG");

  ScriptedServer local(ServeAsRedis, ScriptedServer::Where::kUnix);
  EXPECT_EQ(TextOf(Call(*Connection::Create(To(local)), {"PING"})), "PONG");

  // A name with several addresses, of which not all answer.
  ScriptedServer v4(ServeAsRedis);
  options = To(v4);
  options.host = "localhost";
  EXPECT_EQ(TextOf(Call(*Connection::Create(options), {"PING"})), "PONG");
}

TEST(Connection, LogsInAndNamesItselfInTheHandshake) {
  Command hello;
  ScriptedServer server([&](Peer& peer, int number) {
    hello = *peer.Read();
    peer.Write(kHelloReply);
    ServeAsRedis(peer, number);
  });
  ConnectionOptions options = To(server);
  options.user = "alice";
  options.password = "secret";
  options.client_name = "bench";
  auto connection = Connection::Create(options);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_THAT(hello, testing::ElementsAre("HELLO", "3", "AUTH", "alice", "secret", "SETNAME", "bench"));
}

TEST(Connection, SpeaksResp2WithAPeerThatDoesNotKnowHello) {
  std::vector<Command> seen;
  ScriptedServer server([&](Peer& peer, int) {
    for (const char* answer :
         {"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n", "+OK\r\n", "+OK\r\n", "$-1\r\n"}) {
      const auto command = peer.Read();
      if (!command) return;
      seen.push_back(*command);
      peer.Write(answer);
    }
    peer.Read();
  });
  ConnectionOptions options = To(server);
  options.password = "secret";
  options.client_name = "bench";
  auto connection = Connection::Create(options);
  const auto reply = Call(*connection, {"GET", "k"});
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->is_null());
  connection->Close();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_THAT(seen[1], testing::ElementsAre("AUTH", "secret"));
  EXPECT_THAT(seen[2], testing::ElementsAre("CLIENT", "SETNAME", "bench"));
}

TEST(Connection, WrongPasswordFailsAtOnce) {
  ScriptedServer server([](Peer& peer, int) {
    if (peer.Read()) peer.Write("-WRONGPASS invalid username-password pair or user is disabled.\r\n");
    peer.Read();
  });
  ConnectionOptions options = To(server);
  options.password = "wrong";
  auto connection = Connection::Create(options);
  const auto reply = Call(*connection, {"PING"});
  EXPECT_EQ(CodeOf(reply), ErrorCode::kWrongPass);
  EXPECT_FALSE(connection->connected());
}

TEST(Connection, MissingPasswordFailsAtOnce) {
  ScriptedServer server([](Peer& peer, int) {
    if (peer.Read()) peer.Write("-NOAUTH HELLO must be called with the client already authenticated\r\n");
    peer.Read();
  });
  EXPECT_EQ(CodeOf(Call(*Connection::Create(To(server)), {"PING"})), ErrorCode::kNoAuth);
}

TEST(Connection, PassingRefusalsAreTriedAgain) {
  ScriptedServer server([](Peer& peer, int number) {
    if (number == 0) {
      peer.Write("-ERR max number of clients reached\r\n");
    } else if (number == 1) {
      if (peer.Read()) peer.Write("-LOADING the index is being read\r\n");
    } else {
      ServeAsRedis(peer, number);
    }
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(connection->epoch(), 1u);
}

TEST(Connection, SomethingElseListensThere) {
  ScriptedServer echo([](Peer& peer, int) {
    char bytes[512];
    ssize_t got;
    while ((got = recv(peer.fd(), bytes, sizeof(bytes), 0)) > 0) peer.Write({bytes, static_cast<size_t>(got)});
  });
  EXPECT_EQ(CodeOf(Call(*Connection::Create(To(echo)), {"PING"}, 50)), ErrorCode::kUnreachable);
  ScriptedServer web([](Peer& peer, int) { peer.Write("HTTP/1.1 400 Bad Request\r\n\r\n"); });
  EXPECT_EQ(CodeOf(Call(*Connection::Create(To(web)), {"PING"}, 50)), ErrorCode::kUnreachable);
}

TEST(Connection, NobodyListensThere) {
  ConnectionOptions options;
  options.unix_socket = ScriptedServer::UnusedPath();
  options.backoff_first_ms = 1;
  auto reply = Call(*Connection::Create(options), {"PING"}, 30);
  EXPECT_EQ(CodeOf(reply), ErrorCode::kUnreachable);
  EXPECT_THAT(reply.error().message(), testing::HasSubstr(options.unix_socket));

  options = {};
  {
    ScriptedServer gone(ServeAsRedis);
    options = To(gone);
  }
  reply = Call(*Connection::Create(options), {"PING"}, 30);
  EXPECT_EQ(CodeOf(reply), ErrorCode::kUnreachable);
  EXPECT_THAT(reply.error().message(), testing::HasSubstr("127.0.0.1:" + std::to_string(options.port)));

  options.host = "no-such-host.invalid";
  EXPECT_EQ(CodeOf(Call(*Connection::Create(options), {"PING"}, 30)), ErrorCode::kUnreachable);

  options = {};
  options.unix_socket = std::string(300, 'x');
  EXPECT_EQ(CodeOf(Call(*Connection::Create(options), {"PING"})), ErrorCode::kInvalid);
}

TEST(Connection, RepliesCutAtEveryByte) {
  const std::string replies = "$5\r\nhello\r\n*2\r\n:1\r\n%1\r\n+k\r\n_\r\n";
  ScriptedServer server([&](Peer& peer, int) {
    if (!peer.Greet()) return;
    for (size_t cut = 0; cut <= replies.size(); ++cut) {
      if (!peer.Read() || !peer.Read()) return;
      peer.WriteByByte(replies.substr(0, cut));
      peer.WriteByByte(replies.substr(cut));
    }
    peer.Read();
  });
  auto connection = Connection::Create(To(server));
  const std::vector<Words> two = {{"GET", "a"}, {"GET", "b"}};
  for (size_t cut = 0; cut <= replies.size(); ++cut) {
    const auto pair = connection->Pipeline(two, kGuardMs);
    ASSERT_TRUE(pair.ok());
    EXPECT_EQ((*pair)[0].text, "hello");
    ASSERT_EQ((*pair)[1].items.size(), 2u);
    EXPECT_EQ((*pair)[1].items[1].kind, Reply::Kind::kMap);
  }
}

TEST(Connection, CutInTheMiddleOfAReply) {
  ScriptedServer server([](Peer& peer, int number) {
    if (number > 0) return ServeAsRedis(peer, number);
    if (peer.Greet() && peer.Read()) peer.Write("$100\r\nhalf of it");
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(CodeOf(Call(*connection, {"GET", "k"})), ErrorCode::kUnreachable);
  EXPECT_FALSE(connection->connected());
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(connection->epoch(), 2u);
}

TEST(Connection, PeerClosedWhileIdle) {
  ScriptedServer server([](Peer& peer, int number) {
    if (number > 0) return ServeAsRedis(peer, number);
    if (peer.Greet() && peer.Read()) peer.Write("+PONG\r\n");
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  connection->Drive(20);  // lies idle
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(connection->epoch(), 2u);
}

TEST(Connection, NonsenseAndUnaskedRepliesEndTheLink) {
  ScriptedServer server([](Peer& peer, int number) {
    if (number > 1) return ServeAsRedis(peer, number);
    if (!peer.Greet() || !peer.Read()) return;
    peer.Write(number == 0 ? "!nonsense\r\n" : ">1\r\n+push\r\n+PONG\r\n+ONE TOO MANY\r\n");
    peer.Read();
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kUnreachable);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");  // the push before it is not its answer
  connection->Drive(20);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(connection->epoch(), 3u);
}

TEST(Connection, LateRepliesAreNotGivenToOthers) {
  std::mutex mutex;
  std::condition_variable released;
  bool release = false;
  ScriptedServer server([&](Peer& peer, int) {
    if (!peer.Greet()) return;
    const auto late = peer.Read();
    const auto next = peer.Read();
    std::unique_lock lock(mutex);
    released.wait(lock, [&] { return release; });
    if (late && next) peer.Write(BulkOf(late->at(1)) + BulkOf(next->at(1)));
    peer.Read();
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(CodeOf(Call(*connection, {"ECHO", "late"}, 20)), ErrorCode::kDeadline);
  EXPECT_EQ(connection->pending(), 1u);
  std::thread other([&] { EXPECT_EQ(TextOf(Call(*connection, {"ECHO", "next"})), "next"); });
  {
    std::lock_guard lock(mutex);
    release = true;
  }
  released.notify_one();
  other.join();
  EXPECT_EQ(connection->pending(), 0u);
  EXPECT_EQ(connection->epoch(), 1u);
}

TEST(Connection, TimeIsOverBeforeAnythingIsSent) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"}, 0)), ErrorCode::kDeadline);
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"}, -5)), ErrorCode::kDeadline);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"}, INT64_MAX)), "PONG");
  EXPECT_EQ(connection->pending(), 0u);
}

// A peer that reads nothing: the request is cut off, so the link is too; the next call gets a new one.
TEST(Connection, TimeIsOverInTheMiddleOfARequest) {
  ScriptedServer server([](Peer& peer, int number) {
    if (number > 0) return ServeAsRedis(peer, number);
    if (!peer.Greet() || !peer.Read() || !peer.Write("+PONG\r\n")) return;
    pollfd closed{peer.fd(), POLLRDHUP, 0};
    poll(&closed, 1, -1);
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  const std::string large(64 << 20, 'x');
  // On a busy machine its time may be over before its first byte was sent, which is another case.
  ErrorCode code;
  do {
    code = CodeOf(Call(*connection, {"SET", "k", large}, 50));
  } while (code == ErrorCode::kDeadline);
  EXPECT_EQ(code, ErrorCode::kUnreachable);
  EXPECT_EQ(connection->pending(), 0u);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
}

TEST(Connection, LargeValuesBothWays) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::string large(64 << 20, '\0');
  Random random(7);
  for (size_t i = 0; i < large.size(); i += 4096) large[i] = static_cast<char>(random.Next());
  EXPECT_EQ(TextOf(Call(*connection, {"SET", "k", large})), "OK");
  const auto reply = Call(*connection, {"GET", "k"});
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->text == large);
}

// The server answers each command before it reads the next, and the client's whole batch does not fit into the
// sockets: whoever sends has to read as well.
TEST(Connection, NeitherSideWaitsForTheOtherToRead) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::vector<std::string> values;
  for (int i = 0; i < 64; ++i) values.emplace_back(512 << 10, static_cast<char>('a' + i % 26));
  std::vector<Words> commands;
  for (const std::string& value : values) commands.push_back({"ECHO", value});
  const auto replies = connection->Pipeline(commands, kGuardMs);
  ASSERT_TRUE(replies.ok()) << replies.error().message();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE((*replies)[i].text == values[i]) << i;
}

TEST(Connection, PipelinesKeepTheirOrder) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::vector<std::string> texts;
  for (int i = 0; i < 5'000; ++i) texts.push_back(std::to_string(i));
  std::vector<Words> commands;
  for (const std::string& text : texts) commands.push_back({"ECHO", text});
  const auto replies = connection->Pipeline(commands, kGuardMs);
  ASSERT_TRUE(replies.ok());
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ((*replies)[i].text, texts[i]);
  EXPECT_TRUE(connection->Pipeline({}, kGuardMs)->empty());
}

TEST(Connection, PipelinesFailAsAWhole) {
  ScriptedServer server([](Peer& peer, int) {
    if (peer.Greet() && peer.Read()) peer.Write("+OK\r\n");
  });
  auto connection = Connection::Create(To(server));
  const std::vector<Words> commands(3, Words{"PING"});
  const auto replies = connection->Pipeline(commands, kGuardMs);
  ASSERT_FALSE(replies.ok());
  EXPECT_EQ(replies.error().code(), ErrorCode::kUnreachable);
  EXPECT_EQ(connection->pending(), 0u);
}

TEST(Connection, ManyThreadsEachGetTheirOwnReplies) {
  constexpr int kThreads = 8, kCalls = 1'000;
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        std::string text = std::to_string(thread) + ":" + std::to_string(i);
        if (i % 97 == 0) text.resize(50'000, 'x');
        const auto reply = Call(*connection, {"ECHO", text});
        if (reply.ok() && reply->text == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kCalls);
  EXPECT_EQ(connection->epoch(), 1u);
}

// Threads with all kinds of calls while the server cuts the connection again and again: each call ends, each with its
// own reply or an error.
TEST(Connection, ManyThreadsOverLinksThatBreak) {
  ScriptedServer server([](Peer& peer, int number) {
    for (int left = 5 + number % 50; left > 0; --left) {
      const auto command = peer.Read();
      if (!command) return;
      if (!peer.Write(command->front() == "HELLO" ? std::string(kHelloReply) : BulkOf(command->at(1)))) return;
    }
  });
  auto connection = Connection::Create(To(server));
  std::atomic<bool> stop = false;
  std::thread driver([&] {
    while (!stop) connection->Drive(5);
  });
  std::vector<std::thread> threads;
  std::atomic<int> right = 0, wrong = 0, failed = 0, async_ended = 0;
  for (int thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 200; ++i) {
        const std::string text = std::to_string(thread) + ":" + std::to_string(i) + std::string(i * 100, 'x');
        const auto count = [&right, &wrong, &failed, text](const Result<Reply>& reply) {
          ++(!reply.ok() ? failed : reply->text == text ? right : wrong);
        };
        if (thread % 2 == 0) {
          count(Call(*connection, {"ECHO", text}, i % 10 == 0 ? 1 : kGuardMs));
        } else {
          connection->CallAsync(Words{"ECHO", text}, i % 10 == 0 ? 1 : kGuardMs, [&, count](Result<Reply> reply) {
            count(reply);
            ++async_ended;
          });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (async_ended < 600) std::this_thread::yield();
  stop = true;
  driver.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(right + failed, 1'200);
  EXPECT_GT(right, 0);
  EXPECT_GT(connection->epoch(), 1u);
  EXPECT_EQ(connection->pending(), 0u);
}

TEST(Connection, FuturesAreDriven) {
  constexpr int kCalls = 2'000;
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::vector<int> order;  // callbacks of one driver come one after the other
  for (int i = 0; i < kCalls; ++i) {
    const std::string text = std::to_string(i);
    connection->CallAsync(Words{"ECHO", text}, kGuardMs, [&order, i, text](Result<Reply> reply) {
      if (reply.ok() && reply->text == text) order.push_back(i);
    });
  }
  while (connection->pending() > 0) connection->Drive(5);
  ASSERT_EQ(order.size(), static_cast<size_t>(kCalls));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Callbacks run in the driver even when another thread has read their replies.
TEST(Connection, CallersAndADriverShareTheSocket) {
  ScriptedServer server(ServeAsRedis);
  auto connection = Connection::Create(To(server));
  std::atomic<bool> stop = false;
  std::atomic<int> ended = 0;
  std::thread::id driver_id;
  std::thread driver([&] {
    driver_id = std::this_thread::get_id();
    while (!stop) connection->Drive(5);
  });
  std::atomic<int> elsewhere = 0;
  for (int i = 0; i < 1'000; ++i) {
    const std::string text = std::to_string(i);
    connection->CallAsync(Words{"ECHO", text}, kGuardMs, [&](Result<Reply>) {
      if (std::this_thread::get_id() != driver_id) ++elsewhere;
      ++ended;
    });
    ASSERT_EQ(TextOf(Call(*connection, {"ECHO", text})), text);
  }
  while (ended < 1'000) std::this_thread::yield();
  stop = true;
  driver.join();
  EXPECT_EQ(elsewhere, 0);
}

TEST(Connection, FuturesHaveDeadlines) {
  ScriptedServer server([](Peer& peer, int) {
    if (!peer.Greet() || !peer.Read() || !peer.Write("+PONG\r\n")) return;
    while (peer.Read()) {
    }
  });
  auto connection = Connection::Create(To(server));
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  int over = 0;
  for (int i = 0; i < 100; ++i) {
    connection->CallAsync(Words{"GET", "k"}, i % 2 == 0 ? 10 : 30, [&](Result<Reply> reply) {
      if (CodeOf(reply) == ErrorCode::kDeadline) ++over;
    });
  }
  while (over < 100) connection->Drive(5);
  // Of a peer that cannot be reached as well.
  ConnectionOptions nowhere;
  nowhere.unix_socket = ScriptedServer::UnusedPath();
  auto lost = Connection::Create(nowhere);
  ErrorCode code = ErrorCode::kInternal;
  lost->CallAsync(Words{"PING"}, 20, [&](Result<Reply> reply) { code = CodeOf(reply); });
  while (lost->pending() > 0) lost->Drive(5);
  EXPECT_EQ(code, ErrorCode::kUnreachable);
}

TEST(Connection, BoundsWhatIsPending) {
  ScriptedServer server([](Peer& peer, int) {
    if (peer.Greet()) {
      while (peer.Read()) {
      }
    }
  });
  ConnectionOptions options = To(server);
  options.max_pending = 3;
  auto connection = Connection::Create(options);
  int shut = 0, refused = 0;
  const auto count = [&](Result<Reply> reply) { ++(CodeOf(reply) == ErrorCode::kRetry ? refused : shut); };
  for (int i = 0; i < 4; ++i) connection->CallAsync(Words{"GET", "k"}, kGuardMs, count);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kRetry);
  EXPECT_EQ(connection->Pipeline(std::vector<Words>(4, Words{"PING"}), kGuardMs).error().code(),
            ErrorCode::kTooManyOps);
  connection->Close();
  EXPECT_EQ(shut, 3);
  EXPECT_EQ(connection->pending(), 0u);
}

TEST(Connection, CloseWakesAllWaiters) {
  std::atomic<int> waiting = 0;
  ScriptedServer server([&](Peer& peer, int) {
    if (!peer.Greet()) return;
    while (peer.Read()) ++waiting;
  });
  auto connection = Connection::Create(To(server));
  std::vector<std::thread> threads;
  std::atomic<int> shut = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      if (CodeOf(Call(*connection, {"GET", "k"})) == ErrorCode::kShutdown) ++shut;
    });
  }
  threads.emplace_back([&] { connection->Drive(kGuardMs); });
  while (waiting < 4) std::this_thread::yield();
  connection->Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shut, 4);
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kShutdown);
  ErrorCode code = ErrorCode::kInternal;
  connection->CallAsync(Words{"PING"}, kGuardMs, [&](Result<Reply> reply) { code = CodeOf(reply); });
  EXPECT_EQ(code, ErrorCode::kShutdown);
}

TEST(Connection, CloseEndsAConnectThatHangs) {
  std::atomic<bool> greeted = false;
  ScriptedServer server([&](Peer& peer, int) {
    peer.Read();
    greeted = true;
    peer.Read();  // never answers HELLO
  });
  auto connection = Connection::Create(To(server));
  std::thread caller([&] { EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kShutdown); });
  while (!greeted) std::this_thread::yield();
  connection->Close();
  caller.join();
}

TEST(Connection, CallsWaitForAServerThatComesUpLate) {
  ConnectionOptions options;
  std::unique_ptr<ScriptedServer> server;
  {
    ScriptedServer gone(ServeAsRedis, ScriptedServer::Where::kUnix);
    options = To(gone);
  }
  auto connection = Connection::Create(options);
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"}, 10)), ErrorCode::kUnreachable);
  std::thread caller([&] { EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG"); });
  server = std::make_unique<ScriptedServer>(ServeAsRedis, ScriptedServer::Where::kUnix, options.unix_socket);
  caller.join();
}

TEST(Connection, AdoptedSocketIsUsedOnce) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  std::thread server([fd = fds[1]] {
    Peer peer(fd);
    if (peer.Greet() && peer.Read()) peer.Write("+PONG\r\n");
    peer.Read();
  });
  ConnectionOptions options;
  options.adopted_fd = fds[0];
  auto connection = Connection::Create(options);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kUnreachable);
  server.join();
  EXPECT_EQ(CodeOf(Call(*connection, {"PING"})), ErrorCode::kUnreachable);
  EXPECT_EQ(connection->epoch(), 1u);
}

TEST(Connection, AdoptedSocketsAreMadeAnewAsOftenAsNeeded) {
  std::vector<std::thread> servers;
  bool empty = false;
  ConnectionOptions options;
  options.backoff_first_ms = options.backoff_cap_ms = 1;
  options.adopt = [&] {
    int fds[2];
    if (std::exchange(empty, false) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) return -1;
    servers.emplace_back([fd = fds[1]] {  // answers once, then leaves
      Peer peer(fd);
      if (peer.Greet() && peer.Read()) peer.Write("+PONG\r\n");
    });
    return fds[0];
  };
  auto connection = Connection::Create(options);
  EXPECT_EQ(TextOf(Call(*connection, {"PING"})), "PONG");
  empty = true;  // for a moment there is none
  for (int calls = 0; calls < 100 && connection->epoch() < 3; ++calls) (void)Call(*connection, {"PING"});
  EXPECT_GE(connection->epoch(), 3u);
  connection.reset();
  for (std::thread& server : servers) server.join();
}

}  // namespace
}  // namespace tiercel::resp
