// Where an operation is cut. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tiercel/limits.h"

namespace tiercel::transfer {

// Length of the slice that begins at `op_offset`, when `left` bytes are left. A slice ends at a multiple of
// slice_bytes of the operation (so that blocks of 1 MiB are cut at their borders when slices are not larger), at
// the next multiple of `remote_seam` in the segment, and where the local registration ends (`local_left`).
constexpr uint64_t SliceLength(uint64_t op_offset, uint64_t left, uint64_t slice_bytes, uint64_t segment_offset,
                               uint64_t remote_seam, uint64_t local_left) {
  uint64_t n = std::min(left, slice_bytes - op_offset % slice_bytes);
  if (remote_seam != 0) n = std::min(n, remote_seam - segment_offset % remote_seam);
  return std::min(n, local_left);
}

}  // namespace tiercel::transfer
