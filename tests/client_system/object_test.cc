// Objects through the client and real servers, over every wire.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/checksum.h"
#include "tests/client_system/cluster.h"

namespace tiercel::test {
namespace {

bool Same(std::span<const std::byte> a, std::span<const std::byte> b) { return std::ranges::equal(a, b); }

class Objects : public testing::TestWithParam<Wire> {
 protected:
  TransportChoice wire() const { return GetParam().choice; }
};
INSTANTIATE_TEST_SUITE_P(, Objects, testing::ValuesIn(kWires), WireName);

TEST_P(Objects, ComeBackAsTheyWereInEveryShape) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{65'536}, kBlockBytes - 1, kBlockBytes,
                        kBlockBytes + 1, 9 * kBlockBytes + 4321}) {
    const std::string key = "k" + std::to_string(size);
    const auto value = Bytes(size, size);
    auto put = client->Put(key, value);
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    EXPECT_EQ(put->outcome, PutOutcome::kStored);
    EXPECT_EQ(put->replicas, 1u);
    auto got = client->Get(key);
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    ASSERT_TRUE(got->has_value());
    EXPECT_TRUE(Same((*got)->span(), value)) << size;
    std::vector<std::byte> memory(size + 1);
    auto into = client->GetInto(key, memory);
    ASSERT_TRUE(into.ok()) << into.error().ToString();
    EXPECT_TRUE(Same(std::span(memory).first(**into), value));
    if (size > 2) {
      auto range = client->GetRange(key, size / 3, size / 2);
      ASSERT_TRUE(range.ok()) << range.error().ToString();
      EXPECT_TRUE(Same((*range)->span(), std::span(value).subspan(size / 3, size / 2)));
    }
    auto stat = client->Stat(key);
    ASSERT_TRUE(stat.ok() && stat->has_value());
    EXPECT_EQ((*stat)->size, size);
    EXPECT_EQ((*stat)->version, put->version);
    EXPECT_EQ((*stat)->checksum, ObjectSumOf(KeySeed(0, key), value));
    EXPECT_TRUE(*client->Remove(key));
    EXPECT_FALSE(client->Get(key)->has_value());
  }
}

