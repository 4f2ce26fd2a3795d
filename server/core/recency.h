// Recency: the queues that eviction takes its victims from, and the leases that keep objects out of them.
//
// Each tier has two orders from cold to hot: ordinary objects and soft-pinned ones. An object that gets a lease leaves
// them: it waits in a ring of buckets by the end of that lease. So a victim is found without looking past leased
// objects, however many there are.
//
// Renewing a lease moves nothing: relinking would write to two neighbours, which are anywhere in memory, and renewals
// are the most frequent change of all. A renewed object is moved to the bucket of its newest lease when its former one
// is past and eviction comes upon it (RequeueRenewed), which costs at most one move for each lease, and none for
// all the renewals within it.
//
// An order is two queues: of objects that were touched without a lease, and of those whose lease has ended, which a
// past bucket joins as one piece. Both run from the least recent touch to the newest (exactly so while leases have one
// length), objects carry the number of their last touch, and the colder one of the two heads is the victim: the
// lease delays when an object can be evicted, and leaves the order alone.
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
  // Just used: the newest touch.
  void PushHot(Tier tier, QueueClass queue, uint32_t slot) {
    (*objects_)[slot].touch = ++touches_;
    InsertBefore(slot, TouchedHead(tier, queue));
  }
  // As the first victim; for what was the coldest when it was taken out.
  void PushCold(Tier tier, QueueClass queue, uint32_t slot) {
    InsertBefore(slot, LinksOf(TouchedHead(tier, queue)).next);
  }
  // Until the lease ends. `used`: this is a touch.
  void PushLeased(Tier tier, QueueClass queue, uint32_t slot, int64_t lease_until_ms, bool used) {
    if (used) (*objects_)[slot].touch = ++touches_;
    InsertBefore(slot, BucketHead(BucketOf(lease_until_ms), tier, queue));
  }
  // A touch that leaves the object where it is: among leased ones, or hottest already.
  void Stamp(uint32_t slot) { (*objects_)[slot].touch = ++touches_; }
  // Ahead of a Remove, which writes to both.
  void PrefetchNeighbours(uint32_t slot) const {
    const Object& object = (*objects_)[slot];
    for (const uint32_t id : {object.previous, object.next}) {
      if ((id & kHeadBit) == 0) __builtin_prefetch(&(*objects_)[id].previous, 1);
    }
  }
  bool Listed(uint32_t slot) const { return (*objects_)[slot].next != 0; }
  void Remove(uint32_t slot);
  uint32_t Coldest(Tier tier, QueueClass queue) const;  // 0: there is none
  bool IsHottest(Tier tier, QueueClass queue, uint32_t slot) const {
    return LinksOf(TouchedHead(tier, queue)).previous == slot;
  }
  // Objects whose lease was renewed since their bucket passed, at the cold end of the order: into the bucket where they
  // belong now. At most `limit`; how many there were.
  uint32_t RequeueRenewed(Tier tier, QueueClass queue, int64_t now_ms, uint32_t limit);
  // Objects of the bucket that is not past as a whole, whose own lease is: into the order. At most `limit`.
  void ReturnEnded(Tier tier, QueueClass queue, int64_t now_ms, uint32_t limit);

  // ---- leases
  static int64_t BucketOf(int64_t deadline_ms) { return (deadline_ms + kBucketMs - 1) / kBucketMs; }
  // Whether a lease with this end is counted (and its object in the ring).
  bool Counted(int64_t deadline_ms) const { return BucketOf(deadline_ms) > released_; }
  uint64_t leased_bytes(Tier tier) const { return leased_[Index(tier)]; }
  void Count(Tier tier, int64_t deadline_ms, uint64_t bytes);
  void Uncount(Tier tier, int64_t deadline_ms, uint64_t bytes);  // REQUIRES: Counted

  uint64_t memory_bytes() const;
  // Walks a queue: visit(slot), or the ring: visit(bucket, slot). For checks.
  template <typename Visit>
  void ForEachQueued(Tier tier, QueueClass queue, Visit&& visit) const {
    for (const uint32_t head : {TouchedHead(tier, queue), ReturnedHead(tier, queue)}) {
      for (uint32_t id = LinksOf(head).next; id < kHeadBit; id = LinksOf(id).next) visit(id);
    }
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
  static constexpr uint32_t TouchedHead(Tier tier, QueueClass queue) { return kHeadBit | QueueIndex(tier, queue); }
  static constexpr uint32_t ReturnedHead(Tier tier, QueueClass queue) {
    return kHeadBit | (kQueues + QueueIndex(tier, queue));
  }
  uint32_t BucketHead(int64_t bucket, Tier tier, QueueClass queue) const {
    const auto in_ring = static_cast<uint32_t>(bucket) & (buckets_ - 1);
    return kHeadBit | (2 * kQueues + in_ring * kQueues + QueueIndex(tier, queue));
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
  uint64_t touches_ = 0;  // ever
  std::vector<Links> heads_;
  std::array<std::vector<uint64_t>, kTierCount> bucket_bytes_;
  std::array<uint64_t, kTierCount> leased_{};
};

}  // namespace tiercel::core
