#include "client/address.h"

#include <gtest/gtest.h>

#include "client/host.h"

namespace tiercel::client {
namespace {

TEST(Address, AllForms) {
  auto name = ParseMasterAddress("cache.example:1234");
  EXPECT_EQ(name->host, "cache.example");
  EXPECT_EQ(name->port, 1234);
  EXPECT_EQ(ParseMasterAddress("cache")->port, kDefaultPort);
  EXPECT_EQ(ParseMasterAddress("[::1]:99")->host, "::1");
  EXPECT_EQ(ParseMasterAddress("[::1]:99")->port, 99);
  EXPECT_EQ(ParseMasterAddress("[::1]")->port, kDefaultPort);
  EXPECT_EQ(ParseMasterAddress("fe80::1:2")->host, "fe80::1:2");
  EXPECT_EQ(ParseMasterAddress("unix:/run/t.sock")->unix_socket, "/run/t.sock");
  for (const char* bad : {"", ":1", "h:", "h:0", "h:65536", "h:12x", "[::1", "[::1]9", "[]:1", "unix:"}) {
    auto address = ParseMasterAddress(bad);
    ASSERT_FALSE(address.ok()) << bad;
    EXPECT_EQ(address.error().code(), ErrorCode::kInvalid);
  }
}

TEST(Host, IdsNameTheKernelAndTheHost) {
  const std::string id = HostId("rack7");
  EXPECT_TRUE(id.ends_with("/rack7"));
  EXPECT_GT(id.size(), 30u);
  EXPECT_EQ(HostId("a").substr(0, 36), id.substr(0, 36));
  EXPECT_FALSE(HostId("").ends_with("/"));
}

TEST(Host, SharedMemoryNeedsTheSameKernelAndASocket) {
  EXPECT_FALSE(OnThisHost("boot/a", "boot/a", ""));
  EXPECT_FALSE(OnThisHost("boot/a", "boot/a", "/nonexistent/socket"));
  EXPECT_FALSE(OnThisHost("boot/a", "boot/a", "/etc/passwd")) << "not a socket";
}

}  // namespace
}  // namespace tiercel::client
