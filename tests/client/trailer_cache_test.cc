#include "client/trailer_cache.h"

#include <gtest/gtest.h>

namespace tiercel::client {
namespace {

TrailerCache::Sums Sums(size_t n) { return std::make_shared<const std::vector<uint64_t>>(n, 7); }

TEST(TrailerCache, KeepsWhatWasUsedLatelyWithinItsBound) {
  TrailerCache cache;
  cache.Add({1}, Sums(65'536));  // 512 KiB, the largest value's
  for (uint64_t v = 2; v < 100; ++v) {
    cache.Add({v}, Sums(65'536));
    ASSERT_LE(cache.bytes(), TrailerCache::kMaxBytes);
    ASSERT_NE(cache.Find({1}), nullptr) << "used again each time";
  }
  EXPECT_EQ(cache.Find({2}), nullptr);
  ASSERT_NE(cache.Find({99}), nullptr);
  EXPECT_EQ(cache.Find({99})->size(), 65'536u);
  cache.Clear();
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.Find({1}), nullptr);
}

TEST(TrailerCache, ManySmallOnesAreBoundedToo) {
  TrailerCache cache;
  for (uint64_t v = 1; v < 200'000; ++v) cache.Add({v}, Sums(2));
  EXPECT_LE(cache.bytes(), TrailerCache::kMaxBytes);
}

}  // namespace
}  // namespace tiercel::client
