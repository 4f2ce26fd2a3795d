// What an operator sets of the core. Defaults are those of the documentation; all may change while running.
#pragma once

#include <cstdint>

namespace tiercel::core {

enum class AllocationStrategy : uint8_t { kRandom, kFreeRatioFirst, kLocalFirst };

struct Options {
  // Leases
  int64_t lease_ttl_ms = 10'000;
  int64_t lease_max_ms = 60'000;
  double lease_max_ratio = 0.5;
  bool exists_grants_lease = true;
  // Pins
  int64_t soft_pin_default_ms = 30 * 60'000;
  int64_t soft_pin_max_ms = 24 * 3600'000;
  double hard_pin_max_ratio = 0.25;
  // Puts
  int64_t put_start_discard_timeout_ms = 30'000;
  int64_t put_start_release_timeout_ms = 600'000;
  uint32_t max_open_puts_per_store = 65'536;
  uint32_t max_open_puts_per_connection = 16'384;
  int64_t grant_ttl_ms = 60'000;
  // Eviction
  double eviction_high_watermark_ratio = 0.90;
  double eviction_ratio = 0.05;
  AllocationStrategy allocation_strategy = AllocationStrategy::kRandom;
  // Memory of the core's own tables, bytes; 0: unlimited (tests only)
  uint64_t metadata_max_bytes = 0;
  // Stores
  int64_t store_suspect_after_ms = 3'000;
  int64_t store_timeout_ms = 10'000;
  int64_t store_forget_ms = 24 * 3600'000;
  int64_t ping_interval_ms = 1'000;
  // False when the index keeps nothing: no records are journaled, nothing waits.
  bool journal = false;
  // Keyspace events are recorded only while somebody wants them.
  bool events = false;
  uint32_t name_spaces = 16;
};

}  // namespace tiercel::core
