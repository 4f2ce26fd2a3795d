// Size classes as in TLSF (Masmano et al., 2004): a class is a power of two cut into 32 parts, exact below 32
// granules; a bitmap of two levels finds the next class that has a range. A request takes the first range of the
// first class all of whose ranges fit; before that, a few ranges of the classes that may fit, so that a hole that
// was just freed is used again by an object of its size.
//
// Unlike TLSF nothing is kept for used ranges. Neighbours of a freed range are found by hashing its borders.
//
// For the large granule a range fits when it does after its head has been cut to alignment; head and tail stay free.
#include "base/extent_allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/extent_index.h"

namespace tiercel {
namespace {

using internal::BoundaryIndex;
using internal::Chunked;
using internal::FreeRange;
using internal::kNoRange;

constexpr int kSplitBits = 5;
constexpr uint32_t kSplit = 1u << kSplitBits;
constexpr int kMaxGranuleBits = 38;  // 2^44 bytes in granules of 64
constexpr uint32_t kRows = kMaxGranuleBits - kSplitBits + 2;
constexpr uint32_t kNoClass = UINT32_MAX;

// Ranges that one search may look at in classes that only may fit: before larger ranges are broken up, and
// before a request is given several extents.
constexpr int kQuickLooks = 8;
constexpr int kThoroughLooks = 64;
// Ranges that a request for several extents may look at.
constexpr int kGatherLooks = 4 * static_cast<int>(kMaxExtents);

constexpr uint32_t ClassOf(uint64_t length) {
  if (length < kSplit) return static_cast<uint32_t>(length);
  const int shift = std::bit_width(length) - 1 - kSplitBits;
  return static_cast<uint32_t>(shift + 1) * kSplit + static_cast<uint32_t>(length >> shift & (kSplit - 1));
}
constexpr uint64_t SmallestOf(uint32_t size_class) {
  const uint32_t row = size_class / kSplit;
  if (row == 0) return size_class;
  return uint64_t{kSplit + size_class % kSplit} << (row - 1);
}
static_assert(SmallestOf(ClassOf(31)) == 31 && SmallestOf(ClassOf(64)) == 64 && SmallestOf(ClassOf(65)) == 64);
static_assert(ClassOf(uint64_t{1} << kMaxGranuleBits) < kRows * kSplit);

constexpr uint64_t AlignUp(uint64_t value, uint64_t unit) { return (value + unit - 1) & ~(unit - 1); }

// Granules of the range that can be given out in units of `unit`.
uint64_t UsableLength(const FreeRange& range, uint64_t unit) {
  const uint64_t from = AlignUp(range.start, unit), to = range.end() & ~(unit - 1);
  return to > from ? to - from : 0;
}

}  // namespace

struct ExtentAllocator::Impl {
  explicit Impl(uint64_t capacity) : capacity_granules(capacity), borders(&ranges) {
    heads.fill(kNoRange);
    if (capacity > 0) Insert(0, capacity);
  }
  Impl(const Impl&) = delete;

  const uint64_t capacity_granules;
  uint64_t free_granules = 0;
  Chunked<FreeRange> ranges;
  uint32_t unused = kNoRange;  // slots of `ranges`, chained through bin_next
  BoundaryIndex borders;
  std::array<uint32_t, kRows * kSplit> heads;
  std::array<uint32_t, kRows> columns{};  // bit: the class has a range
  uint64_t rows = 0;                      // bit: the row has a class with a range
  static_assert(kRows <= 64);
  // Free ranges in order, for Claim: built by the first Claim that needs it, dropped by the next Allocate or Free.
  std::map<uint64_t, uint32_t> ordered;
  bool ordered_valid = false;

  // ---- size classes

  void Enlist(uint32_t slot) {
    FreeRange& range = ranges[slot];
    const uint32_t size_class = ClassOf(range.length);
    range.bin_previous = kNoRange;
    range.bin_next = heads[size_class];
    if (range.bin_next != kNoRange) ranges[range.bin_next].bin_previous = slot;
    heads[size_class] = slot;
    columns[size_class / kSplit] |= 1u << size_class % kSplit;
    rows |= uint64_t{1} << size_class / kSplit;
  }

