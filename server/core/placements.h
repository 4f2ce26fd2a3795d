// Placements: how many objects each namespace has on each set of segments, so that a store that goes away or comes
// back changes all counts at once, without a walk over its objects.
//
// A placement is a set of segments; an object belongs to the one that its replicas lie on, and is countable while one
// of them is readable. Most placements are single segments; with several replicas there are as many as combinations
// in use.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "tiercel/types.h"

namespace tiercel::core {

class Placements {
 public:
  // The placement of exactly these segments (sorted, distinct, not empty); made when it is new. `readable`: how many
  // of them are readable now.
  uint32_t Find(const std::vector<uint32_t>& segments, Tier tier, uint32_t readable);

  void Add(uint32_t placement, uint32_t table);
  void Remove(uint32_t placement, uint32_t table);
  // The segment's objects can be read, or cannot, from now on. REQUIRES: it changes.
  void SetReadable(uint32_t segment, bool readable);
  // Nothing lies on the segment any more, and its number may be given to another one.
  void Forget(uint32_t segment);

  // Objects of the table that have a readable replica; of the tier.
  uint64_t readable(uint32_t table) const { return table < readable_.size() ? readable_[table] : 0; }
  uint64_t readable_of(Tier tier) const { return per_tier_[static_cast<size_t>(tier)]; }
  // Objects of all tables whose every segment satisfies the predicate.
  template <typename Predicate>
  uint64_t CountWhere(Predicate&& all_of) const {
    uint64_t count = 0;
    for (const auto& [set, id] : by_segments_) {
      if (std::all_of(set.begin(), set.end(), all_of)) count += all_[id].objects;
    }
    return count;
  }
  const std::vector<uint32_t>& segments(uint32_t placement) const { return all_[placement].segments; }
  uint64_t memory_bytes() const;

 private:
  struct Placement {
    std::vector<uint32_t> segments;
    Tier tier = Tier::kDram;
    uint32_t readable_segments = 0;
    uint64_t objects = 0;
    std::vector<uint32_t> per_table;
  };
  // Sets without objects are kept up to that many, since they tend to come back.
  static constexpr size_t kIdleSets = 1024;

  void Drop(uint32_t placement);
  void Shift(const Placement& placement, bool up);

  std::vector<Placement> all_{1};  // 0 is none
  std::vector<uint32_t> unused_;
  std::map<std::vector<uint32_t>, uint32_t> by_segments_;
  std::vector<std::vector<uint32_t>> of_segment_;  // placements with that segment
  std::vector<uint64_t> readable_;                 // by table
  std::array<uint64_t, kTierCount> per_tier_{};
};

}  // namespace tiercel::core
