// Latencies in nanoseconds, in buckets of about 1.6 % width. Not thread-safe; one per thread, merged at the end.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tiercel::bench {

class Histogram {
 public:
  void Add(uint64_t nanos) {
    ++counts_[BucketOf(nanos)];
    ++total_;
    if (nanos > max_) max_ = nanos;
  }
  void Merge(const Histogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    if (other.max_ > max_) max_ = other.max_;
  }
  uint64_t count() const { return total_; }
  uint64_t max() const { return max_; }
  // Upper bound of the bucket that holds the quantile; 0 without samples.
  uint64_t Quantile(double q) const {
    if (total_ == 0) return 0;
    uint64_t rank = static_cast<uint64_t>(q * static_cast<double>(total_));
    if (rank >= total_) rank = total_ - 1;
    uint64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen > rank) return UpperBound(i);
    }
    return max_;
  }

 private:
  static constexpr int kSubBits = 6;
  static size_t BucketOf(uint64_t v) {
    if (v < (1u << kSubBits)) return v;
    const int shift = std::bit_width(v) - kSubBits - 1;
    return static_cast<size_t>((shift + 1) << kSubBits) + ((v >> shift) & ((1u << kSubBits) - 1));
  }
  static uint64_t UpperBound(size_t bucket) {
    if (bucket < (1u << kSubBits)) return bucket;
    const int shift = static_cast<int>(bucket >> kSubBits) - 1;
    const uint64_t low = ((uint64_t{1} << kSubBits) | (bucket & ((1u << kSubBits) - 1))) << shift;
    return low + (uint64_t{1} << shift) - 1;
  }
  std::array<uint64_t, (64 - kSubBits + 1) << kSubBits> counts_{};
  uint64_t total_ = 0, max_ = 0;
};

}  // namespace tiercel::bench
