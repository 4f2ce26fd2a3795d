#include "server/node/advertise.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace tiercel::node {
namespace {

std::string Choose(AdvertiseInputs inputs) {
  auto chosen = ChooseAdvertised(inputs);
  return chosen.ok() ? *chosen : "error: " + chosen.error().message();
}

TEST(AdvertiseTest, ParsesWhatPeopleWrite) {
  const struct {
    const char* text;
    HostPort wanted;
    const char* printed;
  } good[] = {
      {"10.0.0.1", {"10.0.0.1", 0}, "10.0.0.1:0"},
      {"10.0.0.1:7380", {"10.0.0.1", 7380}, "10.0.0.1:7380"},
      {"s1.example", {"s1.example", 0}, "s1.example:0"},
      {"s1.example:1", {"s1.example", 1}, "s1.example:1"},
      {"fd00::1", {"fd00::1", 0}, "[fd00::1]:0"},
      {"[fd00::1]", {"fd00::1", 0}, "[fd00::1]:0"},
      {"[fd00::1]:7380", {"fd00::1", 7380}, "[fd00::1]:7380"},
  };
  for (const auto& c : good) {
    const auto parsed = ParseHostPort(c.text);
    ASSERT_TRUE(parsed.ok()) << c.text;
    EXPECT_EQ(*parsed, c.wanted) << c.text;
    EXPECT_EQ(FormatHostPort(*parsed), c.printed);
  }
  for (const char* bad :
       {"", ":7380", "host:", "host:0", "host:65536", "host:x", "[fd00::1", "[fd00::1]7", "[]:1", "[::1]:"}) {
    EXPECT_FALSE(ParseHostPort(bad).ok()) << bad;
  }
}

TEST(AdvertiseTest, GivenWins) {
  EXPECT_EQ(Choose({.given = "192.0.2.7", .bound = {"0.0.0.0:7380"}, .local = "10.0.0.1", .interfaces = {}}),
            "192.0.2.7:7380");
  EXPECT_EQ(Choose({.given = "store.example:99", .bound = {"0.0.0.0:7380"}, .local = {}, .interfaces = {}}),
            "store.example:99");
  EXPECT_EQ(Choose({.given = "fd00::1", .bound = {"[::]:7380"}, .local = {}, .interfaces = {}}), "[fd00::1]:7380");
}

TEST(AdvertiseTest, AWildcardIsNeverAnnounced) {
  for (const char* given : {"0.0.0.0", "::", "[::]:7380", "*", "0.0.0.0:7380"}) {
    EXPECT_FALSE(ChooseAdvertised({.given = given, .bound = {"0.0.0.0:7380"}, .local = {}, .interfaces = {}}).ok())
        << given;
  }
  EXPECT_FALSE(ChooseAdvertised({.given = {}, .bound = {"0.0.0.0:7380"}, .local = {}, .interfaces = {}}).ok());
  EXPECT_FALSE(ChooseAdvertised({.given = {}, .bound = {}, .local = "10.0.0.1", .interfaces = {}}).ok());
}

TEST(AdvertiseTest, FoundIsTheWayToTheMaster) {
  EXPECT_EQ(Choose({.given = {}, .bound = {"0.0.0.0:7380"}, .local = "10.0.0.1", .interfaces = {}}), "10.0.0.1:7380");
  EXPECT_EQ(Choose({.given = {}, .bound = {"[::]:7380"}, .local = "10.0.0.1", .interfaces = {}}), "10.0.0.1:7380");
  EXPECT_EQ(Choose({.given = {}, .bound = {"0.0.0.0:7380", "[::]:7381"}, .local = "fd00::5", .interfaces = {}}),
            "[fd00::5]:7381");
  // Not bound to the way to the master: what it is bound to.
  EXPECT_EQ(Choose({.given = {}, .bound = {"192.0.2.7:7380"}, .local = "10.0.0.1", .interfaces = {}}),
            "192.0.2.7:7380");
  EXPECT_EQ(Choose({.given = {}, .bound = {"127.0.0.1:7380", "[::1]:7380"}, .local = "::1", .interfaces = {}}),
            "[::1]:7380");
}

TEST(AdvertiseTest, AMasterInTheSameProcess) {
  EXPECT_EQ(Choose({.given = {}, .bound = {"127.0.0.1:7380", "[::1]:7380"}, .local = {}, .interfaces = {"10.0.0.1"}}),
            "127.0.0.1:7380");
  EXPECT_EQ(Choose({.given = {}, .bound = {"0.0.0.0:7380"}, .local = {}, .interfaces = {"fd00::1", "10.0.0.1"}}),
            "10.0.0.1:7380");
}

TEST(AdvertiseTest, LocalAddressOfAConnection) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_EQ(LocalAddressTowards("127.0.0.1", ntohs(address.sin_port), 5000), "127.0.0.1");
  EXPECT_EQ(LocalAddressTowards("no such host", 1, 5000), "");
}

}  // namespace
}  // namespace tiercel::node
