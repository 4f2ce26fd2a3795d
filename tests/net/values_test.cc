// Large values through RESP: received straight into their extents, sent straight out of them, verified on the way.
#include <gtest/gtest.h>

#include <future>

#include "base/checksum.h"
#include "tests/net/raw_client.h"
#include "tests/net/server_fixture.h"

namespace tiercel::net::test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

bool SendCommand(RawClient& client, const std::vector<std::string>& words) { return client.Send(words); }

// Sends while it reads, so that neither side waits for the other.
resp::Reply Exchange(RawClient& client, const std::vector<std::string>& words) {
  auto sending = std::async(std::launch::async, [&] { return SendCommand(client, words); });
  resp::Reply reply = client.Read();
  EXPECT_TRUE(sending.get());
  return reply;
}

struct Found {
  core::ObjectInfo info;
  uint64_t seed = 0;
};
Found Find(TestServer& server, std::string_view key) {
  Found found;
  server.host.With([&](core::Master& m, Times now) {
    const core::KeyRef ref = core::MakeKey(0, key);
    found.seed = ref.hash;
    core::LookupOptions options;
    options.lease = false;
    EXPECT_TRUE(m.Lookup(ref, options, now, &found.info)) << key;
  });
  return found;
}

// Everything of an object as it lies in the segment: value, then the sums of its blocks.
std::string Stored(const core::LocalSegment* segment, const ExtentList& extents) {
  std::string bytes;
  for (const Extent& extent : extents)
    bytes.append(reinterpret_cast<const char*>(segment->base + extent.offset), extent.length);
  return bytes;
}

// The whole front end in one case: 64 MiB in, 64 MiB out.
TEST(Values, SixtyFourMebibytesGoStraightIntoTheirExtent) {
  TestServer::Setup setup;
  setup.local_bytes = 160 * kMiB;
  TestServer server(setup);
  RawClient client(server.server->port());
  const uint64_t size = 64 * kMiB;
  const std::string value = Pattern(size, 1);
  EXPECT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK");

  // All but what came in one read with the command's head was received into the segment, not into a buffer.
  const ServerFigures figures = server.server->Figures();
  EXPECT_EQ(figures.values_received, 1u);
  EXPECT_EQ(figures.value_bytes_received, size);
  EXPECT_EQ(server.payload.transfers(), 0u);

  // What lies there is the value and, behind it, the sums that a reader checks.
  const Found found = Find(server, "k");
  ASSERT_EQ(found.info.replicas.size(), 1u);
  const core::ReplicaInfo& replica = found.info.replicas[0];
  const std::string stored = Stored(server.payload.FindLocal(Incarnation{1}, replica.place), replica.extents);
  ASSERT_GE(stored.size(), StoredBytes(size));
  EXPECT_TRUE(std::string_view(stored).substr(0, size) == value);
  std::vector<uint64_t> sums(BlockCount(size));
  std::memcpy(sums.data(), stored.data() + size, sums.size() * 8);
  for (uint64_t block = 0; block < sums.size(); ++block) {
    const auto bytes = std::as_bytes(std::span(value)).subspan(block * kBlockBytes, kBlockBytes);
    ASSERT_EQ(sums[block], HashBytes(bytes)) << "block " << block;
  }
  EXPECT_EQ(found.info.sum, ObjectSum(found.seed, size, sums));

  EXPECT_TRUE(client.Do({"GET", "k"}).text == value);
  EXPECT_EQ(server.server->Figures().value_bytes_sent, size + 2) << "with its line end";
  EXPECT_EQ(client.Text({"STRLEN", "k"}), ":" + std::to_string(size));
}

// While it arrives no memory is needed for it: a connection in the middle of a value has an empty input buffer.
TEST(Values, NothingOfAValueIsBuffered) {
  TestServer server;
  RawClient writer(server.server->port()), other(server.server->port());
  const int64_t id = writer.Do({"CLIENT", "ID"}).integer;
  const std::string value = Pattern(40 * kMiB, 1), command = RawClient::Encode({"SET", "k", value});
  ASSERT_TRUE(writer.SendRaw(std::string_view(command).substr(0, 30 * kMiB)));
  server.PassLoops();
  const std::string row = other.Do({"CLIENT", "LIST", "ID", std::to_string(id)}).text;
  EXPECT_NE(row.find(" qbuf=0 "), std::string::npos) << row;
  ASSERT_TRUE(writer.SendRaw(std::string_view(command).substr(30 * kMiB)));
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_TRUE(other.Do({"GET", "k"}).text == value);
}

