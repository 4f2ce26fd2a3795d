// What the machine itself can do, measured in the same process: the limits that figures are ratios of.
#pragma once

#include <atomic>
#include <cstdint>

namespace tiercel::bench {

struct MemoryFigures {
  double memcpy_bytes_per_second = 0;     // calls of 1 MiB over 512 MiB of touched memory
  double copy_hash_bytes_per_second = 0;  // the same with CopyAndHash
  double ratio = 0;                       // of the better of `rounds` alternating rounds
};
MemoryFigures MeasureMemory(int rounds, const std::atomic<bool>& stop);

// Median of bare round trips of one byte over TCP on 127.0.0.1, blocking, between two threads; nanoseconds.
uint64_t MeasureRoundTrip(int round_trips, const std::atomic<bool>& stop);

}  // namespace tiercel::bench
