// The same commands to this server and to a real redis-server 7.0: the same replies, byte for byte.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"

extern char** environ;

namespace tiercel::net::test {
namespace {

// A redis-server on a free port, ended with the object. Absent: tests are skipped by name.
class RealRedis {
 public:
  RealRedis() {
    for (int attempt = 0; attempt < 5 && !Answers(); ++attempt) Start();
  }
  ~RealRedis() { Stop(); }
  bool available() const { return pid_ > 0; }
  uint16_t port() const { return port_; }

 private:
  void Start() {
    Stop();
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    ::bind(probe, reinterpret_cast<sockaddr*>(&address), length);
    ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    ::close(probe);
    std::string port = std::to_string(port_);
    std::vector<std::string> words = {"redis-server", "--port", port,          "--bind", "127.0.0.1", "--save",   "",
                                      "--appendonly", "no",     "--daemonize", "no",     "--logfile", "/dev/null"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    if (::posix_spawnp(&pid_, "redis-server", nullptr, nullptr, argv.data(), environ) != 0) pid_ = -1;
  }
  bool Answers() {
    if (pid_ <= 0) return false;
    for (int i = 0; i < 200; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port_);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const bool up = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
      ::close(fd);
      if (up) return true;
      int status;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return false;
      }
      ::poll(nullptr, 0, 25);
    }
    return false;
  }
  void Stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    int status;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
  }
  pid_t pid_ = -1;
  uint16_t port_ = 0;
};

class RedisCompare : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { redis_ = new RealRedis(); }
  static void TearDownTestSuite() { delete std::exchange(redis_, nullptr); }
  void SetUp() override {
    if (!redis_->available()) GTEST_SKIP() << "redis-server is not installed";
  }
  static RealRedis* redis_;
};
RealRedis* RedisCompare::redis_ = nullptr;

using Words = std::vector<std::string>;

