// TimeHeap: ids in the order of a time, each removable by its place. For times to live, pins that end, quarantine.
//
// A heap of four children, in chunks, so that growing copies nothing. Whoever owns an id keeps its place (0: not in
// the heap), which the heap reports through SetPlace as it moves: no stale entries, no scan, memory in proportion.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace tiercel::core {

// SetPlace: callable as set(id, place).
template <typename SetPlace>
class TimeHeap {
 public:
  explicit TimeHeap(SetPlace set) : set_(set) {}

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  int64_t top_when() const { return At(1).when; }
  uint32_t top_id() const { return At(1).id; }

  void Push(int64_t when, uint32_t id) {
    if (size_ >= (uint64_t{chunks_.size()} << kShift)) chunks_.push_back(std::make_unique<Item[]>(kMask + 1));
    ++size_;
    Up(size_, {when, id});
  }

  // REQUIRES: `place` is where the id is.
  void Remove(uint32_t place) {
    TIERCEL_CHECK(place >= 1 && place <= size_);
    set_(At(place).id, 0u);
    const Item last = At(size_);
    --size_;
    if (place <= size_) Settle(place, last);
    if ((uint64_t{chunks_.size()} << kShift) >= size_ + 2 * uint64_t{kMask + 1}) chunks_.pop_back();
  }
  void Update(uint32_t place, int64_t when) {
    TIERCEL_CHECK(place >= 1 && place <= size_);
    Settle(place, {when, At(place).id});
  }
  uint32_t IdAt(uint32_t place) const { return At(place).id; }
  int64_t WhenAt(uint32_t place) const { return At(place).when; }

  uint64_t memory_bytes() const { return chunks_.size() * sizeof(Item) * (kMask + 1); }

 private:
  struct Item {
    int64_t when = 0;
    uint32_t id = 0;
  };
  static constexpr int kShift = 10;
  static constexpr uint32_t kMask = (1u << kShift) - 1;

  Item& At(uint32_t place) { return chunks_[(place - 1) >> kShift][(place - 1) & kMask]; }
  const Item& At(uint32_t place) const { return chunks_[(place - 1) >> kShift][(place - 1) & kMask]; }
  void Set(uint32_t place, Item item) {
    At(place) = item;
    set_(item.id, place);
  }

  void Settle(uint32_t place, Item item) {
    if (place > 1 && item.when < At(Parent(place)).when) {
      Up(place, item);
    } else {
      Down(place, item);
    }
  }
  static uint32_t Parent(uint32_t place) { return (place + 2) / 4; }

  void Up(uint32_t place, Item item) {
    while (place > 1 && item.when < At(Parent(place)).when) {
      Set(place, At(Parent(place)));
      place = Parent(place);
    }
    Set(place, item);
  }
  void Down(uint32_t place, Item item) {
    for (;;) {
      uint32_t best = 0;
      for (uint64_t child = uint64_t{place} * 4 - 2; child <= uint64_t{place} * 4 + 1 && child <= size_; ++child) {
        const auto c = static_cast<uint32_t>(child);
        if (best == 0 || At(c).when < At(best).when) best = c;
      }
      if (best == 0 || At(best).when >= item.when) break;
      Set(place, At(best));
      place = best;
    }
    Set(place, item);
  }

  SetPlace set_;
  std::vector<std::unique_ptr<Item[]>> chunks_;
  uint32_t size_ = 0;
};

}  // namespace tiercel::core
