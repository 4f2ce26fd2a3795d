// Acceptance cases that are about the bytes themselves, against real servers and over each wire: every replica alone,
// old versions under a lease, places exchanged, writers that die, silent stores, bits that flip on the way.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "base/random.h"
#include "tests/client_system/direct.h"
#include "tests/transfer/raw.h"

namespace tiercel::test {
namespace {

using transfer::FlippingProxy;
using State = transfer::OpResult::State;
using Words = std::vector<std::string>;

constexpr size_t kMiB = size_t{1} << 20;

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016lx", static_cast<unsigned long>(value));
  return text;
}

int64_t Figure(Direct& direct, const std::string& section, const std::string& name) {
  const std::string text = direct.Call({"INFO", section}).text;
  const size_t at = text.find(name + ":");
  return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 1));
}

int64_t TierField(Direct& direct, std::string_view field) {
  return direct.Call({"TIERS"}).items.at(0).Field(field)->integer;
}

bool Disjoint(const ExtentList& a, const ExtentList& b) {
  for (const Extent& x : a) {
    for (const Extent& y : b) {
      if (x.offset < y.offset + y.length && y.offset < x.offset + x.length) return false;
    }
  }
  return true;
}

class Payload : public testing::TestWithParam<Wire> {
 protected:
  TransportChoice wire() const { return GetParam().choice; }
  std::unique_ptr<Direct> ByHand(const Cluster& cluster) const {
    return std::make_unique<Direct>(cluster.Options(wire()), wire());
  }
};
INSTANTIATE_TEST_SUITE_P(, Payload, testing::ValuesIn(kWires), WireName);

TEST_P(Payload, O02_EachReplicaAloneIsTheObject) {
  Cluster cluster(5, "16mb");
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  for (uint32_t n = 1; n <= 5; ++n) {
    const std::string key = "k" + std::to_string(n);
    // Two blocks, so that there is a trailer, and one of exactly a block.
    for (const size_t size : {kMiB, kMiB + 12'345}) {
      const auto value = Bytes(size, n * 7 + size);
      auto put = client->Put(key, value, {.replace = true, .replicas = n});
      ASSERT_TRUE(put.ok()) << put.error().ToString();
      EXPECT_EQ(put->replicas, n);
      const auto found = direct->Look(key, 10'000);
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->replicas.size(), n);
      EXPECT_EQ(found->sum, ObjectSumOf(KeySeed(0, key), value));
      std::set<std::string> stores;
      for (const auto& replica : found->replicas) {
        stores.insert(replica.store);
        std::vector<std::byte> memory(StoredForm(value).size());
        const auto r = direct->Read(replica, memory);
        ASSERT_EQ(r.state, State::kOk) << r.message;
        EXPECT_TRUE(Same(memory, StoredForm(value))) << replica.store;
      }
      EXPECT_EQ(stores.size(), n);
    }
  }
}

TEST_P(Payload, O08_SumsAreOfTheKeyAndTheBytes) {
  Cluster cluster(2);
  auto client = cluster.Connect(wire());
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
  std::vector<PutItem> items;
  for (int i = 0; i < 64; ++i) {
    names.push_back("k" + std::to_string(i));
    values.push_back(Bytes(i % 7 == 0 ? kMiB + 1000 + i : 5000 + i, i));
  }
  for (int i = 0; i < 64; ++i) items.push_back({names[i], values[i]});
  for (const auto& put : client->PutBatch(items)) ASSERT_TRUE(put.ok()) << put.error().ToString();
  const uint64_t before = (*client->Stat("k9"))->checksum;
  values[9] = Bytes(values[9].size(), 999);
  ASSERT_TRUE(client->Put("k9", values[9], {.replace = true}).ok());
  const std::vector<std::string_view> keys(names.begin(), names.end());
  auto stats = client->StatBatch(keys);
  std::set<uint64_t> sums;
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(stats[i].ok() && stats[i]->has_value());
    EXPECT_EQ((*stats[i])->checksum, ObjectSumOf(KeySeed(0, names[i]), values[i])) << i;
    sums.insert((*stats[i])->checksum);
  }
  EXPECT_EQ(sums.size(), 64u);
  EXPECT_NE((*stats[9])->checksum, before);
  // Equal bytes under two keys.
  ASSERT_TRUE(client->Put("twin a", values[0]).ok());
  ASSERT_TRUE(client->Put("twin b", values[0]).ok());
  EXPECT_NE((*client->Stat("twin a"))->checksum, (*client->Stat("twin b"))->checksum);
}

