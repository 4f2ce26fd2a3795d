// Counters of one loop. Only the loop's thread writes; anybody may read and sum.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "protocol/resp/command_table.h"
#include "tiercel/error.h"

namespace tiercel::net {

// A number with one writer: no locked instruction on the hot path.
class Counter {
 public:
  void Add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

inline constexpr size_t kMaxCommands = 256;

struct CommandStats {
  Counter calls, nanos, failed, rejected;
};

struct WorkerStats {
  Counter commands, bytes_in, bytes_out, reads, writes;
  Counter connections_received, connections_rejected, accept_pauses;
  Counter closed_idle, closed_slow_reader, closed_protocol_error, closed_corrupt;
  Counter values_received, values_sent, value_bytes_received, value_bytes_sent;
  std::atomic<uint64_t> connections{0}, parked{0};  // gauges; one writer
  std::array<CommandStats, kMaxCommands> by_command;
  std::array<Counter, kErrorCount + 1> by_error;  // by the first code of the word; last: any other word
};

// Which of by_error counts a reply that begins with this word.
constexpr size_t ErrorSlot(std::string_view word) {
  for (size_t i = 0; i < kErrorCount; ++i) {
    if (kErrorTable[i].word == word) return i;
  }
  return kErrorCount;
}

}  // namespace tiercel::net
