// The same commands to this server and to a real redis-server 7.0: the same replies, byte for byte.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <map>

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
    {"SET", "k", "v", "KEEPTTL", "KEEPTTL"},
    {"SET", "k", "v", "GET", "GET", "XX"},
    {"SET", "k", "v", "NX", "NX"},
    {"SET", "k", "v", "XX", "XX", "GET"},
    {"SET", "k", "v", "XX", "KEEPTTL", "GET"},
    {"SET", "k", "v", "PX", "1.5"},
    {"SET", "k", "v", "EX", ""},
    {"SET", "k", "v", "EX", " 1"},
    {"SET", "k", "v", "EX", "1 "},
    {"SET", "k", "v", "EX", "+1"},
    {"SET", "k", "v", "EX", "01"},
    {"SET", "k", "v", "EX", "9223372036854775808"},
    {"SET", "k", "v", "EXAT", "9223372036854775807"},
    {"SET", "k", "v", "EX", "9223372036854775"},
    {"SET", "k", "v", "PXAT", "9223372036854775807"},
    {"PEXPIRETIME", "k"},
    {"SET", "k", "v", "PX"},
    {"SET", "k", "v", "EX", "10", "EX"},
    {"SET", "k", "v", "EX", "10", "NX"},
    {"SET", "k", "v", "PX", "100000", "XX"},
    {"SET", "absent4", "v", "EX", "100", "NX"},
    {"TTL", "absent4"},
    {"SET", "absent4", "w", "EX", "0", "NX"},
    {"SET", "absent4", "w", "NX", "GET", "EX", "10"},
    {"TTL", "absent4"},
    {"SET", "absent4", "w", "XX", "PXAT", "4102444800123"},
    {"PEXPIRETIME", "absent4"},
    {"SET", "absent4", "x", "EXAT", "4102444800", "GET"},
    {"EXPIRETIME", "absent4"},
    {"SET", "absent4", "x", "EXAT", "1", "GET"},
    {"EXISTS", "absent4"},
    {"SET", "absent4", "x", "GET", "EXAT", "1"},
    {"SETEX", "k", "10"},
    {"SETEX", "k", "9223372036854775807", "v"},
    {"PSETEX", "k", "9223372036854775807", "v"},
    {"GETSET", "k"},
    {"GETDEL", "k", "x"},
    {"STRLEN"},
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
    {"GETRANGE", "r", "0", "-9223372036854775808"},
    {"GETRANGE", "r", "-9223372036854775808", "-9223372036854775808"},
    {"GETRANGE", "r", "9223372036854775808", "1"},
    {"GETRANGE", "r", "-1", "-1"},
    {"GETRANGE", "r", "-1", "0"},
    {"GETRANGE", "r", "-3", "-2"},
    {"GETRANGE", "r", "-2", "-3"},
    {"GETRANGE", "r", "10", "10"},
    {"GETRANGE", "r", "11", "11"},
    {"GETRANGE", "r", "0", "-11"},
    {"GETRANGE", "r", "0", "-12"},
    {"GETRANGE", "r", "-12", "-11"},
    {"GETRANGE", "r", "3", "-3"},
    {"GETRANGE", "r", "1.0", "2"},
    {"GETRANGE", "r", "0"},
    {"GETRANGE", "none", "x", "1"},
    {"GETRANGE", "empty2", "-1", "-1"},
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
    // Conditions: alone, together, on keys with and without a time to live.
    {"SET", "c", "v"},
    {"EXPIRE", "c", "100", "XX"},
    {"EXPIRE", "c", "100", "GT"},
    {"TTL", "c"},
    {"EXPIRE", "c", "100", "LT"},
    {"TTL", "c"},
    {"EXPIRE", "c", "100", "NX"},
    {"EXPIRE", "c", "200", "GT"},
    {"TTL", "c"},
    {"EXPIRE", "c", "100", "GT"},
    {"EXPIRE", "c", "300", "LT"},
    {"EXPIRE", "c", "300", "XX", "GT"},
    {"TTL", "c"},
    {"EXPIRE", "c", "50", "LT", "XX"},
    {"TTL", "c"},
    {"PERSIST", "c"},
    {"EXPIRE", "c", "50", "LT", "XX"},
    {"EXPIRE", "c", "50", "XX", "GT"},
    {"EXPIRE", "c", "70", "NX", "NX"},
    {"EXPIRE", "c", "80", "gt", "GT"},
    {"TTL", "c"},
    {"EXPIRE", "c", "10", "NX", "LT"},
    {"EXPIRE", "c", "10", "LT", "GT"},
    {"EXPIRE", "c", "10", "XX", "NX", "FOO"},
    {"EXPIRE", "c", "10", "FOO", "NX", "XX"},
    {"EXPIRE", "c", "x", "NX", "XX"},
    {"EXPIRE", "c", "1.5"},
    {"EXPIRE", "c", ""},
    {"EXPIRE", "none", "x"},
    {"EXPIRE", "none", "10", "FOO"},
    {"EXPIRE", "none", "-1"},
    {"PEXPIREAT", "c", "4102444800123", "GT"},
    {"PEXPIRETIME", "c"},
    {"PEXPIREAT", "c", "4102444800123", "GT"},
    {"PEXPIREAT", "c", "4102444800122", "LT"},
    {"EXPIREAT", "c", "4102444801", "GT"},
    {"EXPIRETIME", "c"},
    {"EXPIREAT", "c", "-5", "GT"},
    {"EXPIREAT", "c", "-5", "LT"},
    {"EXISTS", "c"},
    {"SET", "c", "v"},
    {"EXPIRE", "c", "-1", "XX"},
    {"EXPIRE", "c", "0", "NX"},
    {"EXISTS", "c"},
    {"PERSIST"},
    {"TTL"},
    {"EXPIRETIME", "none"},
    {"PTTL", "a", "b"},
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
    {"SCAN", "0", "TYPE", "STRING"},
    {"SCAN", "0", "TYPE", "nosuchtype"},
    {"SCAN", "0", "MATCH", "o*", "COUNT", "5", "TYPE", "string"},
    {"SCAN", "0", "type", "string", "match", "?nly", "count", "100"},
    {"SCAN", "0", "MATCH", "x*", "MATCH", "on[l-m]y"},
    {"SCAN", "0", "MATCH", "on[^l]y"},
    {"SCAN", "0", "MATCH", "\\only"},
    {"SCAN", "0", "MATCH", ""},
    {"SCAN", "0", "MATCH"},
    {"SCAN", "0", "TYPE"},
    {"SCAN", "0", "COUNT", "-1"},
    {"SCAN", "0", "COUNT", "1", "COUNT", "0"},
    {"SCAN", "0", "COUNT", "9223372036854775807"},
    {"SCAN", "0", "COUNT", "9223372036854775808"},
    {"SCAN", "0", "COUNT", "10", "FOO"},
    {"SCAN", "18446744073709551616"},
    {"SCAN", "0x1"},
    {"SCAN", " 1"},
    {"SCAN", "1 "},
    {"SCAN", ""},
    {"SCAN", "abc", "COUNT", "x"},
    {"KEYS", ""},
    {"KEYS", "[n-p]nly"},
    {"KEYS", "[^o]nly"},
    {"KEYS", "o\\nly"},
    {"KEYS", "only*"},
    {"KEYS", "?nl?"},
    {"KEYS"},
    {"KEYS", "a", "b"},
    {"RANDOMKEY", "x"},
    {"DBSIZE", "x"},
    {"TYPE", "a", "b"},
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
    {"CLIENT", "KILL", "ID", "1", "SKIPME"},
    {"CLIENT", "KILL", "ID", "x"},
    {"CLIENT", "KILL", "ID", "-1"},
    {"CLIENT", "KILL", "ADDR"},
    {"CLIENT", "KILL", "ADDR", "1.2.3.4:5"},
    {"CLIENT", "KILL", "LADDR", "1.2.3.4:5", "SKIPME", "no"},
    {"CLIENT", "KILL", "FOO", "1"},
    {"CLIENT", "KILL", "TYPE", "pubsub"},
    {"CLIENT", "KILL", "TYPE", "master"},
    {"CLIENT", "KILL", "ID", "999999", "TYPE", "normal", "USER", "default"},
    {"CLIENT", "KILL"},
    {"CLIENT", "ID", "x"},
    {"CLIENT", "INFO", "x"},
    {"CLIENT", "HELP", "x"},
    {"CLIENT", "REPLY"},
    {"CLIENT", "REPLY", "ON"},
    {"CLIENT", "LIST", "ID"},
    {"CLIENT", "LIST", "TYPE"},
    {"CLIENT", "LIST", "ID", "999999"},
    {"CLIENT", "LIST", "ID", "999998", "999999"},
    {"CLIENT", "LIST", "ID", "1", "x"},
    {"CLIENT", "LIST", "ID", "0"},
    {"CLIENT", "LIST", "TYPE", "replica"},
    {"CLIENT", "LIST", "TYPE", "master"},
    {"CLIENT", "SETNAME", ""},
    {"CLIENT", "GETNAME"},
    {"CLIENT", "SETNAME", "a\nb"},
    {"CLIENT", "SETNAME", "caf\xc3\xa9"},
    {"CLIENT", "NO-EVICT"},
    {"CLIENT", "NO-EVICT", "OFF"},
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
    {"CLIENT", "GETNAME"},
    {"CLIENT", "GETNAME"},
    {"HELLO", "2", "AUTH"},
    {"HELLO", "1"},
    {"HELLO", "-1"},
    {"HELLO", "3.0"},
    {"HELLO", "99999999999999999999"},
    {"HELLO", "SETNAME", "x"},
    {"AUTH", "default", ""},
    {"AUTH", "", ""},
    {"ECHO", ""},
    {"PING", ""},
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
    {"COMMAND", "LIST", "FILTERBY", "FOO", "x"},
    {"COMMAND", "LIST", "FILTERBY", "PATTERN"},
    {"COMMAND", "LIST", "FILTERBY", "PATTERN", "mge?"},
    {"COMMAND", "LIST", "FILTERBY", "ACLCAT", "nosuch"},
    {"COMMAND", "COUNT", "x"},
    {"COMMAND", "INFO", "nosuch", "alsono"},
    {"COMMAND", "DOCS", "nosuch", "alsono"},
    {"COMMAND", "GETKEYS"},
    {"COMMAND", "GETKEYS", "DEL", "a", "b", "c"},
    {"COMMAND", "GETKEYS", "SET", "a"},
    {"COMMAND", "GETKEYS", "OBJECT", "ENCODING", "a"},
    {"COMMAND", "GETKEYS", "EXISTS", "a", "a"},
    {"COMMAND", "GETKEYS", "SCAN", "0"},
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

