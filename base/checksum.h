// Checksums of values: XXH3-64 per block of kBlockBytes, and one object checksum over length and block sums.
//
// Object checksum = XXH3-64 over (size as 8 bytes little-endian, then each block sum as 8 bytes
// little-endian, in order), seeded with KeySeed(namespace, key), so that bytes of another object never pass.
// An object of more than one block carries its block sums as a trailer (8 bytes a block, little-endian)
// behind the value, in the same extents. XXH3: https://github.com/Cyan4973/xxHash (doc/xxhash_spec.md).
//
// The instruction set (AVX2 or SSE2) is chosen once at run time. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tiercel/limits.h"

namespace tiercel {

// XXH3-64 with seed 0 of a whole block (or of any bytes).
uint64_t HashBytes(std::span<const std::byte> bytes);

// Copies n bytes and returns HashBytes of what was copied, reading the source once: a piece of 8 to 16 KiB is
// hashed, then copied with non-temporal stores while it is in cache. REQUIRES: no overlap.
uint64_t CopyAndHash(void* target, const void* source, size_t n);

// XXH3-64 of (namespace as 4 bytes little-endian, key).
uint64_t KeySeed(uint32_t name_space, std::string_view key);

constexpr uint64_t BlockCount(uint64_t size) { return (size + kBlockBytes - 1) / kBlockBytes; }
// Bytes of the trailer: none for an object of at most one block.
constexpr uint64_t TrailerBytes(uint64_t size) { return size > kBlockBytes ? BlockCount(size) * 8 : 0; }
// What a replica of a value occupies before rounding: the value and its trailer.
constexpr uint64_t StoredBytes(uint64_t size) { return size + TrailerBytes(size); }

uint64_t ObjectSum(uint64_t key_seed, uint64_t size, std::span<const uint64_t> block_sums);

// Object checksum of a value that is all in memory.
uint64_t ObjectSumOf(uint64_t key_seed, std::span<const std::byte> value);

// XXH3-64 over pieces in order.
class StreamHasher {
 public:
  StreamHasher();
  ~StreamHasher();
  StreamHasher(StreamHasher&&) noexcept;
  StreamHasher& operator=(StreamHasher&&) noexcept;
  void Reset();
  void Update(std::span<const std::byte> piece);
  uint64_t Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Collects the block sums of one value whose bytes arrive in pieces, in any order of blocks. A piece that
// continues its block in order is hashed as it is fed (while it is in cache); a block with pieces out of order
// is hashed from memory in Finish. Not thread-safe; different blocks may use different hashers.
class BlockHasher {
 public:
  explicit BlockHasher(uint64_t size);
  ~BlockHasher();
  // Bytes [offset, offset + piece.size()) of the value. Pieces may cross block borders, never repeat.
  void Feed(uint64_t offset, std::span<const std::byte> piece);
  // A whole block's sum is known from elsewhere (CopyAndHash).
  void SetBlock(uint64_t block, uint64_t sum);
  // The block's bytes will be fed anew (a retry).
  void ResetBlock(uint64_t block);
  // All block sums; `value` is read only for the blocks that could not be hashed on the way.
  std::vector<uint64_t> Finish(std::span<const std::byte> value);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Name of the instruction set in use: "avx2" or "sse2".
std::string_view ChecksumInstructionSet();

}  // namespace tiercel
