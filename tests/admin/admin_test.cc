// The admin port over raw sockets.
#include "server/admin/admin.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/check.h"
#include "base/fd.h"

namespace tiercel::admin {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

UniqueFd Connect(uint16_t port, bool v6 = false) {
  UniqueFd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  six.sin6_addr = in6addr_loopback;
  const sockaddr* address = v6 ? reinterpret_cast<sockaddr*>(&six) : reinterpret_cast<sockaddr*>(&v4);
  if (connect(fd.get(), address, v6 ? sizeof(six) : sizeof(v4)) != 0) return {};
  return fd;
}

// Sends as much as the peer takes; it may close before the end.
void Send(const UniqueFd& fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string ReceiveAll(const UniqueFd& fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;)
    text.append(buffer, static_cast<size_t>(got));
  return text;
}

class AdminTest : public testing::Test {
 protected:
  void SetUp() override {
    AdminHandlers handlers;
    handlers.readiness = [this] { return ready_ ? Readiness{.ready = true} : Readiness{false, "loading the index"}; };
    handlers.metrics = [this] {
      ++scrapes_;
      return std::vector<MetricFamily>{
          {"tiercel_objects", MetricType::kGauge, "Objects by tier.", {{12, {{"tier", "dram"}}}}},
          {"tiercel_hits_total", MetricType::kCounter, "Look-ups that found.", {{3, {}}}},
          {"tiercel_odd", MetricType::kGauge, "Labels are escaped.", {{1, {{"store", "a\"b\\c\nd"}}}}},
          {"tiercel_big_total", MetricType::kCounter, "Exact.", {{9007199254740991, {}}}}};
    };
    handlers.status = [] { return std::vector<StatusTable>{{"Stores", {"name", "state"}, {{"<script>", "serving"}}}}; };
    Result<std::unique_ptr<AdminServer>> server = StartAdmin({}, handlers);
    ASSERT_TRUE(server.ok()) << server.error().message();
    server_ = std::move(*server);
  }