// Sizes around every border: of buffered arguments, of values answered at once, of blocks, of chunks.
TEST(Values, SizesAroundAllBorders) {
  for (const bool local : {true, false}) {
    TestServer::Setup setup;
    setup.local_bytes = local ? 64 * kMiB : 0;
    setup.remote_bytes = local ? 0 : 64 * kMiB;
    TestServer server(setup);
    RawClient client(server.server->port());
    for (const uint64_t border : {uint64_t{1}, uint64_t{4096}, uint64_t{16384}, uint64_t{32768}, uint64_t{65536}, kMiB,
                                  2 * kMiB, 4 * kMiB, 8 * kMiB}) {
      for (const uint64_t size : {border - 1, border, border + 1}) {
        const std::string value = Pattern(size, size);
        ASSERT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK") << size;
        ASSERT_TRUE(client.Do({"GET", "k"}).text == value) << size;
        const int64_t from = static_cast<int64_t>(size / 2);
        ASSERT_TRUE(client.Do({"GETRANGE", "k", std::to_string(from), "-1"}).text == value.substr(size / 2)) << size;
        if (size < kMiB) continue;
        // A few bytes over the border of two blocks.
        ASSERT_EQ(client.Do({"GETRANGE", "k", std::to_string(kMiB - 3), std::to_string(kMiB + 3)}).text,
                  value.substr(kMiB - 3, 7));
      }
    }
  }
}

TEST(Values, OnAnotherStore) {
  TestServer::Setup setup;
  setup.local_bytes = 0;
  setup.remote_bytes = 160 * kMiB;
  TestServer server(setup);
  RawClient client(server.server->port());
  const std::string value = Pattern(64 * kMiB, 1);
  EXPECT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK");
  EXPECT_TRUE(client.Do({"GET", "k"}).text == value);
  EXPECT_GE(server.payload.transfers(), 64u + 16u);
  EXPECT_LE(server.payload.largest_transfer(), 4 * kMiB) << "through a window, not as a whole";
  EXPECT_EQ(client.Text({"SET", "small", "x"}), "+OK");
  EXPECT_EQ(client.Text({"GET", "small"}), "\"x\"");
}

// A store that stops answering holds up its value only; the sender is not read further than the window.
TEST(Values, AStoreThatHesitates) {
  TestServer::Setup setup;
  setup.remote_bytes = 64 * kMiB;
  setup.local_bytes = 0;
  TestServer server(setup);
  RawClient writer(server.server->port()), other(server.server->port());
  ASSERT_EQ(other.Text({"SET", "there", "1"}), "+OK");
  server.payload.HoldTransfers(true);
  const std::string value = Pattern(32 * kMiB, 1);
  auto sending = std::async(std::launch::async, [&] { return SendCommand(writer, {"SET", "k", value}); });
  EXPECT_EQ(other.Text({"PING"}), "+PONG");
  EXPECT_EQ(other.Text({"EXISTS", "k", "there"}), ":1");
  server.payload.HoldTransfers(false);
  EXPECT_EQ(RawClient::Show(writer.Read()), "+OK");
  EXPECT_TRUE(sending.get());
  EXPECT_TRUE(other.Do({"GET", "k"}).text == value);
}

