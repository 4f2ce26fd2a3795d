// How much memory this process may use: the machine's, or the cgroup's where that is less.
#pragma once

#include <cstdint>

#include "tiercel/result.h"

namespace tiercel {

struct MemoryLimits {
  uint64_t total_bytes = 0;      // of the machine, or the cgroup's limit where less
  uint64_t available_bytes = 0;  // MemAvailable, or what the cgroup has left where less
  bool from_cgroup = false;
};

// Reads /proc/meminfo and cgroup v2 (memory.max, memory.current, up to the root) or v1. `root` is for tests.
Result<MemoryLimits> ReadMemoryLimits(const char* root = "");

}  // namespace tiercel