const std::vector<Words> kCommands = {
    {"PING"},
    {"PING", "x"},
    {"ping", "a", "b"},
    {"ECHO", "hello"},
    {"ECHO"},
    {"ECHO", "a", "b"},
    {"NOSUCH"},
    {"NOSUCH", "a", "b\r\nc"},
    {"nosuch", std::string(300, 'q'), "z"},
    {"GET"},
    {"GET", "a", "b"},
    {""},
    // SET and its options
    {"SET", "k", "v"},
    {"GET", "k"},
    {"SET", "k"},
    {"SET", "k", "v", "NX"},
    {"SET", "new", "v", "NX"},
    {"SET", "k", "v2", "XX"},
    {"GET", "k"},
    {"SET", "none", "v", "XX"},
    {"GET", "none"},
    {"SET", "k", "v3", "NX", "XX"},
    {"SET", "k", "v3", "BAD"},
    {"SET", "k", "v3", "EX"},
    {"SET", "k", "v3", "EX", "0"},
    {"SET", "k", "v3", "EX", "-1"},
    {"SET", "k", "v3", "EX", "abc"},
    {"SET", "k", "v3", "EX", "9223372036854775807"},
    {"SET", "k", "v3", "PX", "0"},
    {"SET", "k", "v3", "PX", "9223372036854775807"},
    {"SET", "k", "v3", "EX", "10", "PX", "10"},
    {"SET", "k", "v3", "EX", "10", "KEEPTTL"},
    {"SET", "k", "v3", "KEEPTTL", "EX", "10"},
    {"SET", "k", "v3", "EXAT", "0"},
    {"SET", "k", "v3", "EXAT", "1"},
    {"GET", "k"},
    {"SET", "k", "v4", "EX", "100"},
    {"TTL", "k"},
    {"SET", "k", "v5", "KEEPTTL"},
    {"TTL", "k"},
    {"SET", "k", "v6"},
    {"TTL", "k"},
    {"SET", "k", "v7", "GET"},
    {"SET", "absent", "v", "GET"},
    {"SET", "k", "v8", "NX", "GET"},
    {"SET", "absent2", "v8", "nx", "get"},
    {"SET", "k", "v9", "XX", "GET"},
    {"SET", "absent3", "v8", "XX", "GET"},
    {"EXISTS", "absent3"},
    {"SET", "k", "v3", "get", "ex", "77", "xx"},
    {"TTL", "k"},
    {"SET", "k", "v3", "PXAT", "-5"},
    {"SET", "k", "v", "EX", "1", "EX", "2"},
    {"SET", "k", "v", "EX", "abc", "BAD"},
    {"SETNX", "k", "x"},
    {"SETNX", "nx1", "x"},
    {"SETNX", "nx1"},
    {"SETEX", "k", "10", "v"},
    {"TTL", "k"},
    {"SETEX", "k", "0", "v"},
    {"SETEX", "k", "-1", "v"},
    {"SETEX", "k", "x", "v"},
    {"PSETEX", "k", "0", "v"},
    {"PSETEX", "k", "100000", "v"},
    {"GETSET", "k", "w"},
    {"TTL", "k"},
    {"GETSET", "gs", "w"},
    {"GET", "gs"},
    {"GETDEL", "gs"},
    {"GETDEL", "gs"},
    {"GET", "gs"},
    {"STRLEN", "k"},
    {"STRLEN", "none"},
    {"SET", "r", "Hello World"},
    {"GETRANGE", "r", "0", "4"},
    {"GETRANGE", "r", "-5", "-1"},
    {"GETRANGE", "r", "0", "-1"},
    {"GETRANGE", "r", "5", "3"},
    {"GETRANGE", "r", "-1", "-5"},
    {"GETRANGE", "r", "100", "200"},
    {"GETRANGE", "r", "-100", "3"},
    {"GETRANGE", "r", "-100", "-50"},
    {"GETRANGE", "r", "a", "b"},
    {"GETRANGE", "none", "0", "1"},
    {"SUBSTR", "r", "1", "2"},
    {"GETRANGE", "r", "9223372036854775807", "1"},
    {"GETRANGE", "r", "0", "9223372036854775807"},
    {"GETRANGE", "r", "-9223372036854775808", "2"},
    {"SET", "empty", ""},
    {"GET", "empty"},
    {"STRLEN", "empty"},
    {"EXISTS", "empty"},
    {"GETRANGE", "empty", "0", "5"},
    {"MSET", "a", "1", "b", "2"},
    {"MGET", "a", "none", "b"},
    {"MSET", "a", "1", "b"},
    {"MSET", "a", "1", "a", "2"},
    {"GET", "a"},
    {"MGET"},
    {"MSET"},
    {"EXISTS", "a", "a", "none", "b"},
    {"TOUCH", "a", "none"},
    {"DEL", "a", "a", "none"},
    {"UNLINK", "b", "none"},
    {"DEL"},
    {"EXISTS"},
    // Time to live
    {"SET", "t", "v"},
    {"TTL", "t"},
    {"PTTL", "t"},
    {"TTL", "none"},
    {"PTTL", "none"},
    {"EXPIRETIME", "t"},
    {"PEXPIRETIME", "none"},
    {"EXPIRE", "t", "100"},
    {"TTL", "t"},
    {"EXPIRE", "t", "200", "NX"},
    {"EXPIRE", "t", "200", "XX"},
    {"TTL", "t"},
    {"EXPIRE", "t", "50", "GT"},
    {"EXPIRE", "t", "50", "LT"},
    {"EXPIRE", "t", "10", "NX", "XX"},
    {"EXPIRE", "t", "10", "GT", "LT"},
    {"EXPIRE", "t", "10", "NX", "GT"},
    {"EXPIRE", "t", "10", "FOO"},
    {"EXPIRE", "t", "abc"},
    {"EXPIRE", "t", "9223372036854775807"},
    {"PEXPIRE", "t", "9223372036854775807"},
    {"EXPIREAT", "t", "9223372036854775807"},
    {"EXPIRE", "t", "-9223372036854775808"},
    {"EXPIREAT", "t", "4102444800"},
    {"EXPIRETIME", "t"},
    {"PEXPIREAT", "t", "4102444800123"},
    {"PEXPIRETIME", "t"},
    {"EXPIRETIME", "t"},
    {"PERSIST", "t"},
    {"PERSIST", "t"},
    {"PERSIST", "none"},
    {"EXPIRE", "none", "10"},
    {"EXPIRE", "t", "100", "GT"},
    {"TTL", "t"},
    {"EXPIRE", "t", "100", "LT"},
    {"TTL", "t"},
    {"EXPIRE", "t", "-1"},
    {"EXISTS", "t"},
    {"EXPIRE", "t"},
    // Any key
    {"TYPE", "k"},
    {"TYPE", "none"},
    {"SET", "n", "12345"},
    {"OBJECT", "ENCODING", "n"},
    {"OBJECT", "ENCODING", "r"},
    {"OBJECT", "ENCODING", "none"},
    {"OBJECT", "FREQ", "none"},
    {"OBJECT", "REFCOUNT", "r"},
    {"OBJECT", "IDLETIME", "r"},
    {"OBJECT", "NOSUCH", "r"},
    {"OBJECT"},
    {"OBJECT", "ENCODING"},
    {"SET", "long", std::string(100, 'x')},
    {"OBJECT", "ENCODING", "long"},
    {"MEMORY", "USAGE", "none"},
    {"MEMORY", "USAGE"},
    {"MEMORY", "USAGE", "r", "SAMPLES"},
    {"MEMORY", "NOSUCH"},
    // Key space
    {"FLUSHDB"},
    {"DBSIZE"},
    {"RANDOMKEY"},
    {"KEYS", "*"},
    {"SET", "only", "1"},
    {"KEYS", "o*"},
    {"KEYS", "x*"},
    {"RANDOMKEY"},
    {"DBSIZE"},
    {"SCAN", "0"},
    {"SCAN", "abc"},

    {"SCAN", "0", "COUNT", "0"},
    {"SCAN", "0", "COUNT", "x"},
    {"SCAN", "0", "COUNT"},
    {"SCAN", "0", "MATCH", "z*"},
    {"SCAN", "0", "TYPE", "string"},
    {"SCAN", "0", "TYPE", "list"},
    {"SCAN", "0", "FOO", "1"},
    {"SCAN"},
    {"FLUSHALL", "ASYNC"},
    {"FLUSHDB", "x"},
    {"FLUSHALL", "SYNC"},
    {"FLUSHALL", "a", "b"},
    // Connection
    {"SELECT", "1"},
    {"SET", "in1", "x"},
    {"SELECT", "0"},
    {"GET", "in1"},
    {"SELECT", "16"},
    {"SELECT", "-1"},
    {"SELECT", "x"},
    {"SELECT", "99999999999"},
    {"SELECT"},
    {"CLIENT", "GETNAME"},
    {"CLIENT", "SETNAME", "me"},
    {"CLIENT", "GETNAME"},
    {"CLIENT", "SETNAME", "a b"},
    {"CLIENT", "SETNAME"},
    {"CLIENT", "NOSUCH"},
    {"CLIENT"},
    {"CLIENT", "KILL", "1.2.3.4:5"},
    {"CLIENT", "KILL", "ID", "0"},
    {"CLIENT", "KILL", "ID", "999999"},
    {"CLIENT", "KILL", "TYPE", "foo"},
    {"CLIENT", "KILL", "USER", "nobody"},
    {"CLIENT", "KILL", "SKIPME", "maybe"},
    {"CLIENT", "LIST", "TYPE", "foo"},
    {"CLIENT", "LIST", "TYPE", "pubsub"},
    {"CLIENT", "LIST", "ID", "x"},
    {"CLIENT", "LIST", "FOO"},
    {"CLIENT", "REPLY", "FOO"},
    {"CLIENT", "NO-EVICT", "ON"},
    {"CLIENT", "NO-EVICT", "x"},
    {"CLIENT", "MAINT_NOTIFICATIONS", "ON"},
    {"AUTH", "x"},
    {"AUTH", "a", "b"},
    {"AUTH", "default", "anything"},
    {"AUTH", "a", "b", "c"},
    {"AUTH"},
    {"HELLO", "x"},
    {"HELLO", "4"},
    {"HELLO", "2", "FOO"},
    {"HELLO", "2", "AUTH", "a"},
    {"HELLO", "2", "AUTH", "a", "b"},
    {"HELLO", "2", "SETNAME", "a b"},
    {"HELLO", "2", "SETNAME"},
    {"CLUSTER", "INFO"},
    {"COMMAND", "INFO", "nosuch"},
    {"COMMAND", "GETKEYS", "GET", "a"},
    {"COMMAND", "GETKEYS", "MSET", "a", "1", "b", "2"},
    {"COMMAND", "GETKEYS", "PING", "x"},
    {"COMMAND", "GETKEYS", "nosuch", "x"},
    {"COMMAND", "GETKEYS", "GET", "a", "b"},
    {"COMMAND", "DOCS", "nosuch"},
    {"COMMAND", "NOSUCH"},
    {"COMMAND", "LIST", "FOO"},
    {"COMMAND", "LIST", "FILTERBY", "MODULE", "x"},
    {"CONFIG"},
    {"CONFIG", "GET"},
    {"CONFIG", "NOSUCH"},
    {"CONFIG", "GET", "no-such-thing"},
    {"CONFIG", "SET", "nosuch", "1"},
    {"CONFIG", "RESETSTAT"},
    {"CONFIG", "SET", "a"},
    {"INFO", "nosuchsection"},
    {"RESET"},
    {"CLIENT", "GETNAME"},
};