// HELLO with everything at once, in either order; a wrong password leaves the name and the protocol as they were.
TEST_F(RedisCompare, HelloWithAuthAndName) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  const auto without_id = [](const resp::Reply& reply) {
    std::string text;
    for (size_t i = 0; i + 1 < reply.items.size(); i += 2) {
      if (reply.items[i].text != "id") text += RawClient::Show(reply.items[i]) + RawClient::Show(reply.items[i + 1]);
    }
    return text + (reply.is_error() ? reply.text : "");
  };
  for (const Words& command :
       {Words{"HELLO"}, Words{"HELLO", "3", "AUTH", "default", "x", "SETNAME", "one"},
        Words{"HELLO", "2", "SETNAME", "two", "AUTH", "default", "x"}, Words{"hello", "3", "setname", "three"},
        Words{"HELLO", "2", "AUTH", "nobody", "x", "SETNAME", "four"},
        Words{"HELLO", "3", "SETNAME", "five", "SETNAME", "six"}, Words{"HELLO", "3", "SETNAME", ""},
        Words{"HELLO", "2"}}) {
    EXPECT_EQ(without_id(ours.Do(command)), without_id(redis.Do(command))) << Join(command);
    EXPECT_EQ(ours.Text({"CLIENT", "GETNAME"}), redis.Text({"CLIENT", "GETNAME"})) << Join(command);
  }
}

