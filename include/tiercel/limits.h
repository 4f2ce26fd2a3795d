// Limits that every part of the system agrees on. Sizes are bytes.
#pragma once

#include <cstdint>

namespace tiercel {

inline constexpr uint64_t kMaxKeyBytes = 16 * 1024;
inline constexpr uint64_t kMaxValueBytes = uint64_t{64} << 30;

// Checksums are taken per block; the last block of a value may be short.
inline constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

// A replica is a list of at most this many extents.
inline constexpr uint32_t kMaxExtents = 256;
// Extents are multiples of the segment's granule, and start at a multiple of it; values of
// kLargeValueBytes and more use the large granule, so that they can go to a disk as they lie.
inline constexpr uint32_t kSmallGranule = 64;
inline constexpr uint32_t kLargeGranule = 4096;
inline constexpr uint64_t kLargeValueBytes = 64 * 1024;

inline constexpr uint32_t kMaxReplicas = 16;
inline constexpr uint32_t kMaxChainDepth = 65536;

// Versions are generation << kCounterBits | counter, and stay positive as a signed integer of RESP.
inline constexpr int kCounterBits = 40;
inline constexpr uint64_t kMaxGeneration = (uint64_t{1} << 23) - 1;

}  // namespace tiercel