TEST_P(Payload, O08_ExchangedPlacesAreNeverRead) {
  for (const size_t size : {size_t{100}, size_t{70'000}, kMiB, 2 * kMiB + 77}) {
    Cluster cluster(1);
    auto client = cluster.Connect(wire());
    auto direct = ByHand(cluster);
    const auto a = Bytes(size, 1), b = Bytes(size, 2);
    ASSERT_TRUE(client->Put("a", a).ok());
    ASSERT_TRUE(client->Put("b", b).ok());
    const auto place_a = direct->Look("a", 60'000)->replicas.at(0).extents[0];
    const auto place_b = direct->Look("b", 60'000)->replicas.at(0).extents[0];
    SwapBytes(cluster.store(0), place_a.offset, place_b.offset, StoredForm(a).size());
    for (const char* key : {"a", "b"}) {
      auto got = client->Get(key);
      if (got.ok()) {
        EXPECT_FALSE(got->has_value()) << size << ": bytes of another object passed";
      } else {
        EXPECT_EQ(got.error().code(), ErrorCode::kChecksum) << got.error().ToString();
      }
      std::vector<std::byte> memory(size);
      auto into = client->GetInto(key, memory);
      EXPECT_TRUE(!into.ok() || !into->has_value());
      auto range = client->GetRange(key, size / 2, size / 4);
      EXPECT_TRUE(!range.ok() || !range->has_value());
      // A plain Redis client has no sums of its own: an error, nil, or the end of the connection, never the bytes.
      const std::string_view get[] = {"GET", key};
      auto plain = client->Command(get);
      if (plain.ok()) {
        EXPECT_LT(plain->size(), std::max<size_t>(size, 64));
      }
    }
    EXPECT_TRUE(Eventually([&] { return Figure(*direct, "tiers", "replicas_corrupt") == 2; }))
        << "both are dropped and counted";
  }
}

TEST_P(Payload, O08_TheBadReplicaIsCountedAndDropped) {
  Cluster cluster(2);
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  const auto value = Bytes(2 * kMiB + 5, 1);
  ASSERT_EQ(client->Put("k", value, {.replicas = 2})->replicas, 2u);
  const auto found = direct->Look("k", 1);
  const auto& bad = found->replicas.at(0);
  FlipBit(cluster.store(bad.store), bad.extents[0].offset + kMiB + 17);
  // Whichever is read first: in the end the bad one was met, its store has hashed it again, and it is gone.
  const std::string_view verify[] = {"VERIFY", "k"};
  ASSERT_TRUE(client->Command(verify).ok());
  EXPECT_TRUE(Eventually([&] { return direct->Look("k", 1)->replicas.size() == 1; }));
  EXPECT_NE(direct->Look("k", 1)->replicas[0].store, bad.store);
  EXPECT_EQ(Figure(*direct, "tiers", "replicas_corrupt"), 1);
  auto got = client->Get("k");
  ASSERT_TRUE(got.ok() && got->has_value());
  EXPECT_TRUE(Same((*got)->span(), value));
}

// O-09, O-37 and the lease's half of T-37: what is leased is not reused, whatever is put meanwhile.
TEST_P(Payload, O09_T37_LeasedBytesOutliveTheirKey) {
  Cluster cluster(1, "16mb", {"--lease-max", "10m"});
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  const auto deleted = Bytes(kMiB + 9, 1), replaced = Bytes(kMiB, 2), fresh = Bytes(kMiB, 3);
  ASSERT_TRUE(client->Put("deleted", deleted).ok());
  ASSERT_TRUE(client->Put("replaced", replaced).ok());
  const auto d = direct->Look("deleted", 600'000), r = direct->Look("replaced", 600'000);
  ASSERT_EQ(d->lease_ms, 600'000);
  ASSERT_EQ(r->lease_ms, 600'000);
  EXPECT_TRUE(*client->Remove("deleted"));
  EXPECT_FALSE(*client->Exists("deleted"));
  ASSERT_TRUE(client->Put("deleted", fresh).ok());
  ASSERT_TRUE(client->Put("replaced", fresh, {.replace = true}).ok());
  EXPECT_TRUE(Disjoint(direct->Look("deleted", 1)->replicas.at(0).extents, d->replicas.at(0).extents));
  // Five times the segment, so that everything that may be reused is.
  for (int i = 0; i < 80; ++i) {
    auto put = client->Put("f" + std::to_string(i), Bytes(kMiB, 100 + i));
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    if (i % 20 != 19) continue;
    std::vector<std::byte> memory(StoredForm(deleted).size());
    ASSERT_EQ(direct->Read(d->replicas[0], memory).state, State::kOk);
    EXPECT_TRUE(Same(memory, StoredForm(deleted)));
    memory.resize(replaced.size());
    ASSERT_EQ(direct->Read(r->replicas[0], memory).state, State::kOk);
    EXPECT_TRUE(Same(memory, replaced));
  }
}

TEST_P(Payload, O37_TheOldVersionWhileTheNewOneIsWrittenSlowly) {
  Cluster cluster(1, "64mb");
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  const std::vector<std::byte> a(kMiB, std::byte{'A'}), b(kMiB, std::byte{'B'});
  ASSERT_TRUE(client->Put("k", a).ok());
  const auto v1 = direct->Look("k", 60'000);
  std::atomic<bool> stop{false};
  std::atomic<bool> ended{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      auto own = cluster.Connect(wire());
      uint64_t last = 0;
      while (!stop) {
        const bool must_be_new = ended;
        auto got = own->Get("k");
        ASSERT_TRUE(got.ok()) << got.error().ToString();
        ASSERT_TRUE(got->has_value()) << "never nil";
        const bool is_a = Same((*got)->span(), a), is_b = Same((*got)->span(), b);
        ASSERT_TRUE(is_a || is_b) << "never a mix";
        ASSERT_FALSE(is_a && must_be_new);
        const auto stat = own->Stat("k");
        ASSERT_TRUE(stat.ok() && stat->has_value());
        ASSERT_GE((*stat)->version.value, last);
        last = (*stat)->version.value;
      }
    });
  }
  const auto plan = direct->Start({"PUTSTART", "k", std::to_string(kMiB), "REPLACE"});
  ASSERT_EQ(plan.replicas.size(), 1u);
  EXPECT_TRUE(Disjoint(plan.replicas[0].extents, v1->replicas.at(0).extents));
  for (size_t at = 0; at < kMiB; at += kMiB / 16) {
    const auto r = direct->Write(plan.replicas[0], at, std::span(b).subspan(at, kMiB / 16));
    ASSERT_EQ(r.state, State::kOk) << r.message;
    EXPECT_EQ(direct->Look("k", 1)->version, v1->version) << "until PUTEND every look-up gives v1";
  }
  const uint64_t sum = ObjectSumOf(KeySeed(0, "k"), b);
  EXPECT_EQ(direct->Call({"PUTEND", std::to_string(plan.version.value), Hex(sum)}).integer, 1);
  ended = true;
  const auto v2 = direct->Look("k", 1);
  EXPECT_EQ(v2->version, plan.version);
  EXPECT_GT(v2->version, v1->version);
  EXPECT_TRUE(Same((*client->Get("k"))->span(), b));
  std::vector<std::byte> memory(kMiB);
  ASSERT_EQ(direct->Read(v1->replicas[0], memory).state, State::kOk);
  EXPECT_TRUE(Same(memory, a)) << "R reads 'A' to the end of its lease";
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

// T-37 without any lease to speak of: places are reused under readers all the time.
TEST_P(Payload, T37_ReusedPlacesAreNeverGood) {
  Cluster cluster(1, "16mb", {"--lease-ttl", "1ms"});
  constexpr int kKeys = 4;
  std::atomic<bool> stop{false};
  std::atomic<int> good{0};
  const auto value_of = [](int key, uint64_t round) {
    auto value = Bytes(kMiB + 4096 * static_cast<size_t>(key) + 11, round * kKeys + static_cast<uint64_t>(key));
    std::memcpy(value.data(), &round, sizeof(round));
    return value;
  };
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&, t] {
      auto client = cluster.Connect(wire());
      Random random(static_cast<uint64_t>(t));
      while (!stop) {
        const int key = static_cast<int>(random.Below(kKeys));
        auto got = client->Get("k" + std::to_string(key), {.lease_ms = 1, .timeout_ms = HangGuardMs(20'000)});
        if (!got.ok()) {
          ASSERT_EQ(got.error().code(), ErrorCode::kLeaseExpired) << got.error().ToString();
          continue;
        }
        if (!got->has_value()) continue;
        uint64_t round = 0;
        std::memcpy(&round, (*got)->data(), sizeof(round));
        ASSERT_TRUE(Same((*got)->span(), value_of(key, round))) << "new or mixed bytes passed";
        ++good;
      }
    });
  }
  auto writer = cluster.Connect(wire());
  for (uint64_t round = 1; round <= 60; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      const std::string name = "k" + std::to_string(key);
      if (round % 3 == 0) (void)writer->Remove(name);
      auto put = writer->Put(name, value_of(key, round), {.replace = true});
      ASSERT_TRUE(put.ok() || put.error().code() == ErrorCode::kNoSpace) << put.error().ToString();
    }
  }
  EXPECT_TRUE(Eventually([&] { return good > 20; }));
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

TEST_P(Payload, O35_ASilentStore) {
  Cluster cluster(1, "64mb", {"--store-timeout", "3s", "--ping-interval", "1s"});
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  const auto value = Bytes(kMiB, 1);
  ASSERT_TRUE(client->Put("k1", value).ok());
  ASSERT_TRUE(client->Get("k1").ok());
  cluster.store(0).Signal(SIGSTOP);
  if (wire() == TransportChoice::kTcp) {
    auto got = client->Get("k1", {.timeout_ms = 1'000});
    ASSERT_TRUE(!got.ok() || !got->has_value());
    if (!got.ok()) {
      EXPECT_EQ(got.error().word(), "UNREACHABLE") << got.error().ToString();
    }
  }
  EXPECT_TRUE(Eventually([&] { return direct->Call({"EXISTS", "k1"}).integer == 0; })) << "the store is away";
  auto got = client->Get("k1");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  EXPECT_FALSE(got->has_value());
  cluster.store(0).Signal(SIGCONT);
  cluster.WaitForStores(1);
  got = client->Get("k1");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  if (got->has_value()) {
    EXPECT_TRUE(Same((*got)->span(), value)) << "a miss or intact; never other bytes";
  }
  EXPECT_TRUE(client->Put("k2", value).ok());
}

#ifndef TIERCEL_SANITIZED  // a forked child may not start threads there
// P-07 and O-39's third run: a writer killed in the middle, once on a fresh key and once on one that has a value.
TEST_P(Payload, P07_O39_AWriterKilledHalfWay) {
  constexpr size_t kSize = 64 * kMiB;
  Cluster cluster(1, "256mb", {"--lease-ttl", "200ms"});
  for (const bool replaces : {false, true}) {
    const std::string key = replaces ? "there" : "fresh";
    const auto old_value = Bytes(kMiB, 5);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    if (replaces) {
      ASSERT_TRUE(cluster.Connect(wire())->Put(key, old_value).ok());
    }
    const pid_t child = fork();
    if (child == 0) {
      Direct writer(cluster.Options(wire()), wire());
      Words start = {"PUTSTART", key, std::to_string(kSize)};
      if (replaces) start.emplace_back("REPLACE");
      const auto plan = writer.Start(start);
      const bool half = writer.Write(plan.replicas.at(0), 0, Bytes(kSize / 2, 1)).state == State::kOk;
      (void)!write(ends[1], half ? "y" : "n", 1);
      pause();
      _exit(0);
    }
    char answer = 0;
    ASSERT_EQ(read(ends[0], &answer, 1), 1);
    ASSERT_EQ(answer, 'y');
    close(ends[0]);
    close(ends[1]);
    auto second = cluster.Connect(wire());
    Direct direct(cluster.Options(wire()), wire());
    EXPECT_EQ(TierField(direct, "free") < static_cast<int64_t>(256 * kMiB - kSize), true) << "reserved";
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(*second->Exists(key), replaces);
    auto got = second->Get(key);
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    ASSERT_EQ(got->has_value(), replaces);
    if (replaces) {
      EXPECT_TRUE(Same((*got)->span(), old_value)) << "the old version is intact";
    }
    const auto value = Bytes(3 * kMiB, 2);
    ASSERT_TRUE(Eventually([&] { return second->Put(key, value, {.replace = replaces}).ok(); }));
    EXPECT_TRUE(Same((*second->Get(key))->span(), value));
    EXPECT_TRUE(*second->Remove(key));
    EXPECT_TRUE(Eventually([&] { return TierField(direct, "used") == 0 && TierField(direct, "quarantined") == 0; }))
        << "its space comes back";
  }
}
#endif

// O-39, fourth run.
TEST_P(Payload, O39_TheMasterDiesBeforePutEnd) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  const auto v1 = Bytes(kMiB, 1);
  ASSERT_TRUE(client->Put("k", v1).ok());
  uint64_t highest = 0;
  {
    auto direct = ByHand(cluster);
    const auto plan = direct->Start({"PUTSTART", "k", "1000000", "REPLACE"});
    highest = plan.version.value;
    ASSERT_EQ(direct->Write(plan.replicas.at(0), 0, Bytes(500'000, 2)).state, State::kOk);
    cluster.RestartMaster();
  }
  cluster.WaitForStores(1);
  auto got = client->Get("k");
  ASSERT_TRUE(got.ok()) << got.error().ToString();
  if (got->has_value()) {
    EXPECT_TRUE(Same((*got)->span(), v1));
  }
  auto put = client->Put("k", v1, {.replace = true});
  ASSERT_TRUE(put.ok()) << put.error().ToString();
  EXPECT_GT(put->version.value, highest) << "versions never repeat";
  EXPECT_TRUE(Same((*client->Get("k"))->span(), v1));
}

// P-03, its last sentence: what was learnt of a store's former life is a typed error, never the new one's bytes.
TEST_P(Payload, P03_OldAddressesAreATypedError) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  auto direct = ByHand(cluster);
  const auto value = Bytes(kMiB, 1);
  ASSERT_TRUE(client->Put("k", value).ok());
  const auto old = direct->Look("k", 60'000);
  std::vector<std::byte> memory(kMiB);
  ASSERT_EQ(direct->Read(old->replicas.at(0), memory).state, State::kOk);
  cluster.store(0).Kill();
  cluster.StartStore(0);
  cluster.WaitForStores(1);
  ASSERT_TRUE(client->Put("other", Bytes(kMiB, 2)).ok());
  std::ranges::fill(memory, std::byte{7});
  const auto r = direct->Read(old->replicas[0], memory);
  EXPECT_EQ(r.state, State::kFailed);
  EXPECT_TRUE(r.code == ErrorCode::kStaleIncarnation || r.code == ErrorCode::kUnreachable) << r.message;
  EXPECT_EQ(r.bytes, 0u);
  EXPECT_EQ(memory[0], std::byte{7});
}

// ---- T-40: a proxy between client and store flips a bit

uint16_t FreePort() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<uint16_t>(15000 + RandomId() % 15000);
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return 0;
}

TEST(Flips, T40_ABitFlipsBetweenClientAndStore) {
  const std::string port = std::to_string(FreePort());
  FlippingProxy proxy("127.0.0.1:" + port);
  auto master = ServerProcess::StartMaster({"--lease-ttl", "60s"});
  ASSERT_TRUE(master.ok()) << master.error().ToString();
  auto behind = ServerProcess::StartStore(
      **master, "behind", {"--dram", "512mb", "--data-port", port, "--data-advertise", proxy.address()});
  ASSERT_TRUE(behind.ok()) << behind.error().ToString();
  auto plain = ServerProcess::StartStore(**master, "plain", {"--dram", "256mb"});
  ASSERT_TRUE(plain.ok()) << plain.error().ToString();
  ClientOptions options;
  options.master = MasterOption(**master);
  options.transport = TransportChoice::kTcp;
  options.timeout_ms = HangGuardMs(20'000);
  const auto connect = [&] { return std::move(Client::Connect(options)).value(); };
  ASSERT_TRUE(Eventually([&] { return connect()->Stores()->size() == 2; }));
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (const size_t size : {size_t{1}, kMiB, kMiB + 1, 64 * kMiB}) {
    const auto value = Bytes(size, size);
    ASSERT_TRUE(connect()->Put("one", value, {.replace = true, .excluded_store = "plain"}).ok());
    ASSERT_EQ(connect()->Put("two", value, {.replace = true, .replicas = 2})->replicas, 2u);
    for (int round = 0; round < (size > 2 * kMiB ? 1 : 2); ++round) {
      // Behind the greeting: in a header, or in the payload of the first slice.
      const uint64_t spot = 72 + (round == 0 ? random.Below(48) : 48 + random.Below(std::min(size, kMiB)));
      proxy.Flip(FlippingProxy::Direction::kToClient, spot, static_cast<int>(random.Below(8)));
      auto client = connect();
      auto two = client->Get("two");
      ASSERT_TRUE(two.ok()) << size << " at " << spot << ": " << two.error().ToString();
      EXPECT_TRUE(Same((*two)->span(), value)) << "the next replica is tried";
      client = connect();
      auto one = client->Get("one");
      if (one.ok() && one->has_value()) {
        EXPECT_TRUE(Same((*one)->span(), value)) << size << " at " << spot;
      }
      proxy.Clear();
      // A damaged write is never published, or is found by the first read.
      const uint64_t at = 100 + random.Below(size + 200);
      proxy.Flip(FlippingProxy::Direction::kToServer, at, static_cast<int>(random.Below(8)));
      const auto changed = Bytes(size, size + 1);
      const std::string key = "written" + std::to_string(size) + "/" + std::to_string(round);
      auto put = connect()->Put(key, changed, {.excluded_store = "plain", .timeout_ms = HangGuardMs(5'000)});
      proxy.Clear();
      auto got = connect()->Get(key);
      if (got.ok() && got->has_value()) {
        EXPECT_TRUE(Same((*got)->span(), changed)) << size << " at " << at;
      } else if (!got.ok()) {
        EXPECT_EQ(got.error().code(), ErrorCode::kChecksum) << got.error().ToString();
      }
      (void)connect()->Remove(key);
      (void)put;
    }
  }
  EXPECT_GT(proxy.flips(), 4u);
}

// P-15: what the client says of itself to a master, and what comes of it.
TEST(Versions, P15_AMasterRefusesAnotherMajorAtTheGreeting) {
  Cluster cluster(1);
  const auto greet = [&](const char* version) {
    resp::ConnectionOptions options;
    options.host = cluster.master().host();
    options.port = cluster.master().port();
    options.greeting = {{"TICKET", "HOST", "boot/here", "PROTO", version}};
    auto connection = resp::Connection::Create(options);
    const std::string_view set[] = {"SET", "k", "v"}, get[] = {"GET", "k"};
    auto wrote = connection->Call(set, HangGuardMs(10'000));
    auto read = connection->Call(get, HangGuardMs(10'000));
    EXPECT_EQ(wrote.ok(), read.ok()) << "never that reads work and writes fail";
    return wrote.ok() ? std::string(wrote->text) : wrote.error().ToString();
  };
  EXPECT_EQ(greet("1.0"), "OK");
  EXPECT_EQ(greet("1.7"), "OK") << "a newer minor";
  const std::string refused = greet("2.0");
  EXPECT_EQ(refused.rfind("NOPROTO", 0), 0u) << refused;
  EXPECT_NE(refused.find("2.0"), std::string::npos) << refused;
  EXPECT_NE(refused.find("1.0"), std::string::npos) << refused;
  Direct direct(cluster.Options(), TransportChoice::kTcp);
  EXPECT_GE(Figure(direct, "transfer", "versions_refused"), 1);
  const std::string log = cluster.master().log();
  EXPECT_NE(log.find("control protocol 2.0, this master 1.0"), std::string::npos) << log;
}

}  // namespace
}  // namespace tiercel::test