// Deliberately unlike Redis 7.0, which does one option after the other: a HELLO that fails has changed nothing.
TEST(Hello, ChangesAllOrNothing) {
  TestServer server;
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"HELLO", "3", "SETNAME", "x", "AUTH", "nobody", "y"}).substr(0, 11), "-WRONGPASS ");
  EXPECT_EQ(client.Text({"HELLO", "3", "SETNAME", "x", "FOO"}), "-ERR Syntax error in HELLO option 'FOO'");
  EXPECT_EQ(client.Text({"HELLO", "3", "AUTH", "default", "y", "SETNAME", "a b"}),
            "-ERR Client names cannot contain spaces, newlines or special characters.");
  EXPECT_EQ(client.Text({"CLIENT", "GETNAME"}), "(nil)");
  EXPECT_NE(client.Do({"CLIENT", "INFO"}).text.find(" resp=2 "), std::string::npos);
}

// A password is set on both: what is said before and at the login.
TEST_F(RedisCompare, BehindAPassword) {
  TestServer::Setup setup;
  setup.requirepass = "secret";
  TestServer server(setup);
  RawClient admin(redis_->port());
  ASSERT_EQ(admin.Text({"CONFIG", "SET", "requirepass", "secret"}), "+OK");
  {
    RawClient ours(server.server->port()), redis(redis_->port());
    for (const Words& command : {Words{"PING"},
                                 Words{"GET"},
                                 Words{"NOSUCH", "a"},
                                 Words{"CLIENT", "NOSUCH"},
                                 Words{"HELLO"},
                                 Words{"HELLO", "3"},
                                 Words{"HELLO", "3", "SETNAME", "a b"},
                                 Words{"HELLO", "9"},
                                 Words{"HELLO", "3", "AUTH", "default", "wrong"},
                                 Words{"AUTH", "wrong"},
                                 Words{"AUTH", "default", "wrong"},
                                 Words{"AUTH", "nobody", "secret"},
                                 Words{"AUTH", ""},
                                 Words{"AUTH"},
                                 Words{"AUTH", "a", "b", "c"},
                                 Words{"RESET"},
                                 Words{"AUTH", "secret"},
                                 Words{"PING"},
                                 Words{"AUTH", "wrong"},
                                 Words{"PING"},
                                 Words{"RESET"},
                                 Words{"PING"},
                                 Words{"QUIT"}}) {
      EXPECT_EQ(ours.Text(command), redis.Text(command)) << Join(command);
    }
  }
  ASSERT_EQ(admin.Text({"CONFIG", "SET", "requirepass", ""}), "+OK");
}

