// Allocator of byte ranges of a segment. Pure: holds no pointer into the segment and no lock.
//
// Two-level size classes over the free ranges only (good fit, O(1)); nothing is stored for used ranges, whose
// owners know them: Free finds free neighbours by two hash look-ups. Memory grows with the number of free ranges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tiercel/types.h"

namespace tiercel {

// A few extents; the first one is stored inline, because nearly every replica has one.
class ExtentList {
 public:
  ExtentList() = default;
  explicit ExtentList(Extent one) : first_(one), size_(1) {}
  explicit ExtentList(std::span<const Extent> all);
  ExtentList(const ExtentList& other);
  ExtentList& operator=(const ExtentList& other);
  // A list that was moved from is empty.
  ExtentList(ExtentList&& other) noexcept
      : first_(other.first_), size_(std::exchange(other.size_, 0)), more_(std::move(other.more_)) {}
  ExtentList& operator=(ExtentList&& other) noexcept {
    if (this != &other) {
      first_ = other.first_;
      size_ = std::exchange(other.size_, 0);
      more_ = std::move(other.more_);
    }
    return *this;
  }

  void push_back(Extent extent);
  void clear();
  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const Extent* begin() const { return size_ <= 1 ? &first_ : more_->data(); }
  const Extent* end() const { return begin() + size_; }
  const Extent& operator[](uint32_t i) const { return begin()[i]; }
  std::span<const Extent> span() const { return {begin(), size_}; }
  uint64_t bytes() const;
  bool operator==(const ExtentList& other) const;

 private:
  Extent first_;
  uint32_t size_ = 0;
  std::unique_ptr<std::vector<Extent>> more_;  // all extents when there are several
};

class ExtentAllocator {
 public:
  // capacity is rounded down to the small granule. REQUIRES: capacity < 2^44.
  explicit ExtentAllocator(uint64_t capacity_bytes);
  ~ExtentAllocator();
  ExtentAllocator(ExtentAllocator&&) noexcept;
  ExtentAllocator& operator=(ExtentAllocator&&) noexcept;

  // Allocates `bytes` rounded up to `granule` (kSmallGranule or kLargeGranule): one extent when a range fits,
  // else up to kMaxExtents of the largest ones. Each extent starts at, and is, a multiple of the granule.
  // False, and nothing changed, when there is not enough. REQUIRES: bytes > 0.
  bool Allocate(uint64_t bytes, uint32_t granule, ExtentList* out);
  // Takes exactly this range out of the free space; false when any of it is used. For recovery.
  bool Claim(Extent extent);
  // REQUIRES: the range was allocated, as a whole or as parts. Asserts that it was not free.
  void Free(Extent extent);

  uint64_t capacity_bytes() const;
  uint64_t free_bytes() const;
  uint64_t largest_free_run() const;  // bytes; O(1) but may be rounded down to its size class's lower bound
  uint64_t memory_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tiercel
