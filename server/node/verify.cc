#include "server/node/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/checksum.h"

namespace tiercel::node {

static_assert(std::endian::native == std::endian::little, "trailers are read as they lie");

namespace {

using PieceSink = std::function<void(std::span<const std::byte>)>;

// Hands [offset, offset + length) of the object to `sink`, in order, in as many pieces as extents are touched.
Status ReadObject(StoreTarget* target, const VerifyOrder& order, uint64_t offset, uint64_t length,
                  const PieceSink& sink) {
  uint64_t begin = 0;  // object offset of the extent at hand
  for (const Extent& extent : order.extents) {
    if (length == 0) break;
    if (offset < begin + extent.length) {
      const uint64_t inside = offset - begin;
      const uint64_t n = std::min(length, extent.length - inside);
      // Revoking is not needed: a piece is hashed faster than anybody would wait for its end.
      TIERCEL_ASSIGN(auto access, target->AdmitOwnRead(order.place, {extent.offset + inside, n}, order.version));
      sink(access->memory);
      offset += n;
      length -= n;
    }
    begin += extent.length;
  }
  if (length > 0) return Error(ErrorCode::kLength, "the extents are shorter than the object");
  return Ok();
}

Result<uint64_t> HashBlock(StoreTarget* target, const VerifyOrder& order, uint64_t block) {
  const uint64_t offset = block * kBlockBytes;
  StreamHasher hasher;
  TIERCEL_TRY(ReadObject(target, order, offset, std::min(kBlockBytes, order.size - offset),
                         [&](std::span<const std::byte> piece) { hasher.Update(piece); }));
  return hasher.Digest();
}

Result<std::vector<uint64_t>> ReadTrailer(StoreTarget* target, const VerifyOrder& order) {
  std::vector<uint64_t> sums(BlockCount(order.size));
  size_t filled = 0;
  TIERCEL_TRY(ReadObject(target, order, order.size, TrailerBytes(order.size), [&](std::span<const std::byte> piece) {
    std::memcpy(reinterpret_cast<std::byte*>(sums.data()) + filled, piece.data(), piece.size());
    filled += piece.size();
  }));
  return sums;
}

Status CheckLengths(const VerifyOrder& order) {
  if (order.size > kMaxValueBytes) return Error(ErrorCode::kTooBig, fmt::format("size {}", order.size));
  uint64_t held = 0;
  for (const Extent& extent : order.extents) {
    if (extent.length > UINT64_MAX - held) return Error(ErrorCode::kLength, "extents without end");
    held += extent.length;
  }
  if (held < StoredBytes(order.size)) {
    return Error(ErrorCode::kLength,
                 fmt::format("extents of {} bytes for {} stored bytes", held, StoredBytes(order.size)));
  }
  return Ok();
}

}  // namespace

Status VerifyReplica(StoreTarget* target, const VerifyOrder& order, const std::atomic<bool>& stop) {
  TIERCEL_TRY(CheckLengths(order));
  const uint64_t seed = KeySeed(order.name_space, order.key);
  const auto mismatch = [&](std::string what) {
    return Error(ErrorCode::kChecksum,
                 fmt::format("{} of version {} is not what was stored", what, order.version.value));
  };
  if (order.size <= kBlockBytes) {
    std::vector<uint64_t> sums;
    if (order.size > 0) {
      TIERCEL_ASSIGN(const uint64_t sum, HashBlock(target, order, 0));
      sums.push_back(sum);
    }
    if (ObjectSum(seed, order.size, sums) != order.sum) return mismatch("the only block");
    return Ok();
  }
  TIERCEL_ASSIGN(const std::vector<uint64_t> trailer, ReadTrailer(target, order));
  if (ObjectSum(seed, order.size, trailer) != order.sum) return mismatch("the trailer");
  for (uint64_t block = 0; block < trailer.size(); ++block) {
    if (stop.load(std::memory_order_relaxed)) return Error(ErrorCode::kCancelled, "the store is stopping");
    TIERCEL_ASSIGN(const uint64_t sum, HashBlock(target, order, block));
    if (sum != trailer[block]) return mismatch(fmt::format("block {}", block));
  }
  return Ok();
}

}  // namespace tiercel::node
