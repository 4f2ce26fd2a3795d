// The free ranges of a segment, found by where they start and by where they end. Private to the extent allocator.
//
// Linear hashing with chains through the ranges themselves: adding a range splits one bucket, so no single call
// ever rehashes everything (a doubling table of a million ranges would stall its caller for tens of milliseconds).
// Ranges and buckets live in chunks that never move. Positions and lengths count granules of kSmallGranule bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace tiercel::internal {

inline constexpr uint32_t kNoRange = UINT32_MAX;

struct FreeRange {
  uint64_t start = 0;
  uint64_t length = 0;
  uint32_t bin_previous = kNoRange, bin_next = kNoRange;  // neighbours in the size class
  uint32_t same_start = kNoRange, same_end = kNoRange;    // next in the buckets' chains
  uint64_t end() const { return start + length; }
};

// An array that grows by chunks.
template <typename T>
class Chunked {
 public:
  T& operator[](uint32_t i) { return chunks_[i >> kShift][i & kMask]; }
  const T& operator[](uint32_t i) const { return chunks_[i >> kShift][i & kMask]; }
  uint32_t size() const { return size_; }
  void push_back(T value) {
    TIERCEL_CHECK(size_ < kNoRange);
    if ((size_ & kMask) == 0) chunks_.push_back(std::make_unique<T[]>(kMask + 1));
    (*this)[size_++] = value;
  }
  uint64_t memory_bytes() const { return chunks_.size() * sizeof(T) * (kMask + 1) + chunks_.capacity() * sizeof(T*); }

 private:
  static constexpr uint32_t kShift = 10, kMask = (1u << kShift) - 1;
  std::vector<std::unique_ptr<T[]>> chunks_;
  uint32_t size_ = 0;
};

// Ranges by position, which `Position` reads from a range; `link` chains those of a bucket.
template <uint64_t (*Position)(const FreeRange&), uint32_t FreeRange::* link>
class BoundaryIndex {
 public:
  explicit BoundaryIndex(Chunked<FreeRange>* ranges) : ranges_(ranges) { buckets_.push_back(kNoRange); }

  uint32_t Find(uint64_t position) const {
    uint32_t range = buckets_[BucketOf(position)];
    while (range != kNoRange && Position((*ranges_)[range]) != position) range = (*ranges_)[range].*link;
    return range;
  }

  void Add(uint32_t range) {
    if (++count_ > buckets_.size()) Split();
    Push(BucketOf(Position((*ranges_)[range])), range);
  }

  // REQUIRES: the range is in the index under the position that it has now.
  void Remove(uint32_t range) {
    uint32_t* at = &buckets_[BucketOf(Position((*ranges_)[range]))];
    while (*at != range) {
      TIERCEL_CHECK(*at != kNoRange);
      at = &((*ranges_)[*at].*link);
    }
    *at = (*ranges_)[range].*link;
    --count_;
  }

  uint64_t memory_bytes() const { return buckets_.memory_bytes(); }

 private:
  // Positions are offsets of allocations, mostly multiples of one size: multiply, and fold the high half down.
  static uint64_t Hash(uint64_t position) {
    const uint64_t product = position * 0x9e3779b97f4a7c15;
    return product ^ product >> 32;
  }
  uint32_t BucketOf(uint64_t position) const {
    const uint64_t hash = Hash(position);
    const auto bucket = static_cast<uint32_t>(hash & (2 * uint64_t{half_} - 1));
    return bucket < buckets_.size() ? bucket : bucket - half_;
  }
  void Push(uint32_t bucket, uint32_t range) {
    (*ranges_)[range].*link = buckets_[bucket];
    buckets_[bucket] = range;
  }
  // Adds one bucket and spreads the chain that it shares a hash with.
  void Split() {
    if (buckets_.size() == 2 * half_) half_ *= 2;
    const uint32_t old = buckets_.size() - half_;
    uint32_t range = buckets_[old];
    buckets_[old] = kNoRange;
    buckets_.push_back(kNoRange);
    while (range != kNoRange) {
      const uint32_t next = (*ranges_)[range].*link;
      Push(BucketOf(Position((*ranges_)[range])), range);
      range = next;
    }
  }

  Chunked<FreeRange>* ranges_;
  Chunked<uint32_t> buckets_;
  uint32_t half_ = 1;  // a power of two: half_ <= number of buckets <= 2 * half_
  uint32_t count_ = 0;
};

}  // namespace tiercel::internal
