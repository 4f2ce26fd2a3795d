// A value's bytes in a segment of this process: extents laid end to end.
//
// REQUIRES of all functions: the bytes are the caller's to read (a read pin) or write (an open put), and ranges lie
// inside the extents.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/checksum.h"
#include "server/core/payload_port.h"

namespace tiercel::net {

class LocalValue {
 public:
  LocalValue(const core::LocalSegment* segment, const ExtentList* extents) : segment_(segment), extents_(extents) {}

  // Calls f(span) for each contiguous piece of [offset, offset + length), in order.
  template <typename F>
  void ForEach(uint64_t offset, uint64_t length, F&& f) const {
    for (const Extent& extent : *extents_) {
      if (length == 0) return;
      if (offset >= extent.length) {
        offset -= extent.length;
        continue;
      }
      TIERCEL_CHECK(extent.offset <= segment_->size && extent.length <= segment_->size - extent.offset);
      const uint64_t n = std::min(length, extent.length - offset);
      f(std::span<std::byte>(segment_->base + extent.offset + offset, n));
      length -= n;
      offset = 0;
    }
    TIERCEL_CHECK(length == 0, "a range lies inside its extents");
  }

  // Ahead of writing: the first lines.
  void PrefetchFirst() const {
    constexpr uint64_t kLine = 64, kLines = 4;
    if (extents_->empty()) return;
    const Extent& first = *extents_->begin();
    TIERCEL_CHECK(first.offset <= segment_->size && first.length <= segment_->size - first.offset);
    for (uint64_t at = 0; at < first.length && at < kLines * kLine; at += kLine) {
      __builtin_prefetch(segment_->base + first.offset + at, 1);
    }
  }

  // XXH3-64 of a range; `hasher` is used when it is not contiguous.
  uint64_t Hash(uint64_t offset, uint64_t length, StreamHasher* hasher) const {
    std::span<std::byte> only;
    size_t pieces = 0;
    ForEach(offset, length, [&](std::span<std::byte> piece) { only = piece, ++pieces; });
    if (pieces <= 1) return HashBytes(only);
    hasher->Reset();
    ForEach(offset, length, [&](std::span<std::byte> piece) { hasher->Update(piece); });
    return hasher->Digest();
  }

  void CopyOut(uint64_t offset, void* target, uint64_t length) const {
    auto* at = static_cast<std::byte*>(target);
    ForEach(offset, length, [&](std::span<std::byte> piece) {
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    });
  }
  void CopyIn(uint64_t offset, const void* source, uint64_t length) const {
    const auto* at = static_cast<const std::byte*>(source);
    ForEach(offset, length, [&](std::span<std::byte> piece) {
      std::memcpy(piece.data(), at, piece.size());
      at += piece.size();
    });
  }

 private:
  const core::LocalSegment* segment_;
  const ExtentList* extents_;
};

}  // namespace tiercel::net
