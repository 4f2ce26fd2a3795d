#include "server/net/data_address.h"

#include <gtest/gtest.h>

#include "server/net/option_reader.h"

namespace tiercel::net {
namespace {

TEST(DataAddress, HostAndPort) {
  const auto v4 = ParseHostPort("10.0.0.1:7380");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "10.0.0.1");
  EXPECT_EQ(v4->port, 7380);
  const auto v6 = ParseHostPort("[fe80::1]:65535");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "fe80::1");
  EXPECT_EQ(v6->port, 65535);
  EXPECT_TRUE(ParseHostPort("cache-1.example:1").ok());
  for (const char* bad :
       {"", ":", ":1", "h", "h:", "h:0", "h:65536", "h:-1", "h:1x", "::1:80", "[]:80", "[::1]", "[::1:80"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

TEST(DataAddress, Kinds) {
  for (const char* loopback : {"127.0.0.1", "127.255.0.9", "::1", "localhost", "LocalHost", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(KindOfHost(loopback), AddressKind::kLoopback) << loopback;
  }
  for (const char* wildcard : {"0.0.0.0", "::", "::ffff:0.0.0.0"}) {
    EXPECT_EQ(KindOfHost(wildcard), AddressKind::kWildcard) << wildcard;
  }
  for (const char* other : {"10.0.0.1", "128.0.0.1", "fe80::1", "example.org", "127"}) {
    EXPECT_EQ(KindOfHost(other), AddressKind::kOther) << other;
  }
}

TEST(DataAddress, SameMachineMayUseLoopback) {
  EXPECT_TRUE(CheckDataAddress("127.0.0.1:1", "", "unix:/tmp/x").ok());
  EXPECT_TRUE(CheckDataAddress("127.0.0.1:1", "127.0.0.1", "127.0.0.1:7379").ok());
  EXPECT_TRUE(CheckDataAddress("127.0.0.1:1", "::ffff:127.0.0.1", "[::]:7379").ok());
  EXPECT_TRUE(CheckDataAddress("127.0.0.1:1", "10.0.0.1", "10.0.0.1:7379").ok()) << "from its own address";
  EXPECT_TRUE(CheckDataAddress("[::1]:1", "fd00::2", "[fd00::2]:7379").ok());
  EXPECT_FALSE(CheckDataAddress("127.0.0.1:1", "10.0.0.2", "10.0.0.1:7379").ok());
  EXPECT_FALSE(CheckDataAddress("0.0.0.0:1", "10.0.0.2", "10.0.0.1:7379").ok());
  EXPECT_TRUE(CheckDataAddress("10.0.0.2:1", "10.0.0.2", "10.0.0.1:7379").ok());
}

TEST(OptionReader, WordsInAnyCase) {
  EXPECT_TRUE(SameWord("rePlace", "REPLACE"));
  EXPECT_FALSE(SameWord("REPLACE", "REPLACES"));
  EXPECT_FALSE(SameWord("[", "{")) << "only letters have cases";
  const std::string_view words[] = {"CMD", "LEASE", "5", "left"};
  OptionReader reader(words, 1);
  ASSERT_TRUE(reader.Next());
  EXPECT_TRUE(reader.Is("lease"));
  EXPECT_EQ(*reader.Integer(0, 9), 5);
  ASSERT_TRUE(reader.Next());
  EXPECT_FALSE(reader.Text().ok());
  EXPECT_FALSE(reader.Next());
}

// What an error repeats of the request is bounded.
TEST(OptionReader, LongWordsAreCut) {
  const std::string word(1 << 20, 'x');
  const std::string_view words[] = {word};
  OptionReader reader(words, 0);
  reader.Next();
  EXPECT_LT(reader.Unknown().message().size(), 200u);
  EXPECT_LT(ReadInteger("n", word, 0, 1).error().message().size(), 200u);
  EXPECT_LT(ParseHostPort(word).error().message().size(), 500u);
}

}  // namespace
}  // namespace tiercel::net
