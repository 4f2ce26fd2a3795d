// The free ranges of a segment, found by where they start and by where they end. Private to the extent allocator.
//
// Linear hashing with chains through the ranges themselves: adding a range splits one bucket, so no single call
// ever rehashes everything (a doubling table of a million ranges would stall its caller for tens of milliseconds).
// A bucket holds both chains of its positions, because a freed range asks for both at each of its borders.
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

class BoundaryIndex {
 public:
  explicit BoundaryIndex(Chunked<FreeRange>* ranges) : ranges_(*ranges) { buckets_.push_back({}); }

  uint32_t FindStart(uint64_t position) const {
    uint32_t range = buckets_[BucketOf(position)].starts;
    while (range != kNoRange && ranges_[range].start != position) range = ranges_[range].same_start;
    return range;
  }
  uint32_t FindEnd(uint64_t position) const {
    uint32_t range = buckets_[BucketOf(position)].ends;
    while (range != kNoRange && ranges_[range].end() != position) range = ranges_[range].same_end;
    return range;
  }

  void AddStart(uint32_t range) {
    uint32_t& head = buckets_[BucketOf(ranges_[range].start)].starts;
    ranges_[range].same_start = head;
    head = range;
  }
  void AddEnd(uint32_t range) {
    uint32_t& head = buckets_[BucketOf(ranges_[range].end())].ends;
    ranges_[range].same_end = head;
    head = range;
  }

  // REQUIRES: the range is in the index under the border that it has now.
  void RemoveStart(uint32_t range) {
    uint32_t* at = &buckets_[BucketOf(ranges_[range].start)].starts;
    while (*at != range) {
      TIERCEL_CHECK(*at != kNoRange);
      at = &ranges_[*at].same_start;
    }
    *at = ranges_[range].same_start;
  }
  void RemoveEnd(uint32_t range) {
    uint32_t* at = &buckets_[BucketOf(ranges_[range].end())].ends;
    while (*at != range) {
      TIERCEL_CHECK(*at != kNoRange);
      at = &ranges_[*at].same_end;
    }
    *at = ranges_[range].same_end;
  }

  // Called for each range that is added: keeps a bucket for each, by splitting at most one.
  void Reserve(uint32_t count) {
    if (count <= buckets_.size()) return;
    if (buckets_.size() == 2 * half_) half_ *= 2;
    const Bucket old = buckets_[buckets_.size() - half_];
    buckets_[buckets_.size() - half_] = {};
    buckets_.push_back({});
    for (uint32_t range = old.starts; range != kNoRange;) {
      const uint32_t next = ranges_[range].same_start;
      AddStart(range);
      range = next;
    }
    for (uint32_t range = old.ends; range != kNoRange;) {
      const uint32_t next = ranges_[range].same_end;
      AddEnd(range);
      range = next;
    }
  }

  void Prefetch(uint64_t position) const { __builtin_prefetch(&buckets_[BucketOf(position)]); }
  uint64_t memory_bytes() const { return buckets_.memory_bytes(); }

 private:
  struct Bucket {
    uint32_t starts = kNoRange, ends = kNoRange;
  };
  // Positions are offsets of allocations, often multiples of one size: multiply, and fold the high half down.
  uint32_t BucketOf(uint64_t position) const {
    const uint64_t product = position * 0x9e3779b97f4a7c15;
    const auto bucket = static_cast<uint32_t>((product ^ product >> 32) & (2 * uint64_t{half_} - 1));
    return bucket < buckets_.size() ? bucket : bucket - half_;
  }

  Chunked<FreeRange>& ranges_;
  Chunked<Bucket> buckets_;
  uint32_t half_ = 1;  // a power of two: half_ <= number of buckets <= 2 * half_
};

}  // namespace tiercel::internal