std::string Join(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word.substr(0, 40);
  return out;
}

void CompareAll(uint16_t ours, uint16_t theirs, bool resp3) {
  RawClient a(ours), b(theirs);
  b.Do({"FLUSHALL"});
  if (resp3) {
    a.Do({"HELLO", "3"});
    b.Do({"HELLO", "3"});
  }
  for (const Words& command : kCommands) {
    EXPECT_EQ(a.Text(command), b.Text(command)) << Join(command);
    if (resp3 && command[0] == "RESET") {
      a.Do({"HELLO", "3"});
      b.Do({"HELLO", "3"});
    }
  }
}

TEST_F(RedisCompare, RepliesInResp2) {
  TestServer server;
  CompareAll(server.server->port(), redis_->port(), false);
}

TEST_F(RedisCompare, RepliesInResp3) {
  TestServer server;
  CompareAll(server.server->port(), redis_->port(), true);
}

// Bytes as they are, ends of connections included.
TEST_F(RedisCompare, MalformedInput) {
  const std::vector<std::string> inputs = {
      "PING\r\n",
      "PING\n",
      "\r\n\r\n\nPING\r\n",
      "*0\r\nPING\r\n",
      "*-1\r\n*-10\r\nPING\r\n",
      "*abc\r\nPING\r\n",
      "*2147483648\r\n",
      "*1\r\n$-10\r\n",
      "*1\r\n$blabla\r\n",
      "*1\r\n$2000000000\r\n",
      "*3\r\n$3\r\nSET\r\nfooz\r\n",
      "*1\r\nfoo\r\n",
      "*1\r\n\r\n",
      "SET a \"x\\x41\\n\"\r\nGET a\r\n",
      "SET a 'it\\'s'\r\nGET a\r\n",
      "SET a \"x\r\n",
      "SET a \"x\"y\r\n",
      "SET a 'x'y\r\n",
      "PING\r\n*x\r\nPING\r\n",
      "*1\r\n$4\r\nPING\r\nQUIT\r\nPING\r\n",
      "*1\r\n$0\r\n\r\nPING\r\n",
      "  PING   \r\n",
      "POST / HTTP/1.1\r\nHost: x\r\n\r\n",
  };
  TestServer server;
  for (const std::string& input : inputs) {
    for (const bool bytewise : {false, true}) {
      if (bytewise && input.size() > 1000) continue;
      std::string answers[2];
      for (const int side : {0, 1}) {
        RawClient client(side == 0 ? server.server->port() : redis_->port());
        if (bytewise) {
          for (const char c : input) {
            if (!client.SendRaw({&c, 1})) break;
          }
        } else {
          client.SendRaw(input);
        }
        // Redis drops a connection at its end of file; so the end is asked for by QUIT.
        client.SendRaw("\r\nQUIT\r\n");
        answers[side] = client.ReadAll();
      }
      EXPECT_EQ(answers[0], answers[1]) << input.substr(0, 60) << (bytewise ? " byte by byte" : "");
    }
  }
}

