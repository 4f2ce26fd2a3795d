// Memory of large results, used again: the page faults of fresh memory cost as much as a fifth of the transfer
// that fills it. Freed buffers of kSmallestKept bytes and more are kept, at most kMaxKept bytes in all; the
// system may take their pages back at any time (MADV_FREE). Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "tiercel/client.h"

namespace tiercel {

class BufferCache : public std::enable_shared_from_this<BufferCache> {
 public:
  static constexpr size_t kSmallestKept = 64 << 10;
  static constexpr size_t kMaxKept = size_t{256} << 20;

  BufferCache() = default;
  ~BufferCache();
  BufferCache(const BufferCache&) = delete;
  BufferCache& operator=(const BufferCache&) = delete;

  // kNoMemory when the system has none. The buffer keeps this alive.
  Result<Buffer> Make(size_t size);
  size_t kept_bytes() const;

 private:
  friend class Buffer;
  void Take(std::byte* memory, size_t capacity);

  mutable std::mutex mutex_;
  std::multimap<size_t, std::byte*> kept_;  // by capacity
  size_t kept_bytes_ = 0;
};

}  // namespace tiercel
