// Acceptance cases of peers that are strange, hostile, of another version or at an IPv6 address, and of the admin
// port, against whole servers.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fd.h"
#include "protocol/resp/descriptor.h"
#include "tests/support/server_process.h"
#include "tests/system/redis.h"
#include "tests/transfer/raw.h"
#include "tiercel/client.h"

namespace tiercel::test {
namespace {

using transfer::FrameBytes;
using transfer::FrameHeader;
using transfer::FrameType;
using transfer::RawConnection;

template <typename F>
bool Eventually(F&& condition, int64_t guard_ms = 30'000) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(guard_ms);
  while (!condition()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

std::string FirstOf(const std::string& addresses) { return addresses.substr(0, addresses.find(',')); }

// What the admin port answers; it may close before it has read all.
std::string Http(const ServerProcess& server, const std::string& request) {
  const std::string address = FirstOf(server.address("admin"));
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  for (size_t sent = 0; sent < request.size();) {
    const ssize_t n = send(fd.get(), request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  std::string reply;
  char buffer[8192];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof buffer, 0)) > 0;) reply.append(buffer, static_cast<size_t>(n));
  return reply;
}
std::string HttpGet(const ServerProcess& server, const std::string& path) {
  return Http(server, "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}
int StatusOf(const std::string& reply) { return reply.size() < 12 ? 0 : std::stoi(reply.substr(9, 3)); }

// The value of a metric with this name and these labels as they stand; 0 when it is not there yet.
double Metric(const ServerProcess& server, const std::string& name) {
  const std::string text = HttpGet(server, "/metrics");
  const size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::stod(text.substr(at + name.size() + 2));
}
double Refusals(const ServerProcess& server, const std::string& cause) {
  return Metric(server, "tiercel_store_refusals_total{cause=\"" + cause + "\"}");
}

// Memory of the process's own: pages of segments, which are touched in the background, are not in it.
uint64_t AnonymousBytes(const ServerProcess& server) {
  std::ifstream status("/proc/" + std::to_string(server.pid()) + "/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

class CasesOfPeers : public testing::Test {
 protected:
  void Start(std::vector<std::string> arguments) {
    auto server = ServerProcess::StartSingle(std::move(arguments));
    ASSERT_TRUE(server.ok()) << server.error().ToString();
    server_ = std::move(*server);
    redis_ = std::make_unique<Redis>(server_->host(), server_->port());
  }
  std::unique_ptr<RawConnection> Dial() { return RawConnection::Connect(FirstOf(server_->address("data"))); }
  Incarnation StoreIncarnation() {
    return {std::stoull(redis_->Call({"STORES"}).items.at(0).Field("incarnation").text, nullptr, 16)};
  }
  // Authenticated.
  std::unique_ptr<RawConnection> Greeted() {
    auto connection = Dial();
    const auto ticket = ParseTicketText(redis_->Call({"TICKET"}).text);
    EXPECT_TRUE(ticket.has_value());
    EXPECT_TRUE(ticket && connection->Greet(*ticket, StoreIncarnation()));
    return connection;
  }
  resp::ReplicaDescriptor ReadGrant(const std::string& key) {
    auto replica = resp::ParseReplica(redis_->Call({"GETREPLICAS", key}).Field("replicas").items.at(0).text);
    EXPECT_TRUE(replica.ok());
    return std::move(*replica);
  }
  static ErrorCode Answer(RawConnection& connection) {
    FrameHeader header;
    FrameBytes body;
    if (!connection.ReadFrame(&header, &body)) return ErrorCode::kShutdown;
    bool well_formed = false;
    return header.type == FrameType::kError ? transfer::DecodeError(body, &well_formed).code() : ErrorCode::kExists;
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Redis> redis_;
};

TEST_F(CasesOfPeers, P13_T39_HostileDataFrames) {
  Start({"--dram", "64mb", "--requirepass", "secret"});
  ASSERT_TRUE(redis_->Call({"AUTH", "secret"}).is_ok());
  const std::string value(8192, 'v');
  ASSERT_TRUE(redis_->Call({"SET", "k", value}).is_ok());
  ASSERT_TRUE(redis_->Call({"SET", "other", value}).is_ok());
  const resp::ReplicaDescriptor replica = ReadGrant("k");
  const Extent extent = replica.extents[0];
  const SegmentRef place = replica.place;
  const SegmentRef unknown{77, place.epoch}, old{place.segment, place.epoch - 1};
  const uint64_t size = 64 << 20;
  struct Case {
    const char* name;
    SegmentRef place;
    uint64_t offset, length;
    const char* cause;
    ErrorCode code;
  };
  const Case cases[] = {
      {"past the end", place, size - 1, 2, "OUT_OF_RANGE", ErrorCode::kOutOfRange},
      {"wraps around", place, UINT64_MAX - 7, 16, "OUT_OF_RANGE", ErrorCode::kOutOfRange},
      {"2^64 - 1 bytes", place, 1, UINT64_MAX, "OUT_OF_RANGE", ErrorCode::kOutOfRange},
      {"2^40 bytes", place, 0, uint64_t{1} << 40, "OUT_OF_RANGE", ErrorCode::kOutOfRange},
      {"unknown segment", unknown, 0, 16, "UNKNOWN_SEGMENT", ErrorCode::kUnknownSegment},
      {"old epoch", old, extent.offset, 16, "OLD_EPOCH", ErrorCode::kOldEpoch},
      {"another object's range", place, ReadGrant("other").extents[0].offset, 16, "BAD_GRANT", ErrorCode::kBadGrant},
      {"one byte more", place, extent.offset, extent.length + 1, "BAD_GRANT", ErrorCode::kBadGrant},
  };
  auto connection = Greeted();
  (void)Metric(*server_, "warm");
  const uint64_t resident = AnonymousBytes(*server_);
  ASSERT_GT(resident, 0u);
  uint64_t id = 1;
  for (const Case& c : cases) {
    for (const FrameType type : {FrameType::kRead, FrameType::kWrite}) {
      SCOPED_TRACE(testing::Message() << c.name << (type == FrameType::kRead ? " read" : " write"));
      const double before = Refusals(*server_, c.cause);
      FrameBytes out;
      transfer::AppendRequest(type, 0, ++id, c.place, c.offset, c.length, &replica.grant, &out);
      if (type == FrameType::kWrite && c.length <= value.size() + 1) out.resize(out.size() + c.length);
      ASSERT_TRUE(connection->Send(out));
      EXPECT_EQ(Answer(*connection), c.code);
      EXPECT_EQ(Refusals(*server_, c.cause), before + 1);
      if (type == FrameType::kWrite && c.length > value.size() + 1) {
        connection->WaitClosed();
        connection = Greeted();
      }
    }
  }
  // A grant for reading does not write; one with a flipped bit does nothing at all.
  for (const bool flipped : {false, true}) {
    const double before = Refusals(*server_, "BAD_GRANT");
    Grant grant = replica.grant;
    if (flipped) grant.mac[3] ^= std::byte{1};
    FrameBytes out;
    transfer::AppendRequest(flipped ? FrameType::kRead : FrameType::kWrite, 0, ++id, place, extent.offset, 16, &grant,
                            &out);
    if (!flipped) out.resize(out.size() + 16);
    ASSERT_TRUE(connection->Send(out));
    EXPECT_EQ(Answer(*connection), ErrorCode::kBadGrant);
    EXPECT_EQ(Refusals(*server_, "BAD_GRANT"), before + 1);
  }
  // And the good one reads, on the same connection.
  FrameBytes out;
  transfer::AppendRequest(FrameType::kRead, 0, ++id, place, extent.offset, extent.length, &replica.grant, &out);
  ASSERT_TRUE(connection->Send(out));
  FrameHeader header;
  FrameBytes body;
  ASSERT_TRUE(connection->ReadFrame(&header, &body));
  ASSERT_EQ(header.type, FrameType::kReadOk);
  ASSERT_TRUE(connection->Drain(header.payload_bytes));
#ifndef TIERCEL_SANITIZED
  EXPECT_LT(AnonymousBytes(*server_), resident + (1 << 20));
#endif
  // Without a ticket of the master's, and before any greeting.
  auto stranger = Dial();
  double before = Refusals(*server_, "UNAUTHENTICATED");
  EXPECT_FALSE(stranger->Greet(Ticket{}, StoreIncarnation()));
  EXPECT_EQ(Refusals(*server_, "UNAUTHENTICATED"), before + 1);
  stranger = Dial();
  ASSERT_TRUE(stranger->Send(out));
  EXPECT_EQ(Answer(*stranger), ErrorCode::kUnauthenticated);
  EXPECT_EQ(Refusals(*server_, "UNAUTHENTICATED"), before + 2);
  EXPECT_EQ(redis_->Call({"GET", "k"}).text, value);
  EXPECT_EQ(redis_->Call({"GET", "other"}).text, value);
}

TEST_F(CasesOfPeers, T30_StrangersOnTheDataPort) {
  Start({"--dram", "16mb"});
  for (const std::string& text : {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
                                  std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(48, '\0')}) {
    const double before = Refusals(*server_, "PROTOCOL");
    auto connection = Dial();
    connection->SendText(text);
    connection->WaitClosed();
    EXPECT_EQ(Refusals(*server_, "PROTOCOL"), before + 1);
  }
  EXPECT_EQ(redis_->Call({"PING"}).text, "PONG");
}

// Both sides of the data port: another minor works, reads as well as writes; another major is refused by name.
TEST_F(CasesOfPeers, P15_VersionsOfTheDataPort) {
  Start({"--dram", "16mb"});
  ASSERT_TRUE(redis_->Call({"SET", "k", "value"}).is_ok());
  for (const int minor : {0, 1, 2, 255}) {
    auto connection = Dial();
    ASSERT_TRUE(connection->Greet(*ParseTicketText(redis_->Call({"TICKET"}).text), StoreIncarnation(),
                                  static_cast<uint8_t>(minor)));
    const resp::ReplicaDescriptor replica = ReadGrant("k");
    FrameBytes out;
    transfer::AppendRequest(FrameType::kRead, 0, 1, replica.place, replica.extents[0].offset, 5, &replica.grant, &out);
    connection->Send(out);
    FrameHeader header;
    FrameBytes body;
    ASSERT_TRUE(connection->ReadFrame(&header, &body)) << minor;
    ASSERT_EQ(header.type, FrameType::kReadOk) << minor;
    std::array<std::byte, 5> bytes;
    ASSERT_TRUE(connection->Read(bytes));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 5), "value");

    const std::string key = "w" + std::to_string(minor);
    const RedisReply plan = redis_->Call({"PUTSTART", key, "5"});
    const auto place = resp::ParseReplica(plan.Field("replicas").items.at(0).text);
    ASSERT_TRUE(place.ok());
    out.clear();
    transfer::AppendRequest(FrameType::kWrite, 0, 2, place->place, place->extents[0].offset, 5, &place->grant, &out);
    out.insert(out.end(), bytes.begin(), bytes.end());
    connection->Send(out);
    ASSERT_TRUE(connection->ReadFrame(&header, &body)) << minor;
    EXPECT_EQ(header.type, FrameType::kWriteOk) << minor;
  }
  const double before = Refusals(*server_, "PEER_PROTOCOL");
  auto connection = Dial();
  FrameBytes hello;
  transfer::AppendHello(transfer::kProtocolMinor,
                        {.ticket = *ParseTicketText(redis_->Call({"TICKET"}).text), .expected = StoreIncarnation()},
                        &hello);
  hello[4] = std::byte{9};
  const uint64_t sum = HashBytes(std::span(hello).first(40));
  std::memcpy(hello.data() + 40, &sum, 8);
  connection->Send(hello);
  EXPECT_EQ(Answer(*connection), ErrorCode::kPeerProtocol);
  EXPECT_EQ(Refusals(*server_, "PEER_PROTOCOL"), before + 1);
  const std::string both = "the peer speaks data protocol 9." + std::to_string(transfer::kProtocolMinor) +
                           ", this side " + transfer::VersionText(transfer::kProtocolMajor, transfer::kProtocolMinor);
  EXPECT_TRUE(Eventually([&] { return server_->log().find(both) != std::string::npos; })) << server_->log();
}

TEST_F(CasesOfPeers, P15_VersionsOfTheMaster) {
  Start({"--dram", "16mb"});
  EXPECT_FALSE(redis_->Call({"TICKET"}).is_error()) << "who says nothing speaks 1.0";
  for (const char* good : {"1.0", "1.1", "1.65535"}) {
    EXPECT_FALSE(redis_->Call({"TICKET", "HOST", "boot/here", "PROTO", good}).is_error()) << good;
  }
  for (const char* bad : {"", "1", "1.", ".0", "1.0.0", "x.y", "-1.0", "1.65536", " 1.0"}) {
    EXPECT_EQ(redis_->Call({"TICKET", "PROTO", bad}).text.rfind("ERR PROTO", 0), 0u) << bad;
  }
  EXPECT_EQ(Metric(*server_, "tiercel_versions_refused_total"), 0);
  for (const char* other : {"2.0", "0.9"}) {
    const RedisReply refused = redis_->Call({"TICKET", "PROTO", other});
    EXPECT_EQ(refused.text.rfind("NOPROTO ", 0), 0u) << refused.Describe();
    EXPECT_NE(refused.text.find(other), std::string::npos) << refused.text;
    EXPECT_NE(refused.text.find("1.0"), std::string::npos) << refused.text;
  }
  EXPECT_EQ(Metric(*server_, "tiercel_versions_refused_total"), 2);
  const RedisReply store =
      redis_->Call({"STORE", "JOIN", "s9", "00000000000000ab", "disk", "host9", "127.0.0.1:1", "-", "0", "2", "5"});
  EXPECT_EQ(store.text.rfind("NOPROTO ", 0), 0u) << store.Describe();
  EXPECT_NE(store.text.find("2 to 5"), std::string::npos);
  EXPECT_NE(store.text.find("1.0"), std::string::npos);
  EXPECT_EQ(Metric(*server_, "tiercel_versions_refused_total"), 3);
  EXPECT_NE(server_->log().find("control protocol 2.0, this master 1.0"), std::string::npos) << server_->log();
  EXPECT_EQ(redis_->Call({"PING"}).text, "PONG");
}

TEST_F(CasesOfPeers, O54_TheAdminPort) {
  Start({"--dram", "16mb"});
  EXPECT_EQ(StatusOf(HttpGet(*server_, "/healthz")), 200);
  EXPECT_TRUE(Eventually([&] { return StatusOf(HttpGet(*server_, "/readyz")) == 200; }));
  EXPECT_EQ(StatusOf(HttpGet(*server_, "/metrics")), 200);
  EXPECT_EQ(StatusOf(HttpGet(*server_, "/nothing")), 404);
  EXPECT_EQ(StatusOf(Http(*server_, "NONSENSE\r\n\r\n")), 400);
  EXPECT_EQ(
      StatusOf(Http(*server_, "GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n")),
      431);
  EXPECT_EQ(StatusOf(Http(*server_, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")), 405);
  const std::string before = redis_->Call({"CONFIG", "GET", "metadata-max"}).items.at(1).text;
  for (const char* budget : {"9223372036854775808", "abc", "-1", "18446744073709551616", ""}) {
    EXPECT_TRUE(redis_->Call({"CONFIG", "SET", "metadata-max", budget}).is_error()) << budget;
    EXPECT_EQ(redis_->Call({"CONFIG", "GET", "metadata-max"}).items.at(1).text, before);
  }
  const RedisReply segment =
      redis_->Call({"STORE", "LEAVE", redis_->Call({"STORES"}).items.at(0).Field("name").text, "SEGMENT", "unknown"});
  EXPECT_EQ(segment.text.rfind("NOSEGMENT", 0), 0u) << segment.Describe();
  EXPECT_TRUE(redis_->Call({"SET", "k", "v"}).is_ok());
}

// Each reason has its counter, by which an operator finds it.
TEST_F(CasesOfPeers, P14_SlowReadersAreCounted) {
  Start({"--dram", "64mb", "--client-idle-write-timeout", "1s"});
  ASSERT_TRUE(redis_->Call({"SET", "k", std::string(4 << 20, 'v')}).is_ok());
  std::vector<std::unique_ptr<Redis>> deaf;
  for (int i = 0; i < 3; ++i) {
    deaf.push_back(std::make_unique<Redis>(server_->host(), server_->port()));
    std::string gets;
    for (int k = 0; k < 1000; ++k) gets += "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    send(deaf.back()->fd(), gets.data(), gets.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  EXPECT_TRUE(Eventually([&] { return Metric(*server_, "tiercel_closed_slow_readers_total") == 3; }));
  EXPECT_EQ(redis_->Call({"STRLEN", "k"}).integer, 4 << 20);
  EXPECT_EQ(redis_->Call({"DEL", "k"}).integer, 1);
  EXPECT_TRUE(Eventually([&] {
    const RedisReply tier = redis_->Call({"TIERS"}).items.at(0);
    return tier.Field("used").integer == 0 && tier.Field("quarantined").integer == 0;
  }));
}

bool HasIpv6() {
  const UniqueFd probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  return probe && bind(probe.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
}

// P-10: every way to write an address, and a wildcard that takes both families.
TEST_F(CasesOfPeers, P10_Ipv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6 loopback address";
  for (const std::string bind : {"::", "[::]", "[::1]", "::1"}) {
    SCOPED_TRACE(bind);
    auto master = ServerProcess::StartMaster({"--bind", bind});
    ASSERT_TRUE(master.ok()) << master.error().ToString();
    const std::string port = std::to_string((*master)->port());
    const std::string printed = (*master)->address("resp");
    EXPECT_EQ(printed, (bind.find('1') == std::string::npos ? "[::]:" : "[::1]:") + port);
    Redis redis("::1", (*master)->port());
    ASSERT_EQ(redis.Call({"PING"}).text, "PONG");
    if (bind.find('1') == std::string::npos) {
      Redis v4("127.0.0.1", (*master)->port());
      EXPECT_EQ(v4.Call({"PING"}).text, "PONG") << "`::` takes IPv4 as well";
    }
    // A store that says its master and itself in the form in which they were printed.
    auto store = ServerProcess::Start({"--roles", "store", "--store-name", "s6", "--master", "[::1]:" + port, "--port",
                                       "0", "--data-port", "0", "--data-bind", bind, "--data-advertise", "[::1]",
                                       "--admin-port", "0", "--dram", "32mb"});
    ASSERT_TRUE(store.ok()) << store.error().ToString();
    ASSERT_TRUE(Eventually([&] { return redis.Call({"STORES"}).items.size() == 1; })) << (*store)->log();
    const std::string data = redis.Call({"STORES"}).items[0].Field("data-address").text;
    EXPECT_EQ(data.rfind("[::1]:", 0), 0u) << data;
    EXPECT_TRUE(Eventually([&] { return (*store)->log().find(data) != std::string::npos; })) << (*store)->log();
    Redis of_store("127.0.0.1", (*store)->port());
    EXPECT_NE(of_store.Call({"INFO", "store"}).text.find("store_data_address:" + data), std::string::npos);
    ClientOptions options;
    options.master = "[::1]:" + port;
    options.transport = TransportChoice::kTcp;
    auto client = Client::Connect(options);
    ASSERT_TRUE(client.ok()) << client.error().ToString();
    const std::string value(4 << 20, 'v');
    ASSERT_TRUE((*client)->Put("k", value).ok());
    auto got = (*client)->Get("k");
    ASSERT_TRUE(got.ok() && got->has_value());
    EXPECT_TRUE((*got)->view() == value);
  }
}

}  // namespace
}  // namespace tiercel::test
