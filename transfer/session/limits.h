// Limits of the data port, for all connections of one server.
#pragma once

#include <cstdint>

namespace tiercel::transfer {

struct SessionLimits {
  uint32_t max_connections = 1024;
  uint32_t max_unauthenticated = 128;  // of these, before their HELLO was accepted
  int64_t hello_timeout_ms = 5'000;
  int64_t idle_timeout_ms = 600'000;  // without a request, a pin or a mapping
  int64_t stall_timeout_ms = 30'000;  // no byte moves although one is due
  uint32_t max_held = 4096;           // pins of one connection
  uint32_t max_maps = 64;             // mappings of one connection's memory
  uint64_t max_map_bytes = uint64_t{1} << 40;
};

}  // namespace tiercel::transfer
