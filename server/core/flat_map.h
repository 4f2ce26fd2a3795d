// FlatMap<V>: from 64-bit numbers to small values, for the core's side tables (puts in flight, pins ...).
//
// Open addressing with linear probing; erasing shifts back, so there are no tombstones. Doubles when three quarters
// full and shrinks again, copying all: meant for tables whose size has a bound of some ten thousands.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tiercel::core {

template <typename V>
class FlatMap {
 public:
  V* Find(uint64_t key) {
    if (size_ == 0) return nullptr;
    const size_t at = Locate(key);
    return cells_[at].used ? &cells_[at].value : nullptr;
  }
  const V* Find(uint64_t key) const { return const_cast<FlatMap*>(this)->Find(key); }
  bool Contains(uint64_t key) const { return Find(key) != nullptr; }

  // The value under the key, made new when there is none. Valid until the next insertion or removal.
  V& operator[](uint64_t key) {
    if ((size_ + 1) * 4 > cells_.size() * 3) Resize(cells_.empty() ? kSmallest : cells_.size() * 2);
    Cell& cell = cells_[Locate(key)];
    if (!cell.used) {
      cell.used = true;
      cell.key = key;
      cell.value = V();
      ++size_;
    }
    return cell.value;
  }

  bool Erase(uint64_t key) {
    if (size_ == 0) return false;
    size_t hole = Locate(key);
    if (!cells_[hole].used) return false;
    const size_t mask = cells_.size() - 1;
    for (size_t at = (hole + 1) & mask; cells_[at].used; at = (at + 1) & mask) {
      // What sits at `at` may fill the hole when its home is not between the two.
      if (((at - Home(cells_[at].key)) & mask) < ((at - hole) & mask)) continue;
      cells_[hole] = std::move(cells_[at]);
      hole = at;
    }
    cells_[hole].used = false;
    --size_;
    if (cells_.size() > kSmallest && size_ * 8 < cells_.size()) Resize(cells_.size() / 2);
    return true;
  }

  template <typename F>
  void ForEach(F&& f) {
    for (Cell& cell : cells_) {
      if (cell.used) f(cell.key, cell.value);
    }
  }
  template <typename F>
  void ForEach(F&& f) const {
    for (const Cell& cell : cells_) {
      if (cell.used) f(cell.key, cell.value);
    }
  }

  // Takes one entry out, whichever comes first from `*at` on; for emptying a table in steps. `*at` starts at 0.
  // REQUIRES: nothing is added or erased in between.
  bool TakeNext(size_t* at, uint64_t* key, V* value) {
    for (; *at < cells_.size(); ++*at) {
      Cell& cell = cells_[*at];
      if (!cell.used) continue;
      *key = cell.key;
      *value = std::move(cell.value);
      cell.used = false;
      --size_;
      ++*at;
      return true;
    }
    return false;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint64_t memory_bytes() const { return cells_.capacity() * sizeof(Cell); }

 private:
  struct Cell {
    uint64_t key = 0;
    V value{};
    bool used = false;
  };
  static constexpr size_t kSmallest = 16;

  size_t Home(uint64_t key) const {
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> 32) & (cells_.size() - 1);
  }
  // The cell that holds the key, or the free one where it would go.
  size_t Locate(uint64_t key) const {
    const size_t mask = cells_.size() - 1;
    size_t at = Home(key);
    while (cells_[at].used && cells_[at].key != key) at = (at + 1) & mask;
    return at;
  }
  void Resize(size_t cells) {
    std::vector<Cell> old(cells);
    old.swap(cells_);
    for (Cell& cell : old) {
      if (!cell.used) continue;
      Cell& to = cells_[Locate(cell.key)];
      TIERCEL_CHECK(!to.used);
      to = std::move(cell);
    }
  }

  std::vector<Cell> cells_;
  size_t size_ = 0;
};

}  // namespace tiercel::core
