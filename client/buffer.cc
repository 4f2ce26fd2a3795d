#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "base/check.h"
#include "client/buffer_cache.h"

namespace tiercel {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
// Up to here the heap serves; beyond, mappings of whole pages.
constexpr size_t kHeapLimit = BufferCache::kSmallestKept;

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

// What is really allocated for a size. Large ones are whole huge pages.
size_t CapacityOf(size_t size) {
  if (size < kHeapLimit) return size < kPage ? size : RoundUp(size, kPage);
  return size < kHugePage ? RoundUp(size, kPage) : RoundUp(size, kHugePage);
}

std::byte* MapAligned(size_t capacity, size_t alignment) {
  const size_t span = alignment > kPage ? capacity + alignment : capacity;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = RoundUp(start, alignment);
  if (aligned > start) munmap(raw, aligned - start);
  if (start + span > aligned + capacity) {
    munmap(reinterpret_cast<void*>(aligned + capacity), start + span - aligned - capacity);
  }
  return reinterpret_cast<std::byte*>(aligned);
}

// nullptr when there is none.
std::byte* Allocate(size_t capacity) {
  if (capacity < kPage) return static_cast<std::byte*>(::operator new(capacity, std::nothrow));
  if (capacity < kHeapLimit) {
    return static_cast<std::byte*>(::operator new(capacity, std::align_val_t{kPage}, std::nothrow));
  }
  if (capacity < kHugePage) return MapAligned(capacity, kPage);
  std::byte* memory = MapAligned(capacity, kHugePage);
  if (memory != nullptr) (void)madvise(memory, capacity, MADV_HUGEPAGE);  // a wish; small pages do as well
  return memory;
}

void Release(std::byte* memory, size_t capacity) {
  if (capacity < kPage) {
    ::operator delete(memory);
  } else if (capacity < kHeapLimit) {
    ::operator delete(memory, std::align_val_t{kPage});
  } else {
    TIERCEL_CHECK(munmap(memory, capacity) == 0);
  }
}

}  // namespace

void Buffer::Free::operator()(std::byte* memory) const {
  if (cache != nullptr) {
    cache->Take(memory, capacity);
  } else {
    Release(memory, capacity);
  }
}

Buffer::Buffer(size_t size) : size_(size) {
  const size_t capacity = CapacityOf(size);
  if (size == 0) return;
  data_ = {Allocate(capacity), Free{capacity, nullptr}};
  if (data_ == nullptr) throw std::bad_alloc();
}

Buffer::Buffer(Buffer&& other) noexcept : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

BufferCache::~BufferCache() {
  for (auto& [capacity, memory] : kept_) Release(memory, capacity);
}

Result<Buffer> BufferCache::Make(size_t size) {
  Buffer buffer;
  if (size == 0) return buffer;
  const size_t capacity = CapacityOf(size);
  buffer.size_ = size;
  if (capacity >= kSmallestKept) {
    std::lock_guard lock(mutex_);
    auto found = kept_.lower_bound(capacity);
    if (found != kept_.end() && found->first <= capacity + capacity / 4) {
      kept_bytes_ -= found->first;
      buffer.data_ = {found->second, Buffer::Free{found->first, shared_from_this()}};
      kept_.erase(found);
      return buffer;
    }
  }
  std::byte* memory = Allocate(capacity);
  if (memory == nullptr) return Error(ErrorCode::kNoMemory, fmt::format("no memory for a value of {} bytes", size));
  buffer.data_ = {memory, Buffer::Free{capacity, capacity >= kSmallestKept ? shared_from_this() : nullptr}};
  return buffer;
}

void BufferCache::Take(std::byte* memory, size_t capacity) {
  if (capacity > kMaxKept) return Release(memory, capacity);
  (void)madvise(memory, capacity, MADV_FREE);
  std::multimap<size_t, std::byte*> out;
  {
    std::lock_guard lock(mutex_);
    // The largest go first: they are the rarest wanted again, and free the most.
    while (kept_bytes_ + capacity > kMaxKept) {
      auto largest = std::prev(kept_.end());
      kept_bytes_ -= largest->first;
      out.insert(kept_.extract(largest));
    }
    kept_bytes_ += capacity;
    kept_.emplace(capacity, memory);
  }
  for (auto& [size, largest] : out) Release(largest, size);
}

size_t BufferCache::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace tiercel
