// Recency: the queues that eviction takes its victims from, and the leases that keep objects out of them.
//
// Each tier has two queues from cold to hot: ordinary objects and soft-pinned ones. An object with a lease is in
// neither: it waits in a ring of buckets by the end of its lease, and returns to the hot end when that bucket is past
// (it was in use until then). So a victim is found at the cold end without looking past leased objects, however many
// there are, and a bucket returns as one piece.
//
// The same ring counts leased bytes: granting adds to a bucket, and what a bucket holds ceases to count when it is
// past, without a timer per object. Bytes of an object removed meanwhile count on until then: they are no more to be
// had than those of a live one, and the cap bounds both.
//
// A bucket is 64 ms; a lease counts until the first bucket border at or after its end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "server/core/object.h"
#include "server/core/slab.h"

namespace tiercel::core {

enum class QueueClass : uint8_t { kOrdinary = 0, kSoftPinned = 1 };

class Recency {
 public:
  explicit Recency(Slab<Object>* objects);

  // Makes room for leases of that length. Never shrinks.
  void SetLeaseMax(int64_t lease_max_ms, int64_t now_ms);
  // Lets go of the buckets that are past. REQUIRES: time does not go back.
  void Advance(int64_t now_ms);

  // ---- queues
  void PushHot(Tier tier, QueueClass queue, uint32_t slot) { InsertBefore(slot, HeadOf(tier, queue)); }
  void PushCold(Tier tier, QueueClass queue, uint32_t slot) { InsertBefore(slot, LinksOf(HeadOf(tier, queue)).next); }
  void PushLeased(Tier tier, QueueClass queue, uint32_t slot, int64_t lease_until_ms) {
    InsertBefore(slot, BucketHead(BucketOf(lease_until_ms), tier, queue));
  }
  bool Listed(uint32_t slot) const { return (*objects_)[slot].next != 0; }
  void Remove(uint32_t slot);
  uint32_t Coldest(Tier tier, QueueClass queue) const;  // 0: empty
  uint32_t Hottest(Tier tier, QueueClass queue) const;
  // Objects of the bucket that is not past as a whole, whose own lease is: to the hot end. At most `limit`.
  void ReturnEnded(Tier tier, QueueClass queue, int64_t now_ms, uint32_t limit);

  // ---- leases
  static int64_t BucketOf(int64_t deadline_ms) { return (deadline_ms + kBucketMs - 1) / kBucketMs; }
  // Whether a lease with this end is counted (and its object in the ring).
  bool Counted(int64_t deadline_ms) const { return BucketOf(deadline_ms) > released_; }
  uint64_t leased_bytes(Tier tier) const { return leased_[Index(tier)]; }
  void Count(Tier tier, int64_t deadline_ms, uint64_t bytes);
  void Uncount(Tier tier, int64_t deadline_ms, uint64_t bytes);  // REQUIRES: Counted

  uint64_t memory_bytes() const;
  // Walks a queue or the ring: visit(slot). For checks.
  template <typename Visit>
  void ForEachQueued(Tier tier, QueueClass queue, Visit&& visit) const {
    for (uint32_t id = LinksOf(HeadOf(tier, queue)).next; id < kHeadBit; id = LinksOf(id).next) visit(id);
  }
  template <typename Visit>
  void ForEachLeased(Tier tier, QueueClass queue, Visit&& visit) const {
    for (int64_t b = released_ + 1; b <= released_ + static_cast<int64_t>(buckets_); ++b) {
      for (uint32_t id = LinksOf(BucketHead(b, tier, queue)).next; id < kHeadBit; id = LinksOf(id).next) visit(b, id);
    }
  }

 private:
  struct Links {
    uint32_t previous = 0, next = 0;
  };
  static constexpr int64_t kBucketMs = 64;
  static constexpr uint32_t kHeadBit = 1u << 31;  // ids of heads, among those of objects
  static constexpr uint32_t kQueues = kTierCount * 2;

  static constexpr size_t Index(Tier tier) { return static_cast<size_t>(tier); }
  static constexpr uint32_t QueueIndex(Tier tier, QueueClass queue) {
    return static_cast<uint32_t>(tier) * 2 + static_cast<uint32_t>(queue);
  }
  static constexpr uint32_t HeadOf(Tier tier, QueueClass queue) { return kHeadBit | QueueIndex(tier, queue); }
  uint32_t BucketHead(int64_t bucket, Tier tier, QueueClass queue) const {
    const auto in_ring = static_cast<uint32_t>(bucket) & (buckets_ - 1);
    return kHeadBit | (kQueues + in_ring * kQueues + QueueIndex(tier, queue));
  }
  // Objects and heads are linked alike: {previous, next}, previous the colder one.
  uint32_t& Previous(uint32_t id) {
    return (id & kHeadBit) != 0 ? heads_[id & ~kHeadBit].previous : (*objects_)[id].previous;
  }
  uint32_t& Next(uint32_t id) { return (id & kHeadBit) != 0 ? heads_[id & ~kHeadBit].next : (*objects_)[id].next; }
  Links LinksOf(uint32_t id) const {
    if ((id & kHeadBit) != 0) return heads_[id & ~kHeadBit];
    return {(*objects_)[id].previous, (*objects_)[id].next};
  }
  void InsertBefore(uint32_t slot, uint32_t successor);
  void Splice(uint32_t from_head, uint32_t to_head);

  Slab<Object>* const objects_;
  uint32_t buckets_ = 0;  // a power of two
  int64_t released_ = 0;  // the last bucket that is past
  std::vector<Links> heads_;
  std::array<std::vector<uint64_t>, kTierCount> bucket_bytes_;
  std::array<uint64_t, kTierCount> leased_{};
};

}  // namespace tiercel::core