TEST_F(RedisCompare, Config) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  for (const Words& command : {Words{"CONFIG", "GET", "timeout"},
                               Words{"CONFIG", "GET", "timeou[t]"},
                               Words{"CONFIG", "GET", "?imeout"},
                               Words{"CONFIG", "GET", "maxclient*"},
                               Words{"CONFIG", "GET", "[^a]axclients"},
                               Words{"CONFIG", "GET", "timeout", "timeout", "TIMEOU?"},
                               Words{"CONFIG", "GET", ""},
                               Words{"CONFIG", "GET", "databases"},
                               Words{"CONFIG", "SET", "timeout", "abc"},
                               Words{"CONFIG", "SET", "timeout", ""},
                               Words{"CONFIG", "SET", "timeout", "5mb"},
                               Words{"CONFIG", "SET", "databases", "5"},
                               Words{"CONFIG", "SET", "io-threads", "3"},
                               Words{"CONFIG", "SET", "timeout", "5", "timeout", "6"},
                               Words{"CONFIG", "SET", "timeout", "5", "nosuch", "1"},
                               Words{"CONFIG", "SET", "nosuch", "1", "timeout", "5"},
                               Words{"CONFIG", "SET", "timeout", "5", "databases", "3"},
                               Words{"CONFIG", "SET", "maxclients", "abc", "timeout", "3"},
                               Words{"CONFIG", "SET", "timeout", "3", "maxclients", "abc"},
                               Words{"CONFIG", "SET", "proto-max-bulk-len", "abc"},
                               Words{"CONFIG", "SET", "timeout"},
                               Words{"CONFIG", "SET", "timeout", "5", "maxclients"},
                               Words{"CONFIG", "GET", "timeout"},
                               Words{"CONFIG", "SET", "timeout", "50", "MAXCLIENTS", "500"},
                               Words{"CONFIG", "GET", "timeout"},
                               Words{"CONFIG", "GET", "maxclients"},
                               Words{"CONFIG", "SET", "TimeOut", "0", "maxclients", "10000"},
                               Words{"CONFIG", "SET", "loglevel", "verbose"},
                               Words{"CONFIG", "GET", "loglevel"},
                               Words{"CONFIG", "SET", "loglevel", "notice"},
                               Words{"CONFIG", "SET", "proto-max-bulk-len", "100mb"},
                               Words{"CONFIG", "GET", "proto-max-bulk-len"},
                               Words{"CONFIG", "SET", "proto-max-bulk-len", "512mb"},
                               Words{"CONFIG", "RESETSTAT", "x"},
                               Words{"CONFIG", "RESETSTAT"}}) {
    EXPECT_EQ(ours.Text(command), redis.Text(command)) << Join(command);
  }
  // Several patterns: the same rows, whatever their order.
  const auto rows = [](const resp::Reply& reply) {
    std::map<std::string, std::string> all;
    for (size_t i = 0; i + 1 < reply.items.size(); i += 2) all[reply.items[i].text] = reply.items[i + 1].text;
    EXPECT_EQ(all.size() * 2, reply.items.size()) << "each once";
    return all;
  };
  const Words several = {"CONFIG", "GET", "timeout", "maxclients", "save", "appendonly", "databases", "maxclient?"};
  EXPECT_EQ(rows(ours.Do(several)), rows(redis.Do(several)));
  EXPECT_GT(rows(ours.Do({"CONFIG", "GET", "*"})).size(), 50u);
}