  void Delist(uint32_t slot) {
    const FreeRange& range = ranges[slot];
    if (range.bin_next != kNoRange) ranges[range.bin_next].bin_previous = range.bin_previous;
    if (range.bin_previous != kNoRange) {
      ranges[range.bin_previous].bin_next = range.bin_next;
      return;
    }
    const uint32_t size_class = ClassOf(range.length);
    heads[size_class] = range.bin_next;
    if (range.bin_next != kNoRange) return;
    uint32_t& column = columns[size_class / kSplit];
    column &= ~(1u << size_class % kSplit);
    if (column == 0) rows &= ~(uint64_t{1} << size_class / kSplit);
  }

  // The first class at or above this one that has a range.
  uint32_t NextClass(uint32_t size_class) const {
    uint32_t row = size_class / kSplit;
    if (row >= kRows) return kNoClass;
    const uint32_t in_row = columns[row] & UINT32_MAX << size_class % kSplit;
    if (in_row != 0) return row * kSplit + static_cast<uint32_t>(std::countr_zero(in_row));
    if (++row >= kRows) return kNoClass;
    const uint64_t above = rows & UINT64_MAX << row;
    if (above == 0) return kNoClass;
    row = static_cast<uint32_t>(std::countr_zero(above));
    return row * kSplit + static_cast<uint32_t>(std::countr_zero(columns[row]));
  }

  // The last class at or below this one that has a range.
  uint32_t PreviousClass(uint32_t size_class) const {
    uint32_t row = size_class / kSplit;
    const uint32_t in_row = columns[row] & UINT32_MAX >> (kSplit - 1 - size_class % kSplit);
    if (in_row != 0) return row * kSplit + static_cast<uint32_t>(std::bit_width(in_row)) - 1;
    const uint64_t below = rows & ((uint64_t{1} << row) - 1);
    if (below == 0) return kNoClass;
    row = static_cast<uint32_t>(std::bit_width(below)) - 1;
    return row * kSplit + static_cast<uint32_t>(std::bit_width(columns[row])) - 1;
  }

  // ---- ranges

  void Insert(uint64_t start, uint64_t length) {
    uint32_t slot = unused;
    if (slot == kNoRange) {
      slot = ranges.size();
      ranges.push_back({});
      borders.Reserve(ranges.size());
    } else {
      unused = ranges[slot].bin_next;
    }
    ranges[slot].start = start;
    ranges[slot].length = length;
    free_granules += length;
    borders.AddStart(slot);
    borders.AddEnd(slot);
    Enlist(slot);
    if (ordered_valid) ordered.emplace(start, slot);
  }

  void Remove(uint32_t slot) {
    if (ordered_valid) ordered.erase(ranges[slot].start);
    Delist(slot);
    borders.RemoveStart(slot);
    borders.RemoveEnd(slot);
    free_granules -= ranges[slot].length;
    ranges[slot].bin_next = std::exchange(unused, slot);
  }

  // Gives the range other borders; what stays as it was is not looked up again.
  void Resize(uint32_t slot, uint64_t start, uint64_t length) {
    FreeRange& range = ranges[slot];
    const bool other_start = range.start != start, other_end = range.end() != start + length;
    if (ordered_valid && other_start) ordered.erase(range.start);
    Delist(slot);
    if (other_start) borders.RemoveStart(slot);
    if (other_end) borders.RemoveEnd(slot);
    free_granules += length - range.length;
    range.start = start;
    range.length = length;
    if (other_start) borders.AddStart(slot);
    if (other_end) borders.AddEnd(slot);
    Enlist(slot);
    if (ordered_valid && other_start) ordered.emplace(start, slot);
  }

  // Takes [start, start + length) out of this range.
  void Carve(uint32_t slot, uint64_t start, uint64_t length) {
    const uint64_t head_start = ranges[slot].start, head = start - head_start;
    const uint64_t tail_start = start + length, tail = ranges[slot].end() - tail_start;
    if (head == 0 && tail == 0) {
      Remove(slot);
    } else if (tail == 0) {
      Resize(slot, head_start, head);
    } else {
      Resize(slot, tail_start, tail);
      if (head != 0) Insert(head_start, head);
    }
  }