  std::string Exchange(std::string_view text) {
    const UniqueFd fd = Connect(server_->port());
    EXPECT_TRUE(fd);
    Send(fd, text);
    return ReceiveAll(fd);
  }
  std::string Get(const std::string& path) { return Exchange("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }

  std::atomic<bool> ready_{false};
  std::atomic<int> scrapes_{0};
  std::unique_ptr<AdminServer> server_;
};

// O-54, while loading and when ready.
TEST_F(AdminTest, HealthAndReadiness) {
  EXPECT_THAT(Get("/healthz"), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nok\n")));
  EXPECT_THAT(Get("/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("\r\n\r\nloading the index\n")));
  ready_ = true;
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200 "));
}

// O-54, what is wrong with a request.
TEST_F(AdminTest, BadRequestsGetTheirStatus) {
  EXPECT_THAT(Get("/nothing"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Get("/metrics/x"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Exchange("GARBAGE\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Exchange("GARBAGE\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Exchange(std::string_view("\0\1\2 \r\n\r\n", 8)), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Exchange("GET /healthz HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(Exchange("GET /healthz HTTP/3.0\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_THAT(Exchange("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n")));
  EXPECT_EQ(scrapes_, 0);
  EXPECT_THAT(Exchange("DELETE /nothing HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  const std::string mib(1 << 20, 'a');
  EXPECT_THAT(Exchange("GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + mib + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(Exchange("GET /" + mib + " HTTP/1.1\r\n"), StartsWith("HTTP/1.1 414 "));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
}

// The answer comes while the header is still being sent: it is not waited for.
TEST_F(AdminTest, ATooLargeHeaderIsRefusedBeforeItEnds) {
  const UniqueFd fd = Connect(server_->port());
  Send(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + std::string(64 * 1024, 'a'));
  char start[12] = {};
  ASSERT_EQ(recv(fd.get(), start, sizeof(start), MSG_WAITALL), 12);
  EXPECT_EQ(std::string(start, 12), "HTTP/1.1 431");
}

TEST_F(AdminTest, RequestsMayArriveByteByByte) {
  const UniqueFd fd = Connect(server_->port());
  for (char c : std::string("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")) Send(fd, {&c, 1});
  EXPECT_THAT(ReceiveAll(fd), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AdminTest, HalfARequestThenTheEndIsMalformed) {
  const UniqueFd fd = Connect(server_->port());
  Send(fd, "GET /heal");
  shutdown(fd.get(), SHUT_WR);
  EXPECT_THAT(ReceiveAll(fd), StartsWith("HTTP/1.1 400 "));
  const UniqueFd silent = Connect(server_->port());
  shutdown(silent.get(), SHUT_WR);
  EXPECT_EQ(ReceiveAll(silent), "");
}

TEST_F(AdminTest, HeadHasLengthAndNoBody) {
  EXPECT_THAT(Exchange("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n"),
              AllOf(HasSubstr("\r\nContent-Length: 3\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(AdminTest, MetricsAreExposition) {
  const std::string text = Get("/metrics");
  EXPECT_THAT(text, HasSubstr("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(text, HasSubstr("# HELP tiercel_objects Objects by tier.\n# TYPE tiercel_objects gauge\n"
                              "tiercel_objects{tier=\"dram\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE tiercel_hits_total counter\ntiercel_hits_total 3\n"));
  EXPECT_THAT(text, HasSubstr("tiercel_odd{store=\"a\\\"b\\\\c\\nd\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("tiercel_big_total 9007199254740991\n"));
  EXPECT_EQ(scrapes_, 1);
}

TEST_F(AdminTest, ThePageForPeopleEscapesNames) {
  EXPECT_THAT(Get("/"), AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Not ready: loading the index"),
                              HasSubstr("<td>&lt;script&gt;</td><td>serving</td>"), Not(HasSubstr("<script>"))));
}

TEST_F(AdminTest, IdleConnectionsDoNotKeepOthersOut) {
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 63; ++i) {
    idle.push_back(Connect(server_->port()));
    Send(idle.back(), "GET ");
  }
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));
  // One more than there is room for waits, and is served once another one has gone.
  idle.push_back(Connect(server_->port()));
  Send(idle.back(), "GET ");
  const UniqueFd waiting = Connect(server_->port());
  Send(waiting, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.clear();
  EXPECT_THAT(ReceiveAll(waiting), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AdminTest, ManyAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 200 "));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scrapes_, 200);
}

TEST_F(AdminTest, StopsWithRequestsHalfRead) {
  const UniqueFd fd = Connect(server_->port());
  Send(fd, "GET /hea");
  server_.reset();
  EXPECT_EQ(ReceiveAll(fd), "");
}

TEST_F(AdminTest, ServesBothFamiliesOnOnePort) {
  ASSERT_GE(server_->addresses().size(), 1u);
  EXPECT_EQ(server_->addresses()[0], "127.0.0.1:" + std::to_string(server_->port()));
  if (server_->addresses().size() == 1) GTEST_SKIP() << "no IPv6 on this host";
  EXPECT_EQ(server_->addresses()[1], "[::1]:" + std::to_string(server_->port()));
  const UniqueFd fd = Connect(server_->port(), /*v6=*/true);
  Send(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(ReceiveAll(fd), StartsWith("HTTP/1.1 200 "));
}

TEST_F(AdminTest, APortInUseIsNamed) {
  const auto second = StartAdmin({.binds = {"127.0.0.1"}, .port = server_->port()}, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kIo);
  EXPECT_THAT(second.error().message(),
              HasSubstr("listen on 127.0.0.1 port " + std::to_string(server_->port()) + ": Address already in use"));
  EXPECT_THAT(StartAdmin({.binds = {"no.such.host.invalid"}}, {}).error().message(), HasSubstr("no.such.host.invalid"));
  EXPECT_FALSE(StartAdmin({.binds = {"-192.0.2.1"}}, {}).ok());
  EXPECT_TRUE(StartAdmin({.binds = {"-192.0.2.1", "127.0.0.1"}}, {}).ok());
}

// Out of descriptors: who is connected is served; who is not waits, and nothing spins or ends.
TEST_F(AdminTest, OutOfDescriptors) {
  const UniqueFd connected = Connect(server_->port());
  Send(connected, "GET ");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd waiting(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 "));  // `connected` has been accepted before it
  const rlimit none{.rlim_cur = static_cast<rlim_t>(waiting.get()) + 1, .rlim_max = before.rlim_max};
  std::vector<UniqueFd> filler;  // no hole below the limit is left
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  while (true) {
    UniqueFd fd(dup(0));
    if (!fd) break;
    filler.push_back(std::move(fd));
  }
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(server_->port()), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  EXPECT_EQ(connect(waiting.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  Send(waiting, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  Send(connected, "/healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(ReceiveAll(connected), StartsWith("HTTP/1.1 200 "));
  filler.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(ReceiveAll(waiting), StartsWith("HTTP/1.1 200 "));
}

}  // namespace
}  // namespace tiercel::admin