TEST_P(Objects, BatchesKeepOrder) {
  Cluster cluster(2);
  auto client = cluster.Connect(wire());
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
  std::vector<PutItem> items;
  for (int i = 0; i < 200; ++i) {
    names.push_back("k" + std::to_string(i));
    values.push_back(Bytes(i % 5 == 0 ? 200'000 : i * 7, i));
  }
  for (int i = 0; i < 200; ++i) items.push_back({names[i], values[i]});
  for (const auto& put : client->PutBatch(items)) ASSERT_TRUE(put.ok()) << put.error().ToString();
  names[17] = "missing";
  std::vector<std::string_view> keys(names.begin(), names.end());
  auto got = client->GetBatch(keys);
  auto exist = client->ExistsBatch(keys);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(got[i].ok()) << got[i].error().ToString();
    EXPECT_EQ(*exist[i], i != 17);
    ASSERT_EQ(got[i]->has_value(), i != 17);
    if (i != 17) {
      EXPECT_TRUE(Same((*got[i])->span(), values[i])) << i;
    }
  }
  EXPECT_EQ(*client->MatchPrefix(keys), 17u);
  size_t seen = 0;
  EXPECT_TRUE(client
                  ->Scan("k1*",
                         [&](std::string_view key) {
                           EXPECT_TRUE(key.starts_with("k1"));
                           ++seen;
                           return true;
                         })
                  .ok());
  EXPECT_GE(seen, 111u);
  size_t removed = 0;
  for (const auto& one : client->RemoveBatch(keys)) removed += one.ok() && *one ? 1 : 0;
  EXPECT_EQ(removed, 199u);
}

TEST_P(Objects, O07_AKeyThatExists) {
  Cluster cluster(1);
  auto first = cluster.Connect(wire()), second = cluster.Connect(wire());
  ASSERT_TRUE(first->Put("k", "AAAA").ok());
  auto conflict = second->Put("k", "BBBB");
  ASSERT_FALSE(conflict.ok());
  EXPECT_EQ(conflict.error().code(), ErrorCode::kExists);
  auto same = second->Put("k", "AAAA");
  ASSERT_TRUE(same.ok()) << same.error().ToString();
  EXPECT_EQ(same->outcome, PutOutcome::kAlreadyThere);
  EXPECT_EQ((*second->Get("k"))->view(), "AAAA");
  // A put under way is in flight for others, and absent once it is revoked.
  const std::string_view start[] = {"PUTSTART", "j", "4"};
  ASSERT_TRUE(first->Command(start).ok());
  EXPECT_EQ(second->Put("j", "AAAA").error().code(), ErrorCode::kInFlight);
  EXPECT_FALSE(*second->Exists("j"));
  first->Close();  // an orphan: the next put takes over
  EXPECT_TRUE(Eventually([&] { return second->Put("j", "AAAA").ok(); }));
}

TEST_P(Objects, O08_FlippedBitsAreNeverGood) {
  Cluster cluster(2);
  auto client = cluster.Connect(wire());
  const auto value = Bytes(3 * kBlockBytes + 99, 1);
  ASSERT_EQ(client->Put("k", value, {.replicas = 2})->replicas, 2u);
  auto stat = client->Stat("k");
  ASSERT_EQ((*stat)->replicas.size(), 2u);
  const auto flip = [&](size_t i) {
    const ObjectStat::Replica& replica = (*stat)->replicas[i];
    FlipBit(cluster.store(replica.store), replica.extents[0].offset + 1'234'567 + i);
  };
  flip(0);
  for (int i = 0; i < 4; ++i) {
    auto got = client->Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(Same((*got)->span(), value));
  }
  flip(1);
  auto got = client->Get("k");
  if (got.ok()) {
    EXPECT_FALSE(got->has_value()) << "both copies are bad: an error, or a miss once they were dropped";
  } else {
    EXPECT_EQ(got.error().code(), ErrorCode::kChecksum) << got.error().ToString();
  }
}

TEST_P(Objects, O33_OneOfTwoStoresDies) {
  Cluster cluster(2);
  auto client = cluster.Connect(wire());
  std::vector<std::string> names;
  for (int i = 0; i < 16; ++i) {
    names.push_back("k" + std::to_string(i));
    auto put = client->Put(names[i], Bytes(100'000 + i, i), {.replicas = 2});
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    ASSERT_EQ(put->replicas, 2u);
    ASSERT_TRUE(client->Get(names[i]).ok());
  }
  cluster.store(0).Kill();
  for (int i = 0; i < 16; ++i) {
    auto got = client->Get(names[i]);
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    ASSERT_TRUE(got->has_value());
    EXPECT_TRUE(Same((*got)->span(), Bytes(100'000 + i, i)));
  }
  std::vector<std::string_view> keys(names.begin(), names.end());
  for (auto& got : client->GetBatch(keys)) EXPECT_TRUE(got.ok() && got->has_value());
  auto put = client->Put("new", Bytes(1000, 1));
  EXPECT_TRUE(put.ok()) << put.error().ToString();
}

TEST_P(Objects, O37_ReadersOfTheOldVersionGoOn) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  const auto a = Bytes(1 << 20, 1), b = Bytes((1 << 20) + 5, 2);
  ASSERT_TRUE(client->Put("k", a).ok());
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> reads{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      auto own = cluster.Connect(wire());
      while (!stop) {
        auto got = own->Get("k");
        ASSERT_TRUE(got.ok()) << got.error().ToString();
        ASSERT_TRUE(got->has_value());
        ASSERT_TRUE(Same((*got)->span(), a) || Same((*got)->span(), b)) << "never a mix";
        ++reads;
      }
    });
  }
  Version last{};
  for (int i = 0; i < 20; ++i) {
    auto put = client->Put("k", i % 2 == 0 ? b : a, {.replace = true});
    ASSERT_TRUE(put.ok()) << put.error().ToString();
    EXPECT_GT(put->version, last);
    last = put->version;
  }
  EXPECT_TRUE(Eventually([&] { return reads > 20; }));
  stop = true;
  for (auto& reader : readers) reader.join();
}

TEST_P(Objects, O55_AbsentIsNotEmpty) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  ASSERT_TRUE(client->Put("deleted", "x").ok());
  ASSERT_TRUE(*client->Remove("deleted"));
  const std::string_view start[] = {"PUTSTART", "reserved", "4"};
  ASSERT_TRUE(client->Command(start).ok());
  ASSERT_TRUE(client->Put("empty", "").ok());
  ASSERT_TRUE(client->Put("three", "abc").ok());
  const std::vector<std::string_view> keys = {"missing", "deleted", "reserved", "empty", "three"};
  auto got = client->GetBatch(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(got[i].ok());
    EXPECT_EQ(got[i]->has_value(), i >= 3) << keys[i];
    EXPECT_EQ(*client->Exists(keys[i]), i >= 3) << keys[i];
    EXPECT_EQ(client->Size(keys[i])->has_value(), i >= 3);
  }
  EXPECT_EQ((*got[3])->size(), 0u);
  EXPECT_EQ((*got[4])->view(), "abc");
  EXPECT_EQ(**client->Size("empty"), 0u);
  client->Close();
  client->Close();
  EXPECT_FALSE(client->Healthy());
}

TEST_P(Objects, P02_AnyBytesAsAKey) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& key : {all, std::string("*3\r\n$-1\r\n"), std::string("a\0b", 3), std::string("../../x"),
                                 std::string("x"), std::string(16'384, 'k')}) {
    ASSERT_TRUE(client->Put(key, key).ok());
    EXPECT_EQ((*client->Get(key))->view(), key);
    bool found = false;
    ASSERT_TRUE(client->Scan("*", [&](std::string_view seen) { return !(found = found || seen == key); }).ok());
    EXPECT_TRUE(found);
    EXPECT_TRUE(*client->Remove(key));
  }
  EXPECT_EQ(client->Put(std::string(16'385, 'k'), "v").error().code(), ErrorCode::kTooBig);
  EXPECT_TRUE(client->Healthy());
}

TEST_P(Objects, ManyThreadsAndKeysAgree) {
  Cluster cluster(2, "128mb");
  auto client = cluster.Connect(wire());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        const std::string key = std::to_string(t) + "/" + std::to_string(i);
        const auto value = Bytes((i * 37'123) % 1'500'000, t * 1000 + i);
        auto put = client->Put(key, value, {.replace = true});
        ASSERT_TRUE(put.ok()) << put.error().ToString();
        auto got = client->Get(key);
        ASSERT_TRUE(got.ok()) << got.error().ToString();
        ASSERT_TRUE(got->has_value());
        ASSERT_TRUE(Same((*got)->span(), value));
        if (i % 4 == 3) (void)client->Remove(key);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_P(Objects, RegisteredMemoryIsPutWithoutACopyOfOurs) {
  Cluster cluster(1);
  auto client = cluster.Connect(wire());
  auto memory = client->AllocateRegistered(5 * kBlockBytes + 100);
  ASSERT_TRUE(memory.ok()) << memory.error().ToString();
  const auto value = Bytes((*memory)->span().size(), 3);
  std::ranges::copy(value, (*memory)->span().begin());
  ASSERT_TRUE(client->Put("k", (*memory)->span()).ok());
  std::ranges::fill((*memory)->span(), std::byte{0});
  auto into = client->GetInto("k", (*memory)->span());
  ASSERT_TRUE(into.ok()) << into.error().ToString();
  EXPECT_TRUE(Same((*memory)->span(), value));
  // Out of the middle, and at an odd place.
  ASSERT_TRUE(client->Put("part", (*memory)->span().subspan(1001, 2 * kBlockBytes)).ok());
  EXPECT_TRUE(Same((*client->Get("part"))->span(), std::span(value).subspan(1001, 2 * kBlockBytes)));
  client->Close();
  memory->reset();  // outlives the client's connections
}

}  // namespace
}  // namespace tiercel::test
