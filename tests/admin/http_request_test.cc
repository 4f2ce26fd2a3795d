#include "server/admin/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace tiercel::admin {
namespace {

using State = HeadResult::State;

TEST(ParseHead, TakesOrdinaryRequests) {
  const HeadResult head = ParseHead("GET /metrics?name=x HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\n\r\n");
  ASSERT_EQ(head.state, State::kComplete);
  EXPECT_EQ(head.request.method, "GET");
  EXPECT_EQ(head.request.path, "/metrics");
  EXPECT_EQ(ParseHead("\r\n\nHEAD / HTTP/1.0\n\n").request.method, "HEAD");
  EXPECT_EQ(ParseHead("GET http://h:1/readyz HTTP/1.1\r\nhOsT:\r\n\r\n").request.path, "/readyz");
  EXPECT_EQ(ParseHead("GET http://h HTTP/1.0\r\n\r\n").request.path, "/");
  EXPECT_EQ(ParseHead("OPTIONS * HTTP/1.0\r\n\r\n").request.path, "*");
}

// At every byte: not yet, and then the verdict.
TEST(ParseHead, WaitsForTheWholeHead) {
  const std::string text = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
  for (size_t end = 0; end < text.size(); ++end) {
    EXPECT_EQ(ParseHead(text.substr(0, end)).state, State::kIncomplete) << end;
  }
  EXPECT_EQ(ParseHead(text).state, State::kComplete);
}

TEST(ParseHead, RefusesMalformedOnes) {
  const std::string_view kBad[] = {
      "GARBAGE\r\n",
      "GARBAGE \r\n",
      "GET /\r\n",
      "GET  HTTP/1.1\r\n",
      "GET / HTTP/1.1 \r\n",
      "GET /a b HTTP/1.1\r\n",
      " GET / HTTP/1.1\r\n",
      "G(T / HTTP/1.1\r\n",
      "GET / HTTP/1\r\n",
      "GET / http/1.1\r\n",
      "GET / HTTP/x.1\r\n",
      "GET /\x01 HTTP/1.1\r\n",
      "GET /\xff HTTP/1.1\r\n",
      std::string_view("\0\1\2\r\n", 5),
      "GET / HTTP/1.1\r\nno colon\r\n",
      "GET / HTTP/1.1\r\nHost : a\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n",
      "GET / HTTP/1.1\r\n: a\r\n",
      "GET / HTTP/1.1\r\nHost: a\x01\r\n",
      "GET / HTTP/1.1\r\nHost: a\rb\r\n",
      "GET / HTTP/1.1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
  };
  for (const std::string_view bad : kBad) {
    const HeadResult head = ParseHead(bad);
    EXPECT_EQ(head.state, State::kRefused) << bad;
    EXPECT_EQ(head.status, 400) << bad;
  }
  EXPECT_EQ(ParseHead("GET / HTTP/2.0\r\n").status, 505);
}

TEST(ParseHead, RefusesWhatIsTooLarge) {
  const std::string line = "GET / HTTP/1.1\r\n";
  std::string field = line + "X: " + std::string(kMaxHeadBytes, 'a');
  EXPECT_EQ(ParseHead(std::string_view(field).substr(0, kMaxHeadBytes - 1)).state, State::kIncomplete);
  EXPECT_EQ(ParseHead(std::string_view(field).substr(0, kMaxHeadBytes)).status, 431);
  EXPECT_EQ(ParseHead(field + "\r\n\r\n").status, 431);
  std::string many = line;
  while (many.size() < kMaxHeadBytes) many += "a:b\r\n";
  EXPECT_EQ(ParseHead(many).status, 431);
  EXPECT_EQ(ParseHead("GET /" + std::string(kMaxHeadBytes, 'a')).status, 414);
  std::string fits = line + "Host: a\r\nX: ";
  fits += std::string(kMaxHeadBytes - fits.size() - 4, 'a') + "\r\n\r\n";
  EXPECT_EQ(fits.size(), kMaxHeadBytes);
  EXPECT_EQ(ParseHead(fits).state, State::kComplete);
}

}  // namespace
}  // namespace tiercel::admin
