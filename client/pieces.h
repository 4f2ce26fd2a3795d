// Where the bytes of an object lie in a replica's extents. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/checksum.h"
#include "base/extent_allocator.h"

namespace tiercel::client {

// Calls f(segment_offset, object_offset, length) for the pieces of bytes [offset, offset + length) of what the
// extents hold end to end. A piece that does not start at a block's border ends at the next one when it would
// cross it, so that whatever cuts pieces into blocks from their start cuts the object at its block borders.
// REQUIRES: the range lies within the extents.
template <typename F>
void ForEachPiece(const ExtentList& extents, uint64_t offset, uint64_t length, F&& f) {
  uint64_t extent_start = 0;  // object offset of the extent's first byte
  const uint64_t end = offset + length;
  for (const Extent& extent : extents) {
    const uint64_t extent_end = extent_start + extent.length;
    while (offset < end && offset < extent_end) {
      uint64_t stop = std::min(end, extent_end);
      if (offset % kBlockBytes != 0) stop = std::min(stop, (offset / kBlockBytes + 1) * kBlockBytes);
      f(extent.offset + (offset - extent_start), offset, stop - offset);
      offset = stop;
    }
    if (offset >= end) return;
    extent_start = extent_end;
  }
  TIERCEL_CHECK(offset >= end, "the range was checked against the extents");
}

}  // namespace tiercel::client
