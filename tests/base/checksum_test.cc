#include "base/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checksum_kernels.h"
#include "base/random.h"

namespace tiercel {
namespace {

std::vector<std::byte> RandomBytes(Random* random, size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random->Next());
  return bytes;
}

// Input of the reference implementation's self-test.
std::vector<std::byte> SanityBytes(size_t n) {
  std::vector<std::byte> bytes(n);
  uint64_t generator = 2654435761u;
  for (std::byte& b : bytes) {
    b = static_cast<std::byte>(generator >> 56);
    generator *= 11400714785074694797u;
  }
  return bytes;
}

std::vector<const internal::ChecksumKernels*> Available() {
  std::vector<const internal::ChecksumKernels*> kernels = {&internal::kSse2Kernels};
  if (__builtin_cpu_supports("avx2")) kernels.push_back(&internal::kAvx2Kernels);
  return kernels;
}

TEST(Checksum, PublishedVectors) {
  // XXH3_64bits of the self-test's bytes, seed 0 and seed 0x9e3779b185ebca8d.
  EXPECT_EQ(HashBytes({}), 0x2d06800538d394c2u);
  EXPECT_EQ(HashBytes(SanityBytes(1)), 0xc44bdff4074eecdbu);
  EXPECT_EQ(HashBytes(SanityBytes(6)), 0x27b56a84cd2d7325u);
  EXPECT_EQ(HashBytes(SanityBytes(12)), 0xa713daf0dfbb77e7u);
  EXPECT_EQ(HashBytes(SanityBytes(24)), 0xa3fe70bf9d3510ebu);
  EXPECT_EQ(HashBytes(SanityBytes(48)), 0x397da259ecba1f11u);
  EXPECT_EQ(HashBytes(SanityBytes(80)), 0xbcdefbbb2c47c90au);
  EXPECT_EQ(HashBytes(SanityBytes(195)), 0xcd94217ee362ec3au);
  EXPECT_EQ(HashBytes(SanityBytes(403)), 0xcdeb804d65c6dea4u);
  EXPECT_EQ(HashBytes(SanityBytes(512)), 0x617e49599013cb6bu);
  EXPECT_EQ(HashBytes(SanityBytes(2048)), 0xdd59e2c3a5f038e0u);
  EXPECT_EQ(HashBytes(SanityBytes(2240)), 0x6e73a90539cf2948u);
  EXPECT_EQ(HashBytes(SanityBytes(2367)), 0xcb37aeb9e5d361edu);
}

TEST(Checksum, InstructionSetsAgree) {
  EXPECT_EQ(ChecksumInstructionSet(), Available().back()->name);
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const std::vector<std::byte> bytes = RandomBytes(&random, 300'000);
  for (int round = 0; round < 400; ++round) {
    const size_t n = round < 300 ? static_cast<size_t>(round) : random.Below(bytes.size());
    const uint64_t hash_seed = random.Next();
    for (const internal::ChecksumKernels* kernels : Available()) {
      EXPECT_EQ(kernels->hash(bytes.data(), n), HashBytes(std::span(bytes).first(n))) << kernels->name << " " << n;
      EXPECT_EQ(kernels->hash_seeded(bytes.data(), n, hash_seed),
                internal::kSse2Kernels.hash_seeded(bytes.data(), n, hash_seed))
          << kernels->name << " " << n;
    }
  }
}

TEST(Checksum, CopyAndHashCopiesAllAndNothingElse) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr size_t kLargest = 200'000;
  const std::vector<std::byte> source = RandomBytes(&random, kLargest + 256);
  constexpr std::byte kFence{0x5a};
  for (int round = 0; round < 600; ++round) {
    size_t n = random.Below(kLargest);
    if (round < 100) n = static_cast<size_t>(round);
    if (round >= 100 && round < 300) n = 16 * 1024 + random.Below(300) - 150;
    const size_t from = random.Below(128), to = 1 + random.Below(128);
    for (const internal::ChecksumKernels* kernels : Available()) {
      std::vector<std::byte> target(n + to + 64, kFence);
      const uint64_t sum = kernels->copy_and_hash(target.data() + to, source.data() + from, n);
      ASSERT_EQ(sum, HashBytes(std::span(source).subspan(from, n))) << kernels->name << " " << n;
      ASSERT_TRUE(std::equal(source.begin() + static_cast<ptrdiff_t>(from),
                             source.begin() + static_cast<ptrdiff_t>(from + n),
                             target.begin() + static_cast<ptrdiff_t>(to)))
          << kernels->name << " " << n << " from " << from << " to " << to;
      ASSERT_TRUE(std::all_of(target.begin(), target.begin() + static_cast<ptrdiff_t>(to),
                              [](std::byte b) { return b == kFence; }));
      ASSERT_TRUE(std::all_of(target.begin() + static_cast<ptrdiff_t>(to + n), target.end(),
                              [](std::byte b) { return b == kFence; }));
    }
  }
  EXPECT_EQ(CopyAndHash(nullptr, nullptr, 0), HashBytes({}));
}

TEST(Checksum, KeySeedTellsNamespacesAndKeysApart) {
  EXPECT_EQ(KeySeed(0, "k"), KeySeed(0, "k"));
  EXPECT_NE(KeySeed(0, "k"), KeySeed(1, "k"));
  EXPECT_NE(KeySeed(0, "k"), KeySeed(0, "K"));
  // The definition, for keys on both sides of what is hashed on the stack.
  for (const size_t n : {size_t{0}, size_t{1}, size_t{511}, size_t{512}, size_t{513}, size_t{kMaxKeyBytes}}) {
    std::string key(n, 'x');
    std::string message = std::string("\x07\x01\x00\x00", 4) + key;
    EXPECT_EQ(KeySeed(0x107, key), HashBytes(std::as_bytes(std::span(message)))) << n;
  }
}

TEST(Checksum, ObjectSumCoversSizeSumsAndSeed) {
  const std::vector<uint64_t> two = {1, 2};
  const uint64_t sum = ObjectSum(9, kBlockBytes + 1, two);
  EXPECT_NE(sum, ObjectSum(8, kBlockBytes + 1, two));
  EXPECT_NE(sum, ObjectSum(9, kBlockBytes + 2, two));
  const std::vector<uint64_t> turned = {2, 1};
  EXPECT_NE(sum, ObjectSum(9, kBlockBytes + 1, turned));
  // The definition, below and above what fits the stack.
  for (const uint64_t blocks : {0, 1, 2, 63, 64, 1000}) {
    std::vector<uint64_t> sums(blocks);
    std::iota(sums.begin(), sums.end(), 5);
    std::vector<uint64_t> message = {blocks * kBlockBytes};
    message.insert(message.end(), sums.begin(), sums.end());
    EXPECT_EQ(ObjectSum(77, blocks * kBlockBytes, sums),
              internal::kSse2Kernels.hash_seeded(message.data(), message.size() * 8, 77));
  }
}

TEST(Checksum, SizesWithTrailer) {
  EXPECT_EQ(StoredBytes(0), 0u);
  EXPECT_EQ(StoredBytes(kBlockBytes), kBlockBytes);
  EXPECT_EQ(StoredBytes(kBlockBytes + 1), kBlockBytes + 1 + 16);
  EXPECT_EQ(BlockCount(kMaxValueBytes), 65536u);
}

TEST(Checksum, StreamHasherEqualsOneShot) {
  Random random(3);
  const std::vector<std::byte> bytes = RandomBytes(&random, 100'000);
  StreamHasher hasher;
  EXPECT_EQ(hasher.Digest(), HashBytes({}));
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t n = std::min<size_t>(random.Below(5000), bytes.size() - at);
    hasher.Update(std::span(bytes).subspan(at, n));
    at += n;
    ASSERT_EQ(hasher.Digest(), HashBytes(std::span(bytes).first(at)));
  }
  StreamHasher moved = std::move(hasher);
  EXPECT_EQ(moved.Digest(), HashBytes(bytes));
  moved.Reset();
  EXPECT_EQ(moved.Digest(), HashBytes({}));
}

struct Piece {
  uint64_t offset, length;
};

std::vector<Piece> Cut(Random* random, uint64_t size, uint64_t largest) {
  std::vector<Piece> pieces;
  for (uint64_t at = 0; at < size;) {
    const uint64_t n = std::min(size - at, 1 + random->Below(largest));
    pieces.push_back({at, n});
    at += n;
  }
  return pieces;
}

// Pieces in order, shuffled, and interleaved over blocks all give the sums of the whole value.
TEST(BlockHasher, AnyOrderGivesTheSameSums) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int round = 0; round < 40; ++round) {
    const uint64_t size = random.OneIn(4) ? random.Below(5) * kBlockBytes : random.Below(6 * kBlockBytes);
    const std::vector<std::byte> value = RandomBytes(&random, size);
    std::vector<Piece> pieces = Cut(&random, size, 700'000);
    if (round % 3 == 1) {
      for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random.Below(i)]);
    }
    if (round % 3 == 2) {
      std::stable_sort(pieces.begin(), pieces.end(),
                       [](const Piece& a, const Piece& b) { return a.offset % kBlockBytes < b.offset % kBlockBytes; });
    }
    BlockHasher hasher(size);
    for (const Piece& piece : pieces) hasher.Feed(piece.offset, std::span(value).subspan(piece.offset, piece.length));
    const std::vector<uint64_t> sums = hasher.Finish(value);
    ASSERT_EQ(ObjectSum(1, size, sums), ObjectSumOf(1, value)) << "size " << size;
  }
}

