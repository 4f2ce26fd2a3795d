// What no client should send, and what no server may fall over: lengths, keys, cuts, each with its own words.
#include <gtest/gtest.h>

#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"
#include "tiercel/limits.h"

namespace tiercel::net::test {
namespace {

using Words = std::vector<std::string>;

struct Malformed {
  std::string sent, answer;  // all of what comes back; then the connection ends
};
const std::vector<Malformed>& MalformedInputs() {
  static const std::vector<Malformed> inputs = {
      {"*9223372036854775808\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*18446744073709551615\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*1048577000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*+1\r\n$4\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"* 1\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*1 \r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*01\r\n$4\r\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
      {"*1\r\n$\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n$-0\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n$9223372036854775807\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n$9223372036854775808\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n$18446744073709551616\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
      {"*1\r\n:4\r\nPING\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
      {"*1\r\n*1\r\n$4\r\nPING\r\n", "-ERR Protocol error: expected '$', got '*'\r\n"},
      {"SET k \"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
      {"*1\r\n$4\r\nPING\r\n*1\r\n$x\r\n", "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"},
      {"*-1\r\n*1\r\n$4\r\nPING\r\n*1\r\nx\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got 'x'\r\n"},
  };
  return inputs;
}

TEST(BadInput, IsAnsweredOnceAndEndsTheConnection) {
  TestServer server;
  for (const Malformed& input : MalformedInputs()) {
    RawClient client(server.server->port());
    client.SendRaw(input.sent + "*1\r\n$4\r\nPING\r\n");
    EXPECT_EQ(client.ReadAll(), input.answer) << input.sent;
  }
  EXPECT_EQ(server.server->Figures().closed_protocol_error, MalformedInputs().size());
  EXPECT_EQ(RawClient(server.server->port()).Text({"PING"}), "+PONG");
}

TEST(BadInput, WhereverItIsCut) {
  TestServer server;
  for (const Malformed& input : MalformedInputs()) {
    for (size_t cut = 1; cut < input.sent.size(); ++cut) {
      RawClient client(server.server->port());
      client.SendRaw(std::string_view(input.sent).substr(0, cut));
      server.PassLoops();  // the first part is read, and judged, by itself
      client.SendRaw(std::string_view(input.sent).substr(cut));
      client.ShutdownWrite();
      ASSERT_EQ(client.ReadAll(), input.answer) << input.sent << " cut at " << cut;
    }
  }
}

// A large value's end is in its place, however its last bytes come.
TEST(BadInput, LineEndOfALargeValue) {
  TestServer server;
  const std::string value = Pattern(100'000, 1);
  const std::string head = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n";
  for (const std::string end : {"xx", "\rx", "x\n", "\n\r"}) {
    for (size_t cut = 0; cut < 2; ++cut) {
      RawClient client(server.server->port());
      client.SendRaw(head + value + end.substr(0, cut));
      server.PassLoops();
      client.SendRaw(end.substr(cut) + "PING\r\n");
      const std::string answer = client.ReadAll();
      EXPECT_EQ(answer.substr(0, 21), "-ERR Protocol error: ") << answer;
      EXPECT_EQ(answer.find("PONG"), std::string::npos);
    }
  }
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"EXISTS", "k"}), ":0") << "half a command has no effect";
}

TEST(BadInput, EmptyWhereNothingIsNeeded) {
  TestServer server;
  RawClient client(server.server->port());
  EXPECT_EQ(client.Text({"SET", "k", ""}), "+OK");
  EXPECT_EQ(client.Text({"GET", "k"}), "\"\"");
  // Keys have at least one byte: an empty one cannot be set, and is never there.
  const std::string refusal = "-ERR key: must have at least 1 byte";
  EXPECT_EQ(client.Text({"SET", "", "v"}), refusal);
  EXPECT_EQ(client.Text({"SET", "", Pattern(100'000, 1)}), refusal);
  EXPECT_EQ(client.Text({"MSET", "b", "1", "", "a"}), refusal);
  EXPECT_EQ(client.Text({"PUTSTART", "", "10"}), "-ERR key is empty, allowed are 1 to 16384 bytes");
  EXPECT_EQ(client.Text({"MGET", "", "b"}), "[(nil) (nil)]");
  EXPECT_EQ(client.Text({"GET", ""}), "(nil)");
  EXPECT_EQ(client.Text({"DEL", ""}), ":0");
  EXPECT_EQ(client.Text({""}), "-ERR unknown command '', with args beginning with: ");
}

// Every command that takes a key: one of the longest length, and one byte more.
TEST(BadInput, KeysThatAreTooLong) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string longest(kMaxKeyBytes, 'k'), longer(kMaxKeyBytes + 1, 'k');
  ASSERT_EQ(client.Text({"SET", longest, "v"}), "+OK");
  EXPECT_EQ(client.Text({"GET", longest}), "\"v\"");
  EXPECT_EQ(client.Text({"EXISTS", longest}), ":1");
  const std::string refusal =
      "-TOOBIG a key of " + std::to_string(longer.size()) + " bytes is longer than " + std::to_string(kMaxKeyBytes);
  const std::string large = Pattern(100'000, 1);
  for (const Words& command : {Words{"SET", longer, "v"},
                               Words{"SET", longer, large},
                               Words{"SETNX", longer, "v"},
                               Words{"SETEX", longer, "10", "v"},
                               Words{"PSETEX", longer, "10", large},
                               Words{"GETSET", longer, "v"},
                               Words{"MSET", "a", "1", longer, "v"},
                               Words{"GET", longer},
                               Words{"GETDEL", longer},
                               Words{"STRLEN", longer},
                               Words{"GETRANGE", longer, "0", "1"},
                               Words{"DEL", longer},
                               Words{"UNLINK", longer},
                               Words{"EXISTS", longer},
                               Words{"TOUCH", longer},
                               Words{"TTL", longer},
                               Words{"PTTL", longer},
                               Words{"EXPIRETIME", longer},
                               Words{"PEXPIRETIME", longer},
                               Words{"EXPIRE", longer, "10"},
                               Words{"PEXPIRE", longer, "10"},
                               Words{"EXPIREAT", longer, "10"},
                               Words{"PEXPIREAT", longer, "10"},
                               Words{"PERSIST", longer},
                               Words{"TYPE", longer},
                               Words{"OBJECT", "ENCODING", longer},
                               Words{"OBJECT", "PLACES", longer},
                               Words{"OBJECT", "CHAIN", longer},
                               Words{"MEMORY", "USAGE", longer},
                               Words{"PIN", longer, "HARD"},
                               Words{"GETREPLICAS", longer},
                               Words{"VERIFY", longer}}) {
    EXPECT_EQ(client.Text(command), refusal) << command[0];
  }
  const std::string put = client.Text({"PUTSTART", longer, "100"});
  EXPECT_EQ(put.substr(0, 8), "-TOOBIG ") << put;
  // Among several keys it is one that is not there.
  EXPECT_EQ(client.Text({"EXISTS", longer, longest}), ":1");
  EXPECT_EQ(client.Text({"MGET", longer, longest}), "[(nil) \"v\"]");
  EXPECT_EQ(client.Text({"DEL", longer, longest}), ":1");
  EXPECT_EQ(client.Text({"EXISTS", "a"}), ":0") << "an MSET that is refused has set nothing";
  // A key of the size of a value is one as well.
  EXPECT_EQ(client.Text({"GET", std::string(1 << 20, 'k')}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({"SET", std::string(1 << 20, 'k'), "v"}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({"SET", std::string(1 << 20, 'k'), large}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({"PING"}), "+PONG");
}

// Arguments that are neither values nor small are kept within bounds, and refused beyond.
TEST(BadInput, LargeArgumentsThatAreNoValues) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string large = Pattern(1 << 20, 1), larger = Pattern(9 << 20, 2);
  EXPECT_TRUE(client.Do({"ECHO", large}).text == large);
  EXPECT_EQ(client.Text({"ECHO", larger}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({"SET", "k", "v", larger}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({larger}).substr(0, 8), "-TOOBIG ");
  EXPECT_EQ(client.Text({"SET", "k", "v", "EX", large}), "-ERR value is not an integer or out of range");
  EXPECT_EQ(client.Text({"NOSUCH", large}).substr(0, 21), "-ERR unknown command ");
  EXPECT_EQ(client.Text({"EXISTS", "k"}), ":0");
}

TEST(BadInput, NumbersOfPutsThatCannotBe) {
  TestServer server;
  RawClient client(server.server->port());
  for (const char* size : {"-1", "x", "", "1.5", "68719476737", "9223372036854775808", "18446744073709551616"}) {
    const resp::Reply refused = client.Do({"PUTSTART", "k", size});
    EXPECT_TRUE(refused.is_error()) << size;
    EXPECT_TRUE(refused.text.substr(0, 4) == "ERR " || refused.text.substr(0, 7) == "TOOBIG ") << refused.text;
  }
  for (const char* put : {"-1", "x", "", "9223372036854775808"}) {
    EXPECT_EQ(client.Text({"PUTEND", put, "0000000000000001"}).substr(0, 5), "-ERR ") << put;
    EXPECT_EQ(client.Text({"PUTREVOKE", put}).substr(0, 5), "-ERR ") << put;
  }
  for (const char* sum : {"", "1", "000000000000000g", "00000000000000001", "0x00000000000001", "-000000000000001"}) {
    EXPECT_EQ(client.Text({"PUTEND", "1", sum}).substr(0, 5), "-ERR ") << sum;
  }
  EXPECT_EQ(client.Text({"PUTEND", "1", "0000000000000001"}).substr(0, 7), "-NOPUT ");
}

}  // namespace
}  // namespace tiercel::net::test