TEST(Values, AStoreThatFails) {
  TestServer::Setup setup;
  setup.local_bytes = 0;
  setup.remote_bytes = 64 * kMiB;
  TestServer server(setup);
  RawClient client(server.server->port());
  const std::string value = Pattern(8 * kMiB, 1);
  ASSERT_EQ(RawClient::Show(Exchange(client, {"SET", "there", value})), "+OK");
  server.payload.FailTransfers(ErrorCode::kUnreachable);
  for (const uint64_t size : {uint64_t{10}, uint64_t{40'000}, 8 * kMiB}) {
    const resp::Reply set = Exchange(client, {"SET", "k", Pattern(size, 2)});
    ASSERT_TRUE(set.is_error());
    EXPECT_EQ(set.text.substr(0, 12), "UNREACHABLE ") << set.text;
  }
  const std::string get = client.Text({"GET", "there"});
  EXPECT_EQ(get.substr(0, 11), "-NOREPLICA ") << get;
  EXPECT_NE(get.find("remote"), std::string::npos) << "names the store: " << get;
  server.payload.FailTransfers(std::nullopt);
  EXPECT_EQ(client.Text({"EXISTS", "k"}), ":0");
  EXPECT_TRUE(client.Do({"GET", "there"}).text == value);
}

// A view still holds the range that the core thought free: another place is taken.
TEST(Values, ARefusedPlaceIsNotTheEnd) {
  TestServer server;
  RawClient client(server.server->port());
  for (const uint64_t size : {uint64_t{10}, uint64_t{10'000}, 2 * kMiB}) {
    const std::string value = Pattern(size, size);
    server.payload.RefuseWrites(2);
    EXPECT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK") << size;
    EXPECT_TRUE(client.Do({"GET", "k"}).text == value);
    server.payload.RefuseWrites(1000);
    EXPECT_EQ(Exchange(client, {"SET", "k", value}).text.substr(0, 6), "INUSE ") << size;
    server.payload.RefuseWrites(0);
    EXPECT_TRUE(client.Do({"GET", "k"}).text == value) << "a SET that failed leaves what was there";
  }
}

// ---- larger than there is room for

TEST(TooLarge, ValueLargerThanAllSpaceIsRefusedWithTheNumbers) {
  for (const bool local : {true, false}) {
    TestServer::Setup setup;
    setup.local_bytes = local ? 16 * kMiB : 0;
    setup.remote_bytes = local ? 0 : 16 * kMiB;
    // Waiting cannot help, so nobody waits: the test would not end if it did.
    setup.server.limits.put_wait_ms = 24 * 3600'000;
    TestServer server(setup);
    RawClient client(server.server->port());
    ASSERT_EQ(client.Text({"SET", "there", "1"}), "+OK");
    const std::string value = Pattern(17 * kMiB, 1);
    for (const std::vector<std::string>& command : {std::vector<std::string>{"SET", "k", value},
                                                    {"SET", "k", value, "GET"},
                                                    {"SETEX", "k", "100", value},
                                                    {"PSETEX", "k", "100", value},
                                                    {"SETNX", "k", value},
                                                    {"GETSET", "k", value},
                                                    {"MSET", "a", "1", "k", value}}) {
      const resp::Reply refused = Exchange(client, command);
      ASSERT_TRUE(refused.is_error()) << command[0];
      EXPECT_EQ(refused.text.substr(0, 4), "OOM ") << refused.text;
      // What was needed, and what there is.
      EXPECT_NE(refused.text.find("needed 1782"), std::string::npos) << refused.text;
      EXPECT_NE(refused.text.find("free 167"), std::string::npos) << refused.text;
      EXPECT_EQ(client.Text({"PING"}), "+PONG") << "all of the value was read";
      EXPECT_EQ(client.Text({"MGET", "k", "a", "there"}), "[(nil) (nil) \"1\"]");
    }
    // Behind it in the same write.
    auto sending = std::async(std::launch::async, [&] {
      return client.SendRaw(RawClient::Encode({"SET", "k", value}) + RawClient::Encode({"SET", "k", "fits"}));
    });
    EXPECT_EQ(client.Read().text.substr(0, 4), "OOM ");
    EXPECT_EQ(RawClient::Show(client.Read()), "+OK");
    EXPECT_TRUE(sending.get());
    EXPECT_EQ(client.Text({"GET", "k"}), "\"fits\"");
  }
}

TEST(TooLarge, LongerThanABulkMayBe) {
  TestServer::Setup setup;
  setup.server.limits.proto_max_bulk_len = kMiB;
  TestServer server(setup);
  RawClient client(server.server->port());
  EXPECT_EQ(RawClient::Show(Exchange(client, {"SET", "k", Pattern(kMiB, 1)})), "+OK");
  client.SendRaw("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
  EXPECT_EQ(client.ReadAll(), "-ERR Protocol error: invalid bulk length\r\n");
}

TEST(TooLarge, NoStoreAtAll) {
  TestServer::Setup setup;
  setup.local_bytes = 0;
  setup.server.limits.put_wait_ms = 24 * 3600'000;
  TestServer server(setup);
  RawClient client(server.server->port());
  for (const uint64_t size : {uint64_t{0}, uint64_t{10}, uint64_t{40'000}, 8 * kMiB}) {
    const resp::Reply refused = Exchange(client, {"SET", "k", Pattern(size, 1)});
    EXPECT_EQ(refused.text.substr(0, 4), "OOM ") << refused.text;
    EXPECT_NE(refused.text.find("no serving store"), std::string::npos) << refused.text;
  }
  EXPECT_EQ(client.Do({"PUTSTART", "k", "100"}).text.substr(0, 4), "OOM ");
  EXPECT_EQ(client.Text({"GET", "k"}), "(nil)");
  EXPECT_EQ(client.Text({"DBSIZE"}), ":0");
}

// ---- damaged bytes

std::byte* ByteOf(TestServer& server, std::string_view key, uint64_t offset) {
  const Found found = Find(server, key);
  const core::ReplicaInfo& replica = found.info.replicas.at(0);
  const core::LocalSegment* segment = server.payload.FindLocal(Incarnation{1}, replica.place);
  for (const Extent& extent : replica.extents) {
    if (offset < extent.length) return segment->base + extent.offset + offset;
    offset -= extent.length;
  }
  return nullptr;
}

TEST(Damaged, IsNeverSent) {
  TestServer server;
  RawClient client(server.server->port());
  for (const uint64_t size : {uint64_t{100}, uint64_t{100'000}, 5 * kMiB}) {
    const std::string value = Pattern(size, size);
    ASSERT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK");
    *ByteOf(server, "k", 50) ^= std::byte{1};
    const std::string refused = client.Text({"GET", "k"});
    EXPECT_EQ(refused.substr(0, 9), "-CORRUPT ") << refused;
    EXPECT_EQ(client.Text({"PING"}), "+PONG");
  }
  EXPECT_EQ(server.server->Figures().closed_corrupt, 0u);
}

// The length has been promised when it shows: only the connection's end tells the client.
TEST(Damaged, BehindTheFirstBlockEndsTheConnection) {
  TestServer server;
  RawClient client(server.server->port());
  const std::string value = Pattern(5 * kMiB, 1);
  ASSERT_EQ(RawClient::Show(Exchange(client, {"SET", "k", value})), "+OK");
  *ByteOf(server, "k", 3 * kMiB + 5) ^= std::byte{1};
  client.SendRaw("GET k\r\nPING\r\n");
  const std::string got = client.ReadAll();
  const std::string whole = "$5242880\r\n" + value;
  ASSERT_LE(got.size(), std::string("$5242880\r\n").size() + 3 * kMiB) << "the bad block was not sent";
  EXPECT_TRUE(got == std::string_view(whole).substr(0, got.size()));
  EXPECT_EQ(server.server->Figures().closed_corrupt, 1u);
  RawClient again(server.server->port());
  EXPECT_EQ(again.Do({"GETRANGE", "k", "0", "9"}).text, value.substr(0, 10)) << "what is right can be read";
}

// The sums themselves are damaged.
TEST(Damaged, Trailer) {
  TestServer server;
  RawClient client(server.server->port());
  const uint64_t size = 5 * kMiB;
  ASSERT_EQ(RawClient::Show(Exchange(client, {"SET", "k", Pattern(size, 1)})), "+OK");
  *ByteOf(server, "k", size + 9) ^= std::byte{1};
  EXPECT_EQ(client.Text({"GET", "k"}).substr(0, 9), "-CORRUPT ");
}

}  // namespace
}  // namespace tiercel::net::test
