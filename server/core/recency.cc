#include "server/core/recency.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tiercel::core {
namespace {

constexpr QueueClass kClasses[] = {QueueClass::kOrdinary, QueueClass::kSoftPinned};

}  // namespace

Recency::Recency(Slab<Object>* objects) : objects_(objects) { SetLeaseMax(1, 0); }

void Recency::SetLeaseMax(int64_t lease_max_ms, int64_t now_ms) {
  const auto wanted = std::bit_ceil(static_cast<uint32_t>(std::max<int64_t>(lease_max_ms, 1) / kBucketMs + 4));
  if (wanted <= buckets_) return;
  TIERCEL_CHECK(wanted <= 1u << 24, "leases of at most some days");
  Advance(now_ms);
  std::vector<Links> old_heads(2 * kQueues + size_t{wanted} * kQueues);
  old_heads.swap(heads_);
  const uint32_t old_buckets = std::exchange(buckets_, wanted);
  for (uint32_t i = 0; i < heads_.size(); ++i) heads_[i] = {kHeadBit | i, kHeadBit | i};
  // A list is moved by pointing its ends at the new head.
  const auto move = [&](uint32_t from, uint32_t to) {
    const Links ends = old_heads[from];
    if ((ends.next & kHeadBit) != 0) return;
    heads_[to & ~kHeadBit] = ends;
    Previous(ends.next) = to;
    Next(ends.previous) = to;
  };
  if (old_buckets > 0) {
    for (uint32_t q = 0; q < 2 * kQueues; ++q) move(q, kHeadBit | q);
  }
  std::array<std::vector<uint64_t>, kTierCount> old_bytes = std::move(bucket_bytes_);
  for (size_t tier = 0; tier < kTierCount; ++tier) {
    bucket_bytes_[tier].assign(buckets_, 0);
    for (uint32_t i = 1; i <= old_buckets; ++i) {
      const int64_t bucket = released_ + i;
      const uint32_t in_old = static_cast<uint32_t>(bucket) & (old_buckets - 1);
      bucket_bytes_[tier][static_cast<uint32_t>(bucket) & (buckets_ - 1)] = old_bytes[tier][in_old];
      for (QueueClass queue : kClasses) {
        move(2 * kQueues + in_old * kQueues + QueueIndex(static_cast<Tier>(tier), queue),
             BucketHead(bucket, static_cast<Tier>(tier), queue));
      }
    }
  }
}

void Recency::Advance(int64_t now_ms) {
  const int64_t target = now_ms / kBucketMs;
  if (target <= released_) return;
  // After one round all buckets are empty.
  const int64_t last = std::min(target, released_ + static_cast<int64_t>(buckets_));
  for (int64_t bucket = released_ + 1; bucket <= last; ++bucket) {
    for (size_t tier = 0; tier < kTierCount; ++tier) {
      leased_[tier] -= std::exchange(bucket_bytes_[tier][static_cast<uint32_t>(bucket) & (buckets_ - 1)], 0);
      for (QueueClass queue : kClasses) {
        Splice(BucketHead(bucket, static_cast<Tier>(tier), queue), ReturnedHead(static_cast<Tier>(tier), queue));
      }
    }
  }
  released_ = target;
}

void Recency::InsertBefore(uint32_t slot, uint32_t successor) {
  Object& object = (*objects_)[slot];
  TIERCEL_CHECK(object.next == 0, "it is in one queue at most");
  uint32_t& link = Previous(successor);
  object.previous = link;
  object.next = successor;
  Next(link) = slot;
  link = slot;
}

void Recency::Remove(uint32_t slot) {
  Object& object = (*objects_)[slot];
  TIERCEL_CHECK(object.next != 0);
  Next(object.previous) = object.next;
  Previous(object.next) = object.previous;
  object.previous = object.next = 0;
}

void Recency::Splice(uint32_t from_head, uint32_t to_head) {
  const Links from = heads_[from_head & ~kHeadBit];
  if (from.next == from_head) return;
  const uint32_t last = Previous(to_head);
  Next(last) = from.next;
  Previous(from.next) = last;
  Next(from.previous) = to_head;
  Previous(to_head) = from.previous;
  heads_[from_head & ~kHeadBit] = {from_head, from_head};
}

uint32_t Recency::Coldest(Tier tier, QueueClass queue) const {
  const uint32_t touched = LinksOf(TouchedHead(tier, queue)).next, returned = LinksOf(ReturnedHead(tier, queue)).next;
  if ((returned & kHeadBit) != 0) return (touched & kHeadBit) != 0 ? 0 : touched;
  if ((touched & kHeadBit) != 0) return returned;
  return (*objects_)[touched].touch < (*objects_)[returned].touch ? touched : returned;
}

uint32_t Recency::RequeueRenewed(Tier tier, QueueClass queue, int64_t now_ms, uint32_t limit) {
  const uint32_t head = ReturnedHead(tier, queue);
  uint32_t moved = 0;
  for (; moved < limit; ++moved) {
    const uint32_t slot = LinksOf(head).next;
    if (slot == head || (*objects_)[slot].lease_until_ms <= now_ms) break;
    Remove(slot);
    PushLeased(tier, queue, slot, (*objects_)[slot].lease_until_ms, false);
  }
  return moved;
}

void Recency::ReturnEnded(Tier tier, QueueClass queue, int64_t now_ms, uint32_t limit) {
  const int64_t bucket = released_ + 1;
  const uint32_t head = BucketHead(bucket, tier, queue);
  for (; limit > 0; --limit) {
    const uint32_t slot = LinksOf(head).next;
    if (slot == head) return;
    const int64_t until_ms = (*objects_)[slot].lease_until_ms;
    if (until_ms > now_ms && BucketOf(until_ms) == bucket) return;
    Remove(slot);
    if (until_ms > now_ms) {
      PushLeased(tier, queue, slot, until_ms, false);
    } else {
      InsertBefore(slot, ReturnedHead(tier, queue));
    }
  }
}

void Recency::Count(Tier tier, int64_t deadline_ms, uint64_t bytes) {
  const int64_t bucket = BucketOf(deadline_ms);
  TIERCEL_CHECK(bucket > released_ && bucket <= released_ + static_cast<int64_t>(buckets_));
  bucket_bytes_[Index(tier)][static_cast<uint32_t>(bucket) & (buckets_ - 1)] += bytes;
  leased_[Index(tier)] += bytes;
}

void Recency::Uncount(Tier tier, int64_t deadline_ms, uint64_t bytes) {
  const int64_t bucket = BucketOf(deadline_ms);
  TIERCEL_CHECK(bucket > released_ && bucket <= released_ + static_cast<int64_t>(buckets_));
  uint64_t& in_bucket = bucket_bytes_[Index(tier)][static_cast<uint32_t>(bucket) & (buckets_ - 1)];
  TIERCEL_CHECK(in_bucket >= bytes);
  in_bucket -= bytes;
  leased_[Index(tier)] -= bytes;
}

uint64_t Recency::memory_bytes() const {
  return heads_.capacity() * sizeof(Links) + uint64_t{kTierCount} * buckets_ * sizeof(uint64_t);
}

}  // namespace tiercel::core