TEST(BlockHasher, InOrderNeedsNoLookBack) {
  Random random(4);
  const std::vector<std::byte> value = RandomBytes(&random, 3 * kBlockBytes + 5);
  BlockHasher hasher(value.size());
  // Two connections, each with blocks of its own, in turn.
  for (uint64_t at = 0; at < kBlockBytes; at += 65536) {
    hasher.Feed(at, std::span(value).subspan(at, 65536));
    hasher.Feed(2 * kBlockBytes + at, std::span(value).subspan(2 * kBlockBytes + at, 65536));
  }
  hasher.SetBlock(1, HashBytes(std::span(value).subspan(kBlockBytes, kBlockBytes)));
  hasher.Feed(3 * kBlockBytes, std::span(value).subspan(3 * kBlockBytes));
  EXPECT_EQ(ObjectSum(0, value.size(), hasher.Finish({})), ObjectSumOf(0, value));
}

TEST(BlockHasher, MoreBlocksUnderWayThanStates) {
  constexpr uint64_t kBlocks = 100;
  Random random(5);
  const std::vector<std::byte> value = RandomBytes(&random, kBlocks * kBlockBytes);
  BlockHasher hasher(value.size());
  for (const uint64_t at : {uint64_t{0}, kBlockBytes / 2}) {
    for (uint64_t block = 0; block < kBlocks; ++block) {
      hasher.Feed(block * kBlockBytes + at, std::span(value).subspan(block * kBlockBytes + at, kBlockBytes / 2));
    }
  }
  EXPECT_EQ(ObjectSum(0, value.size(), hasher.Finish(value)), ObjectSumOf(0, value));
}