  // ---- searches

  // A range with `length` usable granules, or kNoRange. `looks`: how many that only may fit are looked at.
  uint32_t FindFit(uint64_t length, uint64_t unit, int looks) const {
    // Any range that long has an aligned run of `length`.
    const uint64_t certain = length + unit - 1;
    uint32_t certain_class = ClassOf(certain);
    if (SmallestOf(certain_class) < certain) ++certain_class;
    for (uint32_t c = NextClass(ClassOf(length)); c < certain_class && looks > 0; c = NextClass(c + 1)) {
      for (uint32_t slot = heads[c]; slot != kNoRange && looks > 0; slot = ranges[slot].bin_next, --looks) {
        if (UsableLength(ranges[slot], unit) >= length) return slot;
      }
    }
    const uint32_t c = NextClass(certain_class);
    return c == kNoClass ? kNoRange : heads[c];
  }

  void TakeFrom(uint32_t slot, uint64_t length, uint64_t unit, ExtentList* out) {
    const uint64_t start = AlignUp(ranges[slot].start, unit);
    Carve(slot, start, length);
    out->push_back({start * kSmallGranule, length * kSmallGranule});
  }

  bool AllocateSeveral(uint64_t length, uint64_t unit, ExtentList* out) {
    std::array<uint32_t, kMaxExtents> taken;
    uint32_t count = 0;
    uint64_t gathered = 0, last_usable = 0;
    int looks = kGatherLooks;
    // Ranges below one unit hold none.
    for (uint32_t c = PreviousClass(kRows * kSplit - 1); c != kNoClass && SmallestOf(c + 1) > unit;
         c = c == 0 ? kNoClass : PreviousClass(c - 1)) {
      for (uint32_t slot = heads[c]; slot != kNoRange; slot = ranges[slot].bin_next) {
        if (gathered >= length || count == kMaxExtents || looks-- == 0) break;
        last_usable = UsableLength(ranges[slot], unit);
        if (last_usable == 0) continue;
        gathered += last_usable;
        taken[count++] = slot;
      }
      if (gathered >= length || count == kMaxExtents || looks <= 0) break;
    }
    if (gathered < length) return false;
    for (uint32_t i = 0; i + 1 < count; ++i) {
      const uint64_t usable = UsableLength(ranges[taken[i]], unit);
      TakeFrom(taken[i], usable, unit, out);
      length -= usable;
    }
    // The rest: out of the range that fits it best rather than out of the last large one. One fits: the last.
    const uint32_t best = FindFit(length, unit, kQuickLooks);
    TakeFrom(best != kNoRange ? best : taken[count - 1], length, unit, out);
    return true;
  }

  // The free range that holds [start, start + length), or kNoRange.
  uint32_t FindHolder(uint64_t start, uint64_t length) {
    uint32_t slot = borders.FindStart(start);
    if (slot == kNoRange) {
      if (!ordered_valid) BuildOrdered();
      auto it = ordered.upper_bound(start);
      if (it == ordered.begin()) return kNoRange;
      slot = std::prev(it)->second;
    }
    const FreeRange& range = ranges[slot];
    return range.end() > start && range.end() - start >= length ? slot : kNoRange;
  }

  void BuildOrdered() {
    for (uint32_t c = NextClass(0); c != kNoClass; c = NextClass(c + 1)) {
      for (uint32_t slot = heads[c]; slot != kNoRange; slot = ranges[slot].bin_next) {
        ordered.emplace(ranges[slot].start, slot);
      }
    }
    ordered_valid = true;
  }

