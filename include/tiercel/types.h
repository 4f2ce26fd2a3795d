// The vocabulary of the system: strong types for ids, places and versions.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

#include "tiercel/limits.h"

namespace tiercel {

// The version of an object. It is also the id of the put that creates it. Never repeats, also not
// across restarts of the master. 0 is "none".
struct Version {
  uint64_t value = 0;
  constexpr auto operator<=>(const Version&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
  constexpr uint64_t generation() const { return value >> kCounterBits; }
};
using PutId = Version;

// One life of one process: random, drawn at its start, never 0. A peer that restarted under the same
// name and address has another one.
struct Incarnation {
  uint64_t value = 0;
  constexpr auto operator<=>(const Incarnation&) const = default;
  constexpr explicit operator bool() const { return value != 0; }
};

// A segment's number within its store, and how often its contents have been given up since.
struct SegmentRef {
  uint32_t segment = 0;
  uint32_t epoch = 0;
  constexpr auto operator<=>(const SegmentRef&) const = default;
};

// A range of bytes of a segment.
struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  constexpr auto operator<=>(const Extent&) const = default;
};

enum class Tier : uint8_t { kDram = 0, kSsd = 1, kDfs = 2 };
inline constexpr int kTierCount = 3;

constexpr std::string_view TierName(Tier tier) {
  switch (tier) {
    case Tier::kDram: return "dram";
    case Tier::kSsd: return "ssd";
    case Tier::kDfs: return "dfs";
  }
  return "?";
}

}  // namespace tiercel