// Sections by name, in any case and number: the same titles in the same form.
TEST_F(RedisCompare, InfoSections) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  const auto titles = [](const resp::Reply& reply) {
    std::vector<std::string> found;
    for (size_t at = 0; (at = reply.text.find("# ", at)) != std::string::npos; ++at) {
      if (at == 0 || (at >= 4 && reply.text.substr(at - 4, 4) == "\r\n\r\n"))
        found.push_back(reply.text.substr(at, reply.text.find('\n', at) - at));
    }
    return found;
  };
  for (const Words& command :
       {Words{"INFO", "server"}, Words{"INFO", "SERVER"}, Words{"INFO", "clients", "server"}, Words{"INFO", "memory"},
        Words{"INFO", "persistence"}, Words{"INFO", "stats"}, Words{"INFO", "replication"}, Words{"INFO", "cpu"},
        Words{"INFO", "commandstats"}, Words{"INFO", "errorstats"}, Words{"INFO", "cluster"}, Words{"INFO", "keyspace"},
        Words{"INFO", "modules"}, Words{"INFO", "nosuch"}, Words{"INFO", "server", "nosuch", "server"},
        Words{"INFO", ""}}) {
    EXPECT_EQ(titles(ours.Do(command)), titles(redis.Do(command))) << Join(command);
  }
  // Whatever Redis shows by default is shown here by default, in its order, with our own behind it.
  for (const Words& command :
       {Words{"INFO"}, Words{"INFO", "default"}, Words{"INFO", "all"}, Words{"INFO", "everything"}}) {
    std::vector<std::string> mine = titles(ours.Do(command)), theirs = titles(redis.Do(command));
    EXPECT_EQ(mine.back(), "# Tiercel\r");
    mine.pop_back();
    std::erase(theirs, "# Latencystats\r");
    EXPECT_EQ(mine, theirs) << Join(command);
  }
  // Lines are name:value, ended as Redis ends them.
  const std::string text = ours.Do({"INFO", "all"}).text;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find("\r\n", at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = text.substr(at, end - at);
    EXPECT_TRUE(line.empty() || line[0] == '#' || line.find(':') != std::string::npos) << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    at = end + 2;
  }
}

