#include "server/node/verify.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "base/random.h"
#include "tests/node/store_fixture.h"

namespace tiercel::node {
namespace {

class VerifyTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kSegment = 8 << 20;

  VerifyTest() : target_({.incarnation = kTestStore}) {
    auto segment = std::make_unique<TestSegment>(2, 41, kSegment);
    base_ = segment->base();
    EXPECT_TRUE(target_.AddSegment(std::move(segment)).ok());
  }
  // Lays the object out in extents of odd places, as many as fit.
  VerifyOrder Store(uint64_t size, uint64_t extent_bytes) {
    VerifyOrder order{
        .version = Version{7}, .name_space = 3, .key = "k", .size = size, .sum = 0, .place = {2, 41}, .extents = {}};
    Random random(size + extent_bytes);
    std::vector<std::byte> value(size);
    for (auto& b : value) b = static_cast<std::byte>(random.Next());
    std::vector<uint64_t> sums;
    for (uint64_t at = 0; at < size; at += kBlockBytes) {
      sums.push_back(HashBytes(std::span(value).subspan(at, std::min(kBlockBytes, size - at))));
    }
    order.sum = ObjectSum(KeySeed(3, "k"), size, sums);
    if (size > kBlockBytes) {
      const auto* trailer = reinterpret_cast<const std::byte*>(sums.data());
      value.insert(value.end(), trailer, trailer + 8 * sums.size());
    }
    uint64_t place = 0;
    for (uint64_t at = 0; at < value.size();) {
      const uint64_t n = std::min(extent_bytes, value.size() - at);
      std::memcpy(base_ + place, value.data() + at, n);
      order.extents.push_back({place, n});
      at += n;
      place += n + 64;
    }
    return order;
  }
  ErrorCode Check(const VerifyOrder& order) {
    const Status checked = VerifyReplica(&target_, order, stop_);
    return checked.ok() ? ErrorCode::kInternal : checked.error().code();
  }

  StoreTarget target_;
  std::byte* base_ = nullptr;
  std::atomic<bool> stop_{false};
};

TEST_P(VerifyTest, GoodThenEveryKindOfDamage) {
  for (uint64_t extent_bytes : {uint64_t{1} << 30, (uint64_t{1} << 20) - 192, uint64_t{70'000}}) {
    const uint64_t size = GetParam();
    const VerifyOrder order = Store(size, extent_bytes);
    ASSERT_EQ(Check(order), ErrorCode::kInternal) << size << " in extents of " << extent_bytes;
    if (size == 0) continue;
    // One flipped bit: first byte, last byte, trailer.
    for (const Extent& extent : {order.extents[0], order.extents[order.extents.size() - 1]}) {
      std::byte& victim = base_[extent.offset + extent.length - 1];
      victim ^= std::byte{1};
      EXPECT_EQ(Check(order), ErrorCode::kChecksum);
      victim ^= std::byte{1};
    }
    VerifyOrder other = order;
    other.key = "j";  // bytes of another object never pass
    EXPECT_EQ(Check(other), ErrorCode::kChecksum);
    other = order;
    other.name_space = 4;
    EXPECT_EQ(Check(other), ErrorCode::kChecksum);
    EXPECT_EQ(Check(order), ErrorCode::kInternal);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, VerifyTest,
                         testing::Values(0, 1, 1000, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1,
                                         3 * kBlockBytes + 17));

TEST_F(VerifyTest, PlacesThatCannotBe) {
  const VerifyOrder good = Store(1000, 1000);
  VerifyOrder order = good;
  order.place.epoch = 40;
  EXPECT_EQ(Check(order), ErrorCode::kOldEpoch);
  order = good;
  order.place.segment = 9;
  EXPECT_EQ(Check(order), ErrorCode::kUnknownSegment);
  order = good;
  order.extents = ExtentList(Extent{kSegment - 10, 1000});
  EXPECT_EQ(Check(order), ErrorCode::kOutOfRange);
  order.extents = ExtentList(Extent{UINT64_MAX - 10, 1000});
  EXPECT_EQ(Check(order), ErrorCode::kOutOfRange);
  order.extents = ExtentList(Extent{0, 999});
  EXPECT_EQ(Check(order), ErrorCode::kLength);
  order = good;
  order.size = kMaxValueBytes + 1;
  EXPECT_EQ(Check(order), ErrorCode::kTooBig);
  order.size = kMaxValueBytes;  // nothing of that size is allocated
  EXPECT_EQ(Check(order), ErrorCode::kLength);
}

TEST_F(VerifyTest, StopsWhenAsked) {
  const VerifyOrder order = Store(3 * kBlockBytes, uint64_t{1} << 30);
  stop_ = true;
  EXPECT_EQ(Check(order), ErrorCode::kCancelled);
}

TEST_F(VerifyTest, AReplacedPlaceIsNotBlamed) {
  const VerifyOrder order = Store(1000, 1000);
  ASSERT_TRUE(target_.BeginLocalWrite({2, 41}, Version{9}, ExtentList(Extent{500, 64})).ok());
  EXPECT_EQ(Check(order), ErrorCode::kStaleVersion);
  target_.EndLocalWrite({2, 41}, Version{9}, ExtentList(Extent{500, 64}));
}

}  // namespace
}  // namespace tiercel::node
