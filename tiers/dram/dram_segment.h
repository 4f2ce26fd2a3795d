// DRAM segments: a memfd, mapped once, populated in the background, sealed so that nobody else can write it.
//
// Order matters: create, size, map for writing, then seal (SHRINK, GROW, FUTURE_WRITE, SEAL); descriptors handed
// out afterwards can be reopened, but never for writing.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "tiers/segment.h"

namespace tiercel::tiers {

enum class HugePages : uint8_t { kNo, kTry, kYes };

struct DramOptions {
  std::string name;  // of the segment, unique in the cluster
  uint32_t id = 0;
  uint32_t epoch = 1;
  uint64_t size = 0;  // bytes; rounded down to 2 MiB; at least 2 MiB... smaller sizes to 4 KiB
  HugePages huge_pages = HugePages::kTry;
  bool populate = true;  // touch all pages in the background, so that the first put does not pay for them
};

// kNoMemory, with the numbers, when the machine or the cgroup has not that much left.
Result<std::unique_ptr<Segment>> CreateDramSegment(const DramOptions& options);

}  // namespace tiercel::tiers