// COMMAND about the commands that both have.
TEST_F(RedisCompare, CommandTable) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  const resp::Reply table = ours.Do({"COMMAND"});
  EXPECT_EQ(ours.Do({"COMMAND", "COUNT"}).integer, static_cast<int64_t>(table.items.size()));
  EXPECT_EQ(ours.Do({"COMMAND", "INFO"}).items.size(), table.items.size());
  size_t common = 0;
  for (const resp::Reply& row : table.items) {
    const std::string& name = row.items.at(0).text;
    const resp::Reply theirs = redis.Do({"COMMAND", "INFO", name});
    if (theirs.items.at(0).items.empty()) continue;  // our own
    ++common;
    const resp::Reply& other = theirs.items[0];
    ASSERT_EQ(row.items.size(), other.items.size()) << name;
    for (const size_t i : {0u, 1u, 3u, 4u, 5u}) {
      EXPECT_EQ(RawClient::Show(row.items[i]), RawClient::Show(other.items[i])) << name << " field " << i;
    }
    if (!row.items.at(9).items.empty()) continue;  // a container's flags are those of its subcommands
    // Flags that clients act on.
    for (const char* flag : {"write", "readonly", "denyoom", "movablekeys", "blocking", "no_auth"}) {
      const auto has = [&](const resp::Reply& flags) { return RawClient::Show(flags).find("+" + std::string(flag)); };
      EXPECT_EQ(has(row.items[2]) == std::string::npos, has(other.items[2]) == std::string::npos)
          << name << " " << flag;
    }
    const resp::Reply docs = ours.Do({"COMMAND", "DOCS", name}), their_docs = redis.Do({"COMMAND", "DOCS", name});
    ASSERT_EQ(docs.items.size(), 2u) << name;
    ASSERT_EQ(their_docs.items.size(), 2u) << name;
    for (const char* field : {"since", "group"}) {
      const auto of = [&](const resp::Reply& reply) {
        const std::vector<resp::Reply>& fields = reply.items[1].items;
        for (size_t i = 0; i + 1 < fields.size(); i += 2) {
          if (fields[i].text == field) return fields[i + 1].text;
        }
        return std::string("(none)");
      };
      EXPECT_EQ(of(docs), of(their_docs)) << name << " " << field;
    }
  }
  EXPECT_GT(common, 40u);
}

// The error that a command of Redis gives which is not served here is that of any unknown one.
TEST_F(RedisCompare, WrongNumbersOfArguments) {
  TestServer server;
  RawClient ours(server.server->port()), redis(redis_->port());
  const std::vector<std::string> commands = {
      "PING",     "ECHO",      "HELLO",   "AUTH",   "SELECT", "RESET",  "CLIENT",    "COMMAND", "CONFIG",
      "SET",      "GET",       "MGET",    "MSET",   "SETEX",  "PSETEX", "SETNX",     "GETSET",  "GETDEL",
      "STRLEN",   "GETRANGE",  "DEL",     "UNLINK", "EXISTS", "TTL",    "PTTL",      "EXPIRE",  "PEXPIRE",
      "EXPIREAT", "PEXPIREAT", "PERSIST", "TYPE",   "KEYS",   "SCAN",   "RANDOMKEY", "DBSIZE"};
  for (const std::string& command : commands) {
    for (size_t n = 0; n <= 6; ++n) {
      Words words = {command};
      for (size_t i = 0; i < n; ++i) words.push_back("9");
      const std::string mine = ours.Text(words), theirs = redis.Text(words);
      // Compared where Redis complains about the number or the syntax; the rest is compared above.
      if (theirs[0] == '-') EXPECT_EQ(mine, theirs) << Join(words);
    }
  }
}

}  // namespace
}  // namespace tiercel::net::test
