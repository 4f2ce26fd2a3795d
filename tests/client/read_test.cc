// Reads through the client over a fake master and a fake engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/harness.h"

namespace tiercel::test {
namespace {

constexpr uint64_t kBlock = kBlockBytes;

TEST(Read, WholeValuesOfAllShapesComeBackVerified) {
  for (uint64_t extent : {uint64_t{0}, uint64_t{64} * 1000, kBlock / 2, 3 * kBlock}) {
    for (bool backwards : {false, true}) {
      Harness h;
      h.master.extent_bytes = extent;
      h.master.resp3 = backwards;
      h.engine->pieces_backwards = backwards;
      h.engine->pieces_again = backwards;
      for (uint64_t size : {uint64_t{0}, uint64_t{1}, kBlock, kBlock + 1, 4 * kBlock + 77}) {
        const std::string key = "k" + std::to_string(size);
        auto value = RandomBytes(size, size);
        h.MustPut(key, value);
        auto got = h.client().Get(key);
        ASSERT_TRUE(got.ok()) << got.error().ToString();
        ASSERT_TRUE(got->has_value());
        EXPECT_TRUE(Same((*got)->span(), value)) << size << " in extents of " << extent;

        std::vector<std::byte> memory(size + 10);
        auto into = h.client().GetInto(key, memory);
        ASSERT_TRUE(into.ok());
        EXPECT_EQ(*into, std::optional(size));
        EXPECT_TRUE(Same(std::span(memory).first(size), value));
      }
    }
  }
}

TEST(Read, O55_AbsentIsNotEmpty) {
  Harness h;
  h.MustPut("deleted", RandomBytes(10, 1));
  EXPECT_TRUE(*h.client().Remove("deleted"));
  h.master.Answer({"PUTSTART", "reserved", "10"});
  h.MustPut("empty", {});
  h.MustPut("three", RandomBytes(3, 2));
  const std::vector<std::string_view> keys = {"missing", "deleted", "reserved", "empty", "three"};
  const std::vector<int> size = {-1, -1, -1, 0, 3};
  auto batch = h.client().GetBatch(keys);
  auto exist = h.client().ExistsBatch(keys);
  for (size_t i = 0; i < keys.size(); ++i) {
    auto got = h.client().Get(keys[i]);
    ASSERT_TRUE(got.ok() && batch[i].ok() && exist[i].ok());
    EXPECT_EQ(got->has_value(), size[i] >= 0) << keys[i];
    EXPECT_EQ(batch[i]->has_value(), size[i] >= 0) << keys[i];
    if (size[i] >= 0) {
      EXPECT_EQ((*batch[i])->size(), static_cast<size_t>(size[i]));
    }
    EXPECT_EQ(*exist[i], size[i] >= 0);
    EXPECT_EQ(*h.client().Exists(keys[i]), size[i] >= 0);
    auto bytes = h.client().Size(keys[i]);
    EXPECT_EQ(bytes->has_value(), size[i] >= 0);
    if (size[i] >= 0) {
      EXPECT_EQ(**bytes, static_cast<uint64_t>(size[i]));
    }
  }
}

TEST(Read, O13_ProbingWhatIsNotThereChangesNothing) {
  Harness h;
  const resp::Reply plan = h.master.Answer({"PUTSTART", "k1", "4"});
  for (std::string_view key : {"k1", "k3"}) {
    EXPECT_FALSE(*h.client().Exists(key));
    EXPECT_FALSE(h.client().Get(key)->has_value());
    EXPECT_FALSE(h.client().Stat(key)->has_value());
    EXPECT_FALSE(*h.client().Remove(key));
    EXPECT_EQ(*h.client().View(key), nullptr);
  }
  EXPECT_EQ(h.master.puts.size(), 1u) << "the put goes on";
  EXPECT_EQ(h.engine->reads, 0u);
}

TEST(Read, P01_ZeroBytesNeverReachTheWire) {
  Harness h;
  const auto one = RandomBytes(1, 1), large = RandomBytes(4 << 20, 2);
  const PutItem items[] = {{"a", one}, {"b", {}}, {"c", large}};
  for (auto& put : h.client().PutBatch(items)) ASSERT_TRUE(put.ok());  // the engine refuses operations of length 0
  const std::vector<std::string_view> keys = {"a", "b", "c"};
  auto got = h.client().GetBatch(keys);
  EXPECT_TRUE(Same((*got[0])->span(), one));
  EXPECT_EQ((*got[1])->size(), 0u);
  EXPECT_TRUE(Same((*got[2])->span(), large));
  EXPECT_EQ((*h.client().GetRange("b", 0, 0))->size(), 0u);
  EXPECT_EQ((*h.client().GetRange("c", 5, 0))->size(), 0u);
}

TEST(Read, P02_AnyBytesAsAKeyUpToTheLimit) {
  Harness h;
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& key : {all, std::string("*3\r\n$-1\r\n"), std::string("a\0b", 3), std::string("../../x"),
                                 std::string("x"), std::string(16'384, 'k')}) {
    h.MustPut(key, RandomBytes(20, key.size()));
    EXPECT_TRUE(Same((*h.client().Get(key))->span(), RandomBytes(20, key.size())));
    EXPECT_TRUE(*h.client().Remove(key));
  }
  for (size_t size : {16'385, 65'536}) {
    const std::string key(size, 'k');
    EXPECT_EQ(h.client().Get(key).error().code(), ErrorCode::kTooBig);
    EXPECT_THAT(h.client().Put(key, "v").error().message(), testing::HasSubstr("16384"));
    EXPECT_EQ(h.client().Exists(key).error().code(), ErrorCode::kTooBig);
  }
  EXPECT_EQ(h.client().Get("").error().code(), ErrorCode::kInvalid);
  // In a batch only the bad key fails.
  const std::vector<std::string_view> keys = {"x", "", "y"};
  auto exist = h.client().ExistsBatch(keys);
  EXPECT_TRUE(exist[0].ok() && !exist[1].ok() && exist[2].ok());
  auto got = h.client().GetBatch(keys);
  EXPECT_TRUE(got[0].ok() && !got[1].ok() && got[2].ok());
}

TEST(Read, MemoryThatIsTooSmallNamesTheSize) {
  Harness h;
  h.MustPut("k", RandomBytes(100, 1));
  std::vector<std::byte> memory(99);
  auto into = h.client().GetInto("k", memory);
  ASSERT_FALSE(into.ok());
  EXPECT_EQ(into.error().code(), ErrorCode::kTooBig);
  EXPECT_THAT(into.error().message(), testing::HasSubstr("100"));
  EXPECT_EQ(h.engine->reads, 0u);
}

TEST(Read, RangesFetchTheBlocksTheyTouchAndTheTrailerOnce) {
  for (uint64_t extent : {uint64_t{0}, uint64_t{64} * 10'001}) {
    Harness h;
    h.master.extent_bytes = extent;
    const auto value = RandomBytes(5 * kBlock + 1234, 9);
    h.MustPut("k", value);
    const uint64_t end = value.size();
    struct Range {
      uint64_t offset, length, blocks_bytes;
    };
    bool first = true;
    for (const Range& r : {Range{10, 20, kBlock}, Range{kBlock - 1, 2, 2 * kBlock}, Range{0, kBlock, kBlock},
                           Range{kBlock, 2 * kBlock, 2 * kBlock}, Range{end - 1, 1, 1234},
                           Range{5 * kBlock, 1234, 1234}, Range{kBlock / 2, 3 * kBlock, 4 * kBlock},
                           Range{3 * kBlock + 7, end - 3 * kBlock - 7, 2 * kBlock + 1234}, Range{0, end, end}}) {
      const uint64_t before = h.engine->bytes_read;
      auto got = h.client().GetRange("k", r.offset, r.length);
      ASSERT_TRUE(got.ok()) << got.error().ToString();
      EXPECT_TRUE(Same((*got)->span(), std::span(value).subspan(r.offset, r.length))) << r.offset << "+" << r.length;
      EXPECT_EQ(h.engine->bytes_read - before, r.blocks_bytes + (first ? 6 * 8 : 0)) << r.offset << "+" << r.length;
      first = false;
    }
    for (const auto& [offset, length] : {std::pair(end, uint64_t{1}), std::pair(end + 1, uint64_t{0}),
                                         std::pair(uint64_t{1}, UINT64_MAX), std::pair(UINT64_MAX, uint64_t{2})}) {
      EXPECT_EQ(h.client().GetRange("k", offset, length).error().code(), ErrorCode::kInvalid);
    }
    EXPECT_FALSE(h.client().GetRange("none", 0, 1)->has_value());
  }
}

TEST(Read, ARangeOfADamagedBlockIsNeverGood) {
  Harness h;
  const auto value = RandomBytes(3 * kBlock, 4);
  h.MustPut("k", value);
  h.master.BytesOf(h.master.objects["k"], 0)[kBlock + 5] ^= std::byte{1};
  EXPECT_TRUE(h.client().GetRange("k", 0, 100).ok()) << "the damage is in another block";
  EXPECT_EQ(h.client().GetRange("k", kBlock + 100, 1).error().code(), ErrorCode::kChecksum);
  EXPECT_EQ(h.client().GetRange("k", kBlock - 1, 2).error().code(), ErrorCode::kChecksum);
}

TEST(Read, ADamagedTrailerFailsRangesButNotTheBytesItself) {
  Harness h;
  const auto value = RandomBytes(3 * kBlock, 4);
  h.MustPut("k", value);
  // The trailer lies behind the value.
  *(h.master.BytesOf(h.master.objects["k"], 0).data() + value.size() + 3) ^= std::byte{1};
  EXPECT_EQ(h.client().GetRange("k", 0, 1).error().code(), ErrorCode::kChecksum);
  EXPECT_TRUE(Same((*h.client().Get("k"))->span(), value));
}

TEST(Read, O08_ChecksumsDecide) {
  Harness h;
  h.master.AddStore("s2", 64 << 20);
  std::vector<std::vector<std::byte>> values;
  std::vector<std::string> names;
  std::vector<PutItem> items;
  for (int i = 0; i < 64; ++i) {
    values.push_back(RandomBytes(1000 + i, i));
    names.push_back("k" + std::to_string(i));
  }
  for (int i = 0; i < 64; ++i) items.push_back({names[i], values[i]});
  for (auto& put : h.client().PutBatch(items)) ASSERT_TRUE(put.ok());
  h.MustPut("twin1", values[0]);
  h.MustPut("twin2", values[0]);
  EXPECT_NE(h.master.objects["twin1"].sum, h.master.objects["twin2"].sum);
  const auto fresh = RandomBytes(500, 99);
  const uint64_t before = h.master.objects["k7"].sum;
  h.MustPut("k7", fresh, {.replace = true});
  EXPECT_NE(h.master.objects["k7"].sum, before);
  values[7] = fresh;
  std::vector<std::string_view> keys(names.begin(), names.end());
  auto got = h.client().GetBatch(keys);
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(Same((*got[i])->span(), values[i])) << i;

  h.MustPut("pair", values[3], {.replicas = 2});
  FakeMaster::Object& pair = h.master.objects["pair"];
  ASSERT_EQ(pair.places.size(), 2u);
  h.master.BytesOf(pair, 0)[17] ^= std::byte{4};
  EXPECT_TRUE(Same((*h.client().Get("pair"))->span(), values[3]));
  ASSERT_EQ(h.master.reports.size(), 1u);
  EXPECT_EQ(h.master.reports[0], (FakeMaster::Args{"REPORT", "pair", std::to_string(pair.version.value),
                                                   "s1.0000000000001001", "1.1", "CORRUPT"}));
  h.master.BytesOf(pair, 1)[18] ^= std::byte{4};
  EXPECT_EQ(h.client().Get("pair").error().code(), ErrorCode::kChecksum);
  EXPECT_EQ(h.master.reports.size(), 3u);

  // The places of two objects of one size are exchanged in the index.
  h.MustPut("a", RandomBytes(300, 1));
  h.MustPut("b", RandomBytes(300, 2));
  std::swap(h.master.objects["a"].places, h.master.objects["b"].places);
  EXPECT_EQ(h.client().Get("a").error().code(), ErrorCode::kChecksum);
  EXPECT_EQ(h.client().Get("b").error().code(), ErrorCode::kChecksum);
  // Even when the bytes are equal, they belong to another key.
  std::swap(h.master.objects["twin1"], h.master.objects["twin2"]);
  EXPECT_EQ(h.client().Get("twin1").error().code(), ErrorCode::kChecksum);
}

TEST(Read, O33_FailsOverToTheOtherReplicaByItself) {
  Harness h;
  h.master.AddStore("s2", 64 << 20);
  const auto value = RandomBytes(2 * kBlock + 5, 3);
  h.MustPut("k", value, {.replicas = 2});
  for (ErrorCode code : {ErrorCode::kUnreachable, ErrorCode::kPeerProtocol, ErrorCode::kDeadline}) {
    h.master.reports.clear();
    h.engine->refuse = [code](const transfer::PeerAddress& peer, const auto&) -> std::optional<Error> {
      if (peer.name == "s1") return Error(code, "the test said so");
      return std::nullopt;
    };
    auto got = h.client().Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(Same((*got)->span(), value));
    ASSERT_EQ(h.master.reports.size(), 1u);
    EXPECT_EQ(h.master.reports[0].back(), "UNREACHABLE");
  }
}

TEST(Read, O35_ASilentStoreIsATypedErrorAfterTheMasterWasAskedAgain) {
  Harness h;
  h.MustPut("k", RandomBytes(10, 3));
  h.engine->refuse = [](const auto&, const auto&) { return Error(ErrorCode::kUnreachable, "silent"); };
  const size_t asked = h.master.CountOf("GETREPLICAS");
  auto got = h.client().Get("k");
  EXPECT_EQ(got.error().code(), ErrorCode::kUnreachable);
  EXPECT_GE(h.master.CountOf("GETREPLICAS") - asked, 2u);
  // When the master has given the store up meanwhile, the read is a miss.
  h.master.intercept = [&](const FakeMaster::Args& args) -> std::optional<Result<resp::Reply>> {
    if (args[0] == "REPORT") h.master.objects.erase("k");
    return std::nullopt;
  };
  got = h.client().Get("k");
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->has_value());
}

TEST(Read, AnOldPlaceIsLookedUpAgain) {
  Harness h;
  const auto value = RandomBytes(5000, 3);
  h.MustPut("k", value);
  for (ErrorCode code : {ErrorCode::kOldEpoch, ErrorCode::kStaleIncarnation, ErrorCode::kGrantExpired,
                         ErrorCode::kBadGrant, ErrorCode::kUnknownSegment, ErrorCode::kInUse}) {
    int left = 3;
    h.engine->refuse = [&](const auto&, const auto&) -> std::optional<Error> {
      if (left-- > 0) return Error(code, "old");
      return std::nullopt;
    };
    auto got = h.client().Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(Same((*got)->span(), value));
    EXPECT_TRUE(h.master.reports.empty()) << "nobody is to blame";
  }
}

TEST(Read, ABusyStoreIsWaitedForAndNotBlamed) {
  Harness h;
  h.MustPut("k", RandomBytes(50, 3));
  int left = 2;
  h.engine->refuse = [&](const auto&, const auto&) -> std::optional<Error> {
    if (left-- > 0) return Error(ErrorCode::kAdmissionTimeout, "full");
    return std::nullopt;
  };
  EXPECT_TRUE(h.client().Get("k").ok());
  EXPECT_TRUE(h.master.reports.empty());
  EXPECT_EQ(h.master.CountOf("GETREPLICAS"), 1u);
}

TEST(Read, AnUnknownIncarnationIsAskedFor) {
  Harness h;
  h.MustPut("k", RandomBytes(50, 3));
  EXPECT_TRUE(h.client().Get("k").ok());
  const size_t asked = h.master.CountOf("STORES");
  EXPECT_TRUE(h.client().Get("k").ok());
  EXPECT_EQ(h.master.CountOf("STORES"), asked) << "known stores are not asked for";
  const size_t second = h.master.AddStore("s2", 1 << 20);
  h.master.stores[0].known = false;
  h.MustPut("k2", RandomBytes(60, 4));
  EXPECT_EQ(h.master.objects["k2"].places[0].store, second);
  EXPECT_EQ(h.master.CountOf("STORES"), asked + 1);
}

TEST(Read, AStoreThatNobodyKnowsIsStaleInTheEnd) {
  ClientOptions options;
  options.timeout_ms = 300;
  Harness h(options);
  h.MustPut("k", RandomBytes(50, 3));
  h.master.stores[0].incarnation.value += 1;  // restarted; its objects are not looked after by this fake
  h.master.stores[0].known = false;
  auto got = h.client().Get("k");
  EXPECT_EQ(got.error().code(), ErrorCode::kDeadline) << got.error().ToString();
}

TEST(Read, FewerBytesThanAskedForAreNeverGood) {
  Harness h;
  h.MustPut("k", RandomBytes(5000, 3));
  h.engine->short_by = 1;
  EXPECT_EQ(h.client().Get("k").error().code(), ErrorCode::kLength);
  EXPECT_EQ(h.master.reports.at(0).back(), "CORRUPT");
}

TEST(Read, BatchesKeepOrderAndFailKeyByKey) {
  ClientOptions options;
  options.batch_parallel = 7;
  Harness h(options);
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) {
    names.push_back("k" + std::to_string(i));
    if (i % 3 != 0) h.MustPut(names[i], RandomBytes(i * 1000, i));
  }
  h.master.BytesOf(h.master.objects["k10"], 0)[0] ^= std::byte{1};
  std::vector<std::string_view> keys(names.begin(), names.end());
  auto got = h.client().GetBatch(keys);
  ASSERT_EQ(got.size(), 50u);
  for (int i = 0; i < 50; ++i) {
    if (i == 10) {
      EXPECT_EQ(got[i].error().code(), ErrorCode::kChecksum);
    } else {
      ASSERT_TRUE(got[i].ok());
      ASSERT_EQ(got[i]->has_value(), i % 3 != 0) << i;
      if (i % 3 != 0) {
        EXPECT_TRUE(Same((*got[i])->span(), RandomBytes(i * 1000, i)));
      }
    }
  }
}

TEST(Read, LargeValuesMoveInSteps) {
  for (uint64_t extent : {uint64_t{0}, uint64_t{64} * 12'345}) {
    Harness h;
    h.master.AddStore("s2", 64 << 20);
    h.master.extent_bytes = extent;
    h.step_bytes = 4 << 20;
    const auto value = RandomBytes((17 << 20) + 17, 1);
    h.MustPut("k", value, {.replicas = 2});
    EXPECT_LE(h.engine->largest_batch_bytes, h.step_bytes);
    h.engine->largest_batch_bytes = 0;
    // The second step fails at one copy and goes on at the other.
    int reads = 0;
    h.engine->refuse = [&](const transfer::PeerAddress& peer, const auto&) -> std::optional<Error> {
      if (peer.name == "s1" && ++reads > 5) return Error(ErrorCode::kUnreachable, "gone");
      return std::nullopt;
    };
    auto got = h.client().Get("k");
    ASSERT_TRUE(got.ok()) << got.error().ToString();
    EXPECT_TRUE(Same((*got)->span(), value));
    EXPECT_LE(h.engine->largest_batch_bytes, h.step_bytes);
    h.engine->refuse = nullptr;
    auto range = h.client().GetRange("k", 1000, 15 << 20);
    ASSERT_TRUE(range.ok()) << range.error().ToString();
    EXPECT_TRUE(Same((*range)->span(), std::span(value).subspan(1000, 15 << 20)));
  }
}

TEST(Read, TheTransportChoiceReachesTheEngine) {
  Harness h;
  h.MustPut("k", RandomBytes(10, 1));
  (void)h.client().Get("k");
  EXPECT_EQ(h.engine->last_mask, transfer::kAnyTransport);
  (void)h.client().Get("k", {.transport = TransportChoice::kTcp});
  EXPECT_EQ(h.engine->last_mask, transfer::MaskOf(transfer::TransportKind::kTcp));
}

}  // namespace
}  // namespace tiercel::test