TEST(BlockHasher, RetriedBlockIsHashedAnew) {
  Random random(6);
  std::vector<std::byte> value = RandomBytes(&random, 2 * kBlockBytes);
  BlockHasher hasher(value.size());
  hasher.Feed(0, std::span(value).first(kBlockBytes + 1000));
  for (std::byte& b : value) b ^= std::byte{1};
  hasher.ResetBlock(0);
  hasher.ResetBlock(1);
  hasher.Feed(0, value);
  EXPECT_EQ(ObjectSum(0, value.size(), hasher.Finish({})), ObjectSumOf(0, value));
}

// Bytes that are fed again without a reset are not trusted: memory decides.
TEST(BlockHasher, RepeatedPieceFallsBackToMemory) {
  Random random(7);
  std::vector<std::byte> value = RandomBytes(&random, kBlockBytes);
  BlockHasher hasher(value.size());
  hasher.Feed(0, value);
  value[17] ^= std::byte{1};
  hasher.Feed(0, std::span(value).first(64));
  EXPECT_EQ(ObjectSum(0, value.size(), hasher.Finish(value)), ObjectSumOf(0, value));
}

TEST(BlockHasher, EmptyValue) {
  BlockHasher hasher(0);
  hasher.Feed(0, {});
  EXPECT_TRUE(hasher.Finish({}).empty());
}

}  // namespace
}  // namespace tiercel
