// Listeners, loops, roles, the end.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>

#include "server/net/dial_back.h"
#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"

namespace tiercel::net::test {
namespace {

std::unique_ptr<Users> Nobody() { return std::move(*Users::Create("", {})); }

TEST(Listeners, BothFamiliesOnOneFreePort) {  // P-10
  ServerOptions options;
  options.binds = {"127.0.0.1", "-::1"};
  auto server = Server::Create(options, {}, Nobody(), nullptr);
  ASSERT_TRUE(server.ok()) << server.error().message();
  (*server)->Start();
  ASSERT_GT((*server)->port(), 0);
  const std::string port = std::to_string((*server)->port());
  const std::vector<std::string> addresses = (*server)->addresses();
  ASSERT_GE(addresses.size(), 1u);
  EXPECT_EQ(addresses[0], "127.0.0.1:" + port);
  if (addresses.size() == 1) GTEST_SKIP() << "this machine has no IPv6";
  EXPECT_EQ(addresses[1], "[::1]:" + port);
  const int fd = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons((*server)->port());
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  RawClient client(RawClient::Adopt{fd});
  EXPECT_NE(client.Do({"CLIENT", "INFO"}).text.find("laddr=[::1]:" + port), std::string::npos);
}

TEST(Listeners, UnixSocket) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("net-test-" + std::to_string(::getpid()))).string();
  ServerOptions options;
  options.listen_tcp = false;
  options.unix_socket = path;
  options.unix_permissions = 0700;
  {
    auto server = Server::Create(options, {}, Nobody(), nullptr);
    ASSERT_TRUE(server.ok()) << server.error().message();
    (*server)->Start();
    EXPECT_EQ((*server)->addresses(), std::vector<std::string>{"unix:" + path});
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_EQ(RawClient(path).Text({"PING"}), "+PONG");
    auto second = Server::Create(options, {}, Nobody(), nullptr);
    EXPECT_FALSE(second.ok()) << "a socket that is served is not taken away";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // What a killed process left behind is in nobody's way.
  {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(fd);
  }
  auto server = Server::Create(options, {}, Nobody(), nullptr);
  EXPECT_TRUE(server.ok());
}

TEST(Listeners, APortInUseIsNamed) {
  TestServer server;
  ServerOptions options;
  options.binds = {"127.0.0.1"};
  options.port = server.server->port();
  const auto second = Server::Create(options, {}, Nobody(), nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.error().message().find(std::to_string(options.port)), std::string::npos);
  options.binds = {"no.such.host.invalid"};
  options.port = 0;
  EXPECT_FALSE(Server::Create(options, {}, Nobody(), nullptr).ok());
}

TEST(Listeners, TooManyClients) {
  TestServer::Setup setup;
  setup.server.limits.max_clients = 2;
  TestServer server(setup);
  RawClient a(server.server->port()), b(server.server->port());
  EXPECT_EQ(a.Text({"PING"}), "+PONG");
  EXPECT_EQ(b.Text({"PING"}), "+PONG");
  EXPECT_EQ(RawClient(server.server->port()).ReadAll(), "-ERR max number of clients reached\r\n");
  TestServer::End(a);
  EXPECT_EQ(RawClient(server.server->port()).Text({"PING"}), "+PONG");
  EXPECT_EQ(server.server->Figures().connections_rejected, 1u);
}

TEST(Listeners, OutOfDescriptors) {
  TestServer server;
  RawClient first(server.server->port());
  ASSERT_EQ(first.Text({"PING"}), "+PONG");
  // The clients' sockets exist beforehand: they are of this process too.
  std::vector<int> sockets;
  for (int i = 0; i < 4; ++i) sockets.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  const int highest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  none.rlim_cur = static_cast<rlim_t>(highest);  // the next free one is already too many
  ::close(highest);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.server->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  {
    ASSERT_EQ(::connect(sockets[0], reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    RawClient refused(RawClient::Adopt{sockets[0]});
    EXPECT_EQ(refused.ReadAll(), "-ERR max number of clients reached\r\n");
    EXPECT_EQ(first.Text({"PING"}), "+PONG");
    EXPECT_GE(server.server->Figures().accept_pauses, 1u);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  ASSERT_EQ(::connect(sockets[1], reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  RawClient late(RawClient::Adopt{sockets[1]});
  EXPECT_EQ(late.Text({"PING"}), "+PONG");
  ::close(sockets[2]);
  ::close(sockets[3]);
}

TEST(Roles, AStoreAnswersForItselfOnly) {
  TestServer::Setup setup;
  setup.master_role = false;
  TestServer server(setup);
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"PING"}), "+PONG");
  EXPECT_NE(client.Do({"INFO"}).text.find("redis_version"), std::string::npos);
  EXPECT_EQ(client.Text({"SELECT", "1"}), "+OK");
  for (const std::vector<std::string>& command : {std::vector<std::string>{"GET", "a"},
                                                  {"SET", "a", "b"},
                                                  {"SET", "a", std::string(100'000, 'x')},
                                                  {"DBSIZE"},
                                                  {"KEYS", "*"},
                                                  {"DEL", "a"}}) {
    EXPECT_EQ(client.Text(command), "-ERR this process has the role of a store only; this command is the master's");
  }
  EXPECT_EQ(client.Text({"TIME"}).substr(0, 1), "[");
}

TEST(Roles, AnAdoptedConnectionIsTrusted) {
  TestServer::Setup setup;
  setup.requirepass = "secret";
  TestServer server(setup);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  ::fcntl(pair[0], F_SETFL, ::fcntl(pair[0], F_GETFL) | O_NONBLOCK);
  server.server->AdoptConnection(UniqueFd(pair[0]), {});
  RawClient client(RawClient::Adopt{pair[1]});
  EXPECT_EQ(client.Text({"PING"}), "+PONG");
  // It may speak as a store, so all that is missing is a store; a user with the password may not even ask.
  const std::string not_joined = "-ERR no store has joined on this connection";
  EXPECT_EQ(client.Text({"STORE", "PING"}), not_joined);
  EXPECT_EQ(client.Text({"RESET"}), "+RESET");
  EXPECT_EQ(client.Text({"PING"}), "+PONG");
  EXPECT_EQ(client.Text({"STORE", "PING"}), not_joined);
  RawClient stranger(server.server->port());
  EXPECT_EQ(stranger.Text({"STORE", "PING"}).substr(0, 8), "-NOAUTH ");
  EXPECT_EQ(stranger.Text({"AUTH", "secret"}), "+OK");
  EXPECT_EQ(stranger.Text({"STORE", "PING"}).substr(0, 8), "-NOPERM ");
}

// It is the store's in this process, which cannot make another one.
TEST(Roles, NobodyElseEndsAnAdoptedConnection) {
  TestServer server;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  ::fcntl(pair[0], F_SETFL, ::fcntl(pair[0], F_GETFL) | O_NONBLOCK);
  server.server->AdoptConnection(UniqueFd(pair[0]), {});
  RawClient store(RawClient::Adopt{pair[1]});
  const std::string id = store.Text({"CLIENT", "ID"}).substr(1);
  {
    RawClient client(server.server->port());
    EXPECT_EQ(client.Text({"CLIENT", "KILL", "ID", id}), ":0");
    EXPECT_EQ(client.Text({"CLIENT", "KILL", "TYPE", "normal"}), ":0");
    EXPECT_EQ(client.Text({"CLIENT", "KILL", "in-process:0"}), "-ERR No such client");
    RawClient other(server.server->port());
    EXPECT_EQ(other.Text({"PING"}), "+PONG");
    EXPECT_EQ(client.Text({"CLIENT", "KILL", "USER", "default"}), ":1") << "clients still end each other";
    EXPECT_EQ(store.Text({"PING"}), "+PONG");
  }
  // Nor does it hold up the end of the server, before which the store takes its leave over it.
  server.server->Drain(60'000);
  EXPECT_EQ(store.Text({"PING"}), "+PONG");
}

class Config final : public ConfigPort {
 public:
  std::vector<Row> Get(std::string_view pattern) const override {
    if (pattern == "databases") return {{"databases", "16"}};
    if (pattern == "sav*") return {{"save", ""}, {"databases", "16"}};
    return {};
  }
  Status Set(std::span<const Row> changes) override {
    for (const Row& row : changes) {
      if (row.first != "timeout") {
        return Error(ErrorCode::kInvalid, "Unknown option or number of arguments for CONFIG SET - '" + row.first + "'");
      }
    }
    set = changes[0].second;
    return Ok();
  }
  std::string set;
};
class Process final : public ProcessPort {
 public:
  void Shutdown() override { asked = true; }
  Status StartSave() override {
    if (now.running) return Error(ErrorCode::kRetry, "Background save already in progress");
    now.running = true;
    return Ok();
  }
  Saves saves() const override { return now; }
  Saves now{};
  std::atomic<bool> asked{false};
};

TEST(Ports, SavingBeginsInTheBackgroundAndIsReported) {
  Process process;
  TestServer::Setup setup;
  setup.process = &process;
  TestServer server(setup);
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"LASTSAVE"}), ":0");
  EXPECT_EQ(client.Text({"BGSAVE", "NONSENSE"}), "-ERR syntax error");
  EXPECT_EQ(client.Text({"BGSAVE"}), "+Background saving started");
  EXPECT_THAT(client.Text({"BGSAVE", "SCHEDULE"}), testing::HasSubstr("already in progress"));
  EXPECT_THAT(client.Text({"INFO", "persistence"}), testing::HasSubstr("rdb_bgsave_in_progress:1"));
  process.now = {.running = false, .last_wall_ms = 1'700'000'000'500, .last_failed = false};
  EXPECT_EQ(client.Text({"LASTSAVE"}), ":1700000000");
  EXPECT_THAT(client.Text({"INFO", "persistence"}), testing::HasSubstr("rdb_last_save_time:1700000000"));
}

TEST(Ports, ConfigAndShutdown) {
  Config config;
  Process process;
  TestServer::Setup setup;
  setup.config = &config;
  setup.process = &process;
  TestServer server(setup);
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"CONFIG", "GET", "databases"}), "[\"databases\" \"16\"]");
  EXPECT_EQ(client.Text({"CONFIG", "GET", "DATABASES", "databases", "sav*"}), "[\"databases\" \"16\" \"save\" \"\"]");
  EXPECT_EQ(client.Text({"CONFIG", "SET", "timeout", "5"}), "+OK");
  EXPECT_EQ(config.set, "5");
  EXPECT_EQ(client.Text({"CONFIG", "SET", "timeout", "5", "x", "1"}),
            "-ERR Unknown option or number of arguments for CONFIG SET - 'x'");
  EXPECT_EQ(client.Text({"CONFIG", "SET", "timeout", "5", "TIMEOUT", "6"}),
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter");
  EXPECT_EQ(client.Text({"SHUTDOWN", "FOO"}), "-ERR syntax error");
  client.Send({"SHUTDOWN", "NOSAVE"});
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(process.asked);
}

TEST(End, DrainFinishesWhatIsUnderWay) {
  TestServer server;
  const std::string value = Pattern(4 << 20, 1);
  RawClient writer(server.server->port()), idle(server.server->port());
  ASSERT_EQ(idle.Text({"PING"}), "+PONG");
  const std::string command = RawClient::Encode({"SET", "k", value});
  writer.SendRaw(std::string_view(command).substr(0, 1 << 20));
  server.PassLoops();
  ASSERT_EQ(server.host.With([](core::Master& m, Times) { return m.open_puts(); }), 1u);
  auto drained = std::async(std::launch::async, [&] { server.server->Drain(30'000); });
  while (idle.Text({"SET", "new", "x"}) == "+OK") ::poll(nullptr, 0, 1);
  EXPECT_EQ(idle.Text({"SET", "new", "x"}).substr(0, 13), "-UNREACHABLE ");
  EXPECT_EQ(idle.Text({"SET", "new", value}).substr(0, 13), "-UNREACHABLE ");
  writer.SendRaw(std::string_view(command).substr(1 << 20));
  // The value was begun in time, so it is kept; its command came too late to be told apart from a new one.
  const std::string answer = RawClient::Show(writer.Read());
  EXPECT_TRUE(answer == "+OK" || answer.substr(0, 13) == "-UNREACHABLE ") << answer;
  EXPECT_TRUE(idle.AtEnd());
  EXPECT_TRUE(writer.AtEnd());
  drained.get();
  server.server->Stop();
  server.server->Stop();
}

TEST(End, DrainKeepsTheStoreOfThisProcess) {
  TestServer server;
  RawClient client(server.server->port());
  ASSERT_EQ(client.Text({"PING"}), "+PONG");
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  ::fcntl(pair[0], F_SETFL, ::fcntl(pair[0], F_GETFL) | O_NONBLOCK);
  server.server->AdoptConnection(UniqueFd(pair[0]), {});
  RawClient store(RawClient::Adopt{pair[1]});
  ASSERT_EQ(store.Text({"PING"}), "+PONG");
  server.server->Drain(30'000);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(store.Text({"PING"}), "+PONG");
  server.server->Stop();
  EXPECT_TRUE(store.AtEnd());
}

TEST(End, StopInTheMiddleOfEverything) {
  for (const bool local : {true, false}) {
    TestServer::Setup setup;
    setup.local_bytes = local ? 64 << 20 : 0;
    setup.remote_bytes = local ? 0 : 64 << 20;
    setup.server.io_threads = 2;
    TestServer server(setup);
    const std::string value = Pattern(8 << 20, 1);
    RawClient reader(server.server->port()), writer(server.server->port()), waiter(server.server->port());
    ASSERT_EQ(reader.Text({"SET", "v", value}), "+OK");
    server.payload.HoldTransfers(true);
    reader.SendRaw("GET v\r\n");
    const std::string command = RawClient::Encode({"SET", "k", value});
    writer.SendRaw(std::string_view(command).substr(0, 3 << 20));
    server.PassLoops();
    ASSERT_EQ(server.host.With([](core::Master& m, Times) { return m.open_puts(); }), 1u);
    waiter.Send({"SET", "k", "x"});
    server.host.AwaitParked(WakeReason::kPutEnded, 1);
    server.server->Stop();
    server.payload.HoldTransfers(false);
  }
}

TEST(DialBackTest, ReachesOrSaysWhatItTried) {
  TestServer server;
  Loop loop("dial");
  loop.Start();
  const auto dial = [&](const std::string& address, int64_t timeout_ms) {
    std::promise<Status> done;
    std::unique_ptr<DialBack> dialing;
    loop.Post([&] {
      dialing = DialBack::Start(loop, address, timeout_ms, [&](Status status) { done.set_value(std::move(status)); });
    });
    const Status status = done.get_future().get();
    std::promise<void> gone;
    loop.Post([&] {
      dialing.reset();
      gone.set_value();
    });
    gone.get_future().get();
    return status;
  };
  const std::string port = std::to_string(server.server->port());
  EXPECT_TRUE(dial("127.0.0.1:" + port, 5'000).ok());
  EXPECT_TRUE(dial("localhost:" + port, 5'000).ok());
  const Status refused = dial("127.0.0.1:1", 5'000);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("127.0.0.1:1"), std::string::npos);
  for (const char* bad : {"", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:70000", "::1:80", "[::1:80", "a:b"}) {
    EXPECT_FALSE(dial(bad, 1'000).ok()) << bad;
  }
  loop.Stop();
}

TEST(Interop, Hiredis) {
  TestServer server;
  redisContext* context = redisConnect("127.0.0.1", server.server->port());
  ASSERT_NE(context, nullptr);
  ASSERT_EQ(context->err, 0);
  const std::string value = Pattern(8 << 20, 1);
  auto* reply = static_cast<redisReply*>(redisCommand(context, "SET %s %b", "k", value.data(), value.size()));
  ASSERT_NE(reply, nullptr);
  EXPECT_STREQ(reply->str, "OK");
  freeReplyObject(reply);
  reply = static_cast<redisReply*>(redisCommand(context, "GET k"));
  ASSERT_NE(reply, nullptr);
  EXPECT_TRUE(std::string_view(reply->str, reply->len) == value);
  freeReplyObject(reply);
  for (int i = 0; i < 100; ++i) redisAppendCommand(context, "SET p%d %d", i, i);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(redisGetReply(context, reinterpret_cast<void**>(&reply)), REDIS_OK);
    EXPECT_EQ(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
  }
  redisFree(context);
}

}  // namespace
}  // namespace tiercel::net::test
