#include <gtest/gtest.h>

#include <cstring>

#include "client/buffer_cache.h"

namespace tiercel {
namespace {

TEST(Buffer, SizesAndAlignment) {
  EXPECT_EQ(Buffer(0).size(), 0u);
  for (size_t size : {1ul, 63ul, 4095ul, 4096ul, 70'000ul, 1ul << 20, 3ul << 20}) {
    Buffer buffer(size);
    ASSERT_EQ(buffer.size(), size);
    std::memset(buffer.data(), 0x5A, size);
    if (size >= 4096) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 4096, 0u) << size;
    }
  }
}

TEST(Buffer, AMovedFromBufferIsEmpty) {
  Buffer a(100);
  Buffer b = std::move(a);
  EXPECT_EQ(a.size(), 0u);  // NOLINT: that is the point
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(b.size(), 100u);
  a = std::move(b);
  EXPECT_EQ(a.size(), 100u);
}

TEST(BufferCache, LargeMemoryIsUsedAgainAndBounded) {
  auto cache = std::make_shared<BufferCache>();
  const std::byte* first = nullptr;
  {
    Buffer buffer = *cache->Make(8 << 20);
    first = buffer.data();
  }
  EXPECT_EQ(cache->kept_bytes(), size_t{8} << 20);
  Buffer again = *cache->Make((8 << 20) - 5);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.size(), (size_t{8} << 20) - 5);
  EXPECT_EQ(cache->kept_bytes(), 0u);

  std::vector<Buffer> many;
  for (int i = 0; i < 50; ++i) many.push_back(*cache->Make(8 << 20));
  many.clear();
  EXPECT_LE(cache->kept_bytes(), BufferCache::kMaxKept);
  EXPECT_GT(cache->kept_bytes(), BufferCache::kMaxKept / 2);
}

TEST(BufferCache, MuchLargerMemoryIsNotWastedOnSmallValues) {
  auto cache = std::make_shared<BufferCache>();
  {
    Buffer buffer = *cache->Make(64 << 20);
  }
  Buffer small = *cache->Make(1 << 20);
  EXPECT_EQ(cache->kept_bytes(), size_t{64} << 20);
}

TEST(BufferCache, BuffersOutliveTheirCachesOwner) {
  auto cache = std::make_shared<BufferCache>();
  Buffer buffer = *cache->Make(1 << 20);
  cache.reset();
  std::memset(buffer.data(), 1, buffer.size());
}

}  // namespace
}  // namespace tiercel
