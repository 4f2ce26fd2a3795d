// What checksum.cc needs of one instruction set. Private to base.
//
// Each set is one translation unit compiled with its own flags. Such a unit must not instantiate inline functions
// or templates that others use too: the linker keeps one copy of those and might keep the one with instructions
// that this machine lacks. Hence plain pointers here, and functions of internal linkage in checksum_kernels_impl.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tiercel::internal {

// Opaque room for a streaming XXH3 state; checked against the library's own size where it is used.
struct alignas(64) StreamState {
  unsigned char bytes[576];
};

struct ChecksumKernels {
  const char* name;
  uint64_t (*hash)(const void* data, size_t n);
  uint64_t (*hash_seeded)(const void* data, size_t n, uint64_t seed);
  uint64_t (*copy_and_hash)(void* target, const void* source, size_t n);
  void (*stream_reset)(StreamState* state);
  void (*stream_update)(StreamState* state, const void* data, size_t n);
  uint64_t (*stream_digest)(const StreamState* state);
};

extern const ChecksumKernels kAvx2Kernels;
extern const ChecksumKernels kSse2Kernels;

}  // namespace tiercel::internal
