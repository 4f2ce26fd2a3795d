// Slab<T>: things of one kind under 32-bit slots. Slot 0 is "none". A thing never moves.
//
// A freed thing stays constructed, so that what it owns (vectors, strings) is reused by the next one; its user
// clears it. The first chunks are small, so that a small master is small; later ones are huge pages.
// T needs a member `uint32_t next`, which belongs to the slab while the thing is free.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "server/core/chunk.h"

namespace tiercel::core {

template <typename T, size_t kChunk = kHugeChunkBytes>
class Slab {
 public:
  Slab() = default;
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    if constexpr (!std::is_trivially_destructible_v<T>) {
      for (uint32_t slot = 1; slot < end_; ++slot) (*this)[slot].~T();
    }
  }

  T& operator[](uint32_t slot) { return bases_[slot >> kShift][slot & kMask]; }
  const T& operator[](uint32_t slot) const { return bases_[slot >> kShift][slot & kMask]; }

  uint32_t Allocate() {
    ++used_;
    if (free_ != 0) {
      const uint32_t slot = free_;
      free_ = (*this)[slot].next;
      return slot;
    }
    TIERCEL_CHECK(end_ != UINT32_MAX, "slots are 32 bits");
    while ((end_ >> kShift) >= bases_.size()) AddChunk();
    const uint32_t slot = end_++;
    new (&(*this)[slot]) T();
    return slot;
  }

  void Free(uint32_t slot) {
    TIERCEL_CHECK(slot != 0 && slot < end_);
    (*this)[slot].next = free_;
    free_ = slot;
    --used_;
  }

  uint64_t used() const { return used_; }
  // One past the highest slot that was ever handed out: a walk over all goes from 1 to here.
  uint32_t end() const { return end_; }
  // Things that fit before another chunk is needed.
  uint64_t room() const { return (uint64_t{bases_.size()} << kShift) - (bases_.empty() ? 0 : 1) - used_; }
  // Chunks that have been filled, and what has been touched of the last one.
  uint64_t memory_bytes() const {
    return uint64_t{end_} * sizeof(T) + bases_.capacity() * (sizeof(T*) + sizeof(Chunk));
  }
  static constexpr uint64_t chunk_bytes() { return kChunk; }

 private:
  static constexpr uint32_t kPerChunk = static_cast<uint32_t>(std::bit_floor(kChunk / sizeof(T)));
  static constexpr int kShift = std::countr_zero(kPerChunk);
  static constexpr uint32_t kMask = kPerChunk - 1;
  static_assert(kPerChunk >= 16);

  void AddChunk() {
    chunks_.emplace_back(kChunk);
    bases_.push_back(reinterpret_cast<T*>(chunks_.back().data()));
  }

  std::vector<Chunk> chunks_;
  std::vector<T*> bases_;
  uint32_t end_ = 1;
  uint32_t free_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tiercel::core