  void DropOrdered() {
    if (!ordered_valid) return;
    ordered.clear();
    ordered_valid = false;
  }
};

ExtentAllocator::ExtentAllocator(uint64_t capacity_bytes) {
  TIERCEL_CHECK(capacity_bytes < uint64_t{1} << 44);
  impl_ = std::make_unique<Impl>(capacity_bytes / kSmallGranule);
}
ExtentAllocator::~ExtentAllocator() = default;
ExtentAllocator::ExtentAllocator(ExtentAllocator&&) noexcept = default;
ExtentAllocator& ExtentAllocator::operator=(ExtentAllocator&&) noexcept = default;

bool ExtentAllocator::Allocate(uint64_t bytes, uint32_t granule, ExtentList* out) {
  TIERCEL_CHECK(bytes > 0);
  TIERCEL_CHECK(granule == kSmallGranule || granule == kLargeGranule);
  Impl& impl = *impl_;
  out->clear();
  if (bytes > impl.free_granules * kSmallGranule) return false;
  const uint64_t unit = granule / kSmallGranule;
  const uint64_t length = AlignUp(bytes, granule) / kSmallGranule;
  if (length > impl.free_granules) return false;
  impl.DropOrdered();
  uint32_t slot = impl.FindFit(length, unit, kQuickLooks);
  if (slot == kNoRange) slot = impl.FindFit(length, unit, kThoroughLooks);
  if (slot == kNoRange) return impl.AllocateSeveral(length, unit, out);
  impl.TakeFrom(slot, length, unit, out);
  return true;
}

bool ExtentAllocator::Claim(Extent extent) {
  TIERCEL_CHECK(extent.length > 0);
  if (extent.offset % kSmallGranule != 0 || extent.length % kSmallGranule != 0) return false;
  const uint64_t start = extent.offset / kSmallGranule, length = extent.length / kSmallGranule;
  const uint32_t slot = impl_->FindHolder(start, length);
  if (slot == kNoRange) return false;
  impl_->Carve(slot, start, length);
  return true;
}

void ExtentAllocator::Free(Extent extent) {
  Impl& impl = *impl_;
  TIERCEL_CHECK(extent.length > 0);
  TIERCEL_CHECK(extent.offset % kSmallGranule == 0);
  TIERCEL_CHECK(extent.length % kSmallGranule == 0, "ranges are freed in whole granules, as they were allocated");
  TIERCEL_CHECK(extent.offset <= capacity_bytes());
  TIERCEL_CHECK(extent.length <= capacity_bytes() - extent.offset);
  const uint64_t start = extent.offset / kSmallGranule, length = extent.length / kSmallGranule, end = start + length;
  impl.borders.Prefetch(start);
  impl.borders.Prefetch(end);
  TIERCEL_CHECK(length <= impl.capacity_granules - impl.free_granules, "freed twice");
  TIERCEL_CHECK(impl.borders.FindStart(start) == kNoRange, "freed twice");
  TIERCEL_CHECK(impl.borders.FindEnd(end) == kNoRange, "freed twice");
  impl.DropOrdered();
  const uint32_t before = impl.borders.FindEnd(start), after = impl.borders.FindStart(end);
  const uint64_t from = before != kNoRange ? impl.ranges[before].start : start;
  const uint64_t to = after != kNoRange ? impl.ranges[after].end() : end;
  if (before != kNoRange && after != kNoRange) impl.Remove(after);
  if (before != kNoRange) {
    impl.Resize(before, from, to - from);
  } else if (after != kNoRange) {
    impl.Resize(after, from, to - from);
  } else {
    impl.Insert(start, length);
  }
}

uint64_t ExtentAllocator::capacity_bytes() const { return impl_->capacity_granules * kSmallGranule; }
uint64_t ExtentAllocator::free_bytes() const { return impl_->free_granules * kSmallGranule; }

uint64_t ExtentAllocator::largest_free_run() const {
  const uint32_t c = impl_->PreviousClass(kRows * kSplit - 1);
  return c == kNoClass ? 0 : impl_->ranges[impl_->heads[c]].length * kSmallGranule;
}

uint64_t ExtentAllocator::memory_bytes() const {
  constexpr uint64_t kOrderedNodeBytes = 64;
  return sizeof(Impl) + impl_->ranges.memory_bytes() + impl_->borders.memory_bytes() +
         impl_->ordered.size() * kOrderedNodeBytes;
}

}  // namespace tiercel
