// Backing: DRAM segments as files on tmpfs or hugetlbfs, so that they outlive their store's process.
//
//   DIR/STORE/storage        what the store is and what it holds, replaced as a whole; locked by the process that owns
//   it DIR/STORE/segment-N      the bytes of segment N
//
// `storage` is text: "tiercel-dram 1 STORAGE-ID", then a line "segment ID EPOCH BYTES" each. A segment of another size,
// or one that `storage` does not name, is made anew under an epoch of its own: what lay there before is not offered.
#pragma once

#include <memory>
#include <string>

#include "tiers/dram/dram_segment.h"

namespace tiercel::tiers {

class Backing {
 public:
  // kInvalid: `dir` is not on tmpfs or hugetlbfs (it would not be memory), or `storage` is of another version or
  // damaged. kNameInUse: another process owns the store's directory; names its pid. kIo otherwise.
  static Result<std::unique_ptr<Backing>> Open(const std::string& dir, const std::string& store);
  virtual ~Backing() = default;

  virtual const std::string& storage_id() const = 0;
  // The segment `options.id` with what it held before, if it was there in that size; else empty, all its bytes
  // allocated (kNoMemory, with the numbers, when they do not fit). options.epoch is ignored. The backing outlives the
  // segment.
  virtual Result<std::unique_ptr<Segment>> OpenSegment(const DramOptions& options) = 0;
  // Removes the files of segments that were not opened. After all have been.
  virtual Status Prune() = 0;
};

}  // namespace tiercel::tiers