// What the decoder answers before a login, and how many arguments it takes.
TEST_F(RedisCompare, ProbesOfTools) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  for (const Words& command : {Words{"CONFIG", "GET", "save"}, Words{"CONFIG", "GET", "appendonly"}}) {
    EXPECT_EQ(ours.Text(command), redis.Text(command));
  }
  const resp::Reply hello = ours.Do({"HELLO", "3", "SETNAME", "c1"}),
                    theirs = redis.Do({"HELLO", "3", "SETNAME", "c1"});
  ASSERT_EQ(hello.items.size(), theirs.items.size());
  for (size_t i = 0; i < hello.items.size(); i += 2) EXPECT_EQ(hello.items[i].text, theirs.items[i].text);
  EXPECT_EQ(hello.Field("proto")->integer, 3);
  EXPECT_EQ(ours.Text({"CLIENT", "GETNAME"}), redis.Text({"CLIENT", "GETNAME"}));
  const std::string list = ours.Do({"CLIENT", "LIST"}).text, redis_list = redis.Do({"CLIENT", "LIST"}).text;
  // Every field that Redis shows stands here too.
  for (size_t at = 0; at < redis_list.size();) {
    const size_t equals = redis_list.find('=', at);
    if (equals == std::string::npos || redis_list.find('\n', at) < equals) break;
    EXPECT_NE(list.find(redis_list.substr(at, equals - at + 1)), std::string::npos) << redis_list.substr(at, 20);
    at = redis_list.find(' ', equals) + 1;
    if (at == 0) break;
  }
  for (const char* name : {"get", "set", "mget", "del", "client", "config"}) {
    const resp::Reply a = ours.Do({"COMMAND", "INFO", name}), b = redis.Do({"COMMAND", "INFO", name});
    ASSERT_EQ(a.items.size(), 1u);
    ASSERT_EQ(a.items[0].items.size(), b.items[0].items.size()) << name;
    for (const size_t i : {0u, 1u, 3u, 4u, 5u}) {
      EXPECT_EQ(RawClient::Show(a.items[0].items[i]), RawClient::Show(b.items[0].items[i])) << name;
    }
  }
}

}  // namespace
}  // namespace tiercel::net::test
