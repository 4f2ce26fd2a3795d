#include "server/core/chunk.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/check.h"

namespace tiercel::core {
namespace {

constexpr std::align_val_t kHeapAlignment{64};

// Maps twice the size and gives back what lies outside the aligned half.
std::byte* MapAligned(size_t bytes) {
  TIERCEL_CHECK(bytes % kHugeChunkBytes == 0);
  const size_t mapped = bytes + kHugeChunkBytes;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TIERCEL_CHECK(raw != MAP_FAILED, "no address space for the core's tables");
  auto* start = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<uintptr_t>(start);
  const size_t head = (kHugeChunkBytes - address % kHugeChunkBytes) % kHugeChunkBytes;
  if (head > 0) munmap(start, head);
  if (head < kHugeChunkBytes) munmap(start + head + bytes, kHugeChunkBytes - head);
  return start + head;
}

}  // namespace

Chunk::Chunk(size_t bytes) : bytes_(bytes) {
  if (bytes < kHugeChunkBytes) {
    data_ = static_cast<std::byte*>(::operator new(bytes, kHeapAlignment));
    return;
  }
  data_ = MapAligned(bytes);
  madvise(data_, bytes, MADV_HUGEPAGE);  // a wish: small pages do as well
}

Chunk& Chunk::operator=(Chunk&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Chunk::Reset() {
  if (data_ == nullptr) return;
  if (bytes_ < kHugeChunkBytes) {
    ::operator delete(data_, kHeapAlignment);
  } else {
    munmap(data_, bytes_);
  }
  data_ = nullptr;
}

}  // namespace tiercel::core
