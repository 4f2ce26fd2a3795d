// Chunks: the blocks of memory that the core's large tables are made of.
//
// Tables grow a chunk at a time and never move what is in them, so that growing copies nothing. Chunks of at least
// kHugeChunkBytes are mapped by themselves, aligned to a huge page and offered to the kernel as one; smaller ones come
// from the heap. Large chunks read as zeros and cost resident memory only as they are touched (a huge page at a time).
#pragma once

#include <cstddef>
#include <utility>

namespace tiercel::core {

inline constexpr size_t kHugeChunkBytes = size_t{2} << 20;

class Chunk {
 public:
  Chunk() = default;
  explicit Chunk(size_t bytes);
  Chunk(Chunk&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Chunk& operator=(Chunk&& other) noexcept;
  ~Chunk() { Reset(); }
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void Reset();
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tiercel::core
