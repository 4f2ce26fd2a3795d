// DRAM segments: a memfd, mapped once, populated in the background, sealed so that nobody else can write it.
//
// A segment is one memfd of any size. Sealed memory can be neither resized nor punched, so a segment is given back
// only as a whole.
//
// Order matters: create, size, map for writing, then seal (SHRINK, GROW, FUTURE_WRITE, SEAL); descriptors handed
// out afterwards can be reopened, but never for writing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tiers/segment.h"

namespace tiercel::tiers {

// Where huge pages come from: the pool that the operator reserved (vm.nr_hugepages), and transparent ones.
enum class HugePages : uint8_t {
  kNo,
  kTry,  // the pool when enough of it is free, else ordinary pages with advice to merge them
  kYes,  // the pool, or an error
};

struct DramOptions {
  std::string name;  // of the segment, unique in the cluster
  uint32_t id = 0;
  uint32_t epoch = 1;
  uint64_t size = 0;  // bytes; rounded down to 2 MiB, below that to 4 KiB
  HugePages huge_pages = HugePages::kTry;
  bool populate = true;  // touch all pages in the background, so that the first put does not pay for them
  // Called on the populating thread with the bytes done so far, at least once when it ends; must not destroy the
  // segment. Less than all at the end: memory ran out, or the segment is being destroyed.
  std::function<void(uint64_t populated_bytes, bool last)> progress = {};
};

// Whether that many bytes fit into what the machine and the cgroup have left: kNoMemory with the numbers if not.
// For the sum of several segments, before the first is made: populating takes a while to show in those numbers.
Status CheckMemoryFor(uint64_t bytes, HugePages huge_pages);

// kNoMemory, with the numbers, when the machine or the cgroup has not that much left; kInvalid below 4 KiB.
Result<std::unique_ptr<Segment>> CreateDramSegment(const DramOptions& options);

}  // namespace tiercel::tiers
