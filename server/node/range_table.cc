#include "server/node/range_table.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace tiercel::node {

namespace {

// The entry that holds `offset`, or else the first one behind it. For maps of disjoint ranges.
template <typename Map>
auto FirstTouching(Map& map, uint64_t offset) {
  auto next = map.upper_bound(offset);
  if (next != map.begin()) {
    auto previous = std::prev(next);
    if (previous->second.end > offset) return previous;
  }
  return next;
}

uint64_t EndOf(Extent range) { return range.offset + range.length; }

}  // namespace

std::optional<RangeTable::Conflict> RangeTable::Find(Extent range, Use use) const {
  if (auto conflict = FindIngest(range)) return conflict;
  if (use == Use::kIngest) return FindShared(range);
  return std::nullopt;
}

void RangeTable::Add(Extent range, Use use, Version put) {
  TIERCEL_CHECK(range.length > 0);
  TIERCEL_CHECK(range.offset <= UINT64_MAX - range.length);
  TIERCEL_CHECK(HasRoom(1));
  ++uses_[static_cast<size_t>(use)];
  bytes_[static_cast<size_t>(use)] += range.length;
  if (use == Use::kIngest) {
    TIERCEL_CHECK(!AnyUse(range), "an ingest excludes every other use");
    ingests_.emplace(range.offset, Ingest{EndOf(range), put});
    return;
  }
  TIERCEL_CHECK(!FindIngest(range), "no reader meets an ingest");
  SplitAt(range.offset);
  SplitAt(EndOf(range));
  const size_t kind = static_cast<size_t>(use);
  uint64_t at = range.offset;
  auto it = shared_.lower_bound(at);
  while (at < EndOf(range)) {
    if (it == shared_.end() || it->first > at) {  // a gap
      const uint64_t end = it == shared_.end() ? EndOf(range) : std::min(EndOf(range), it->first);
      it = shared_.emplace_hint(it, at, Piece{end, {}});
    }
    ++it->second.counts[kind];
    at = it->second.end;
    ++it;
  }
  MergeAround(range.offset, EndOf(range));
}

void RangeTable::Remove(Extent range, Use use) {
  TIERCEL_CHECK(uses_[static_cast<size_t>(use)] > 0);
  --uses_[static_cast<size_t>(use)];
  bytes_[static_cast<size_t>(use)] -= range.length;
  if (use == Use::kIngest) {
    auto found = ingests_.find(range.offset);
    TIERCEL_CHECK(found != ingests_.end());
    TIERCEL_CHECK(found->second.end == EndOf(range));
    ingests_.erase(found);
    return;
  }
  SplitAt(range.offset);
  SplitAt(EndOf(range));
  const size_t kind = static_cast<size_t>(use);
  uint64_t at = range.offset;
  for (auto it = shared_.find(at); at < EndOf(range);) {
    TIERCEL_CHECK(it != shared_.end());
    TIERCEL_CHECK(it->first == at);
    TIERCEL_CHECK(it->second.counts[kind] > 0);
    at = it->second.end;
    --it->second.counts[kind];
    it = it->second.counts == Counts{} ? shared_.erase(it) : std::next(it);
  }
  MergeAround(range.offset, EndOf(range));
}

void RangeTable::NoteRefused(Version put, const ExtentList& place) {
  for (const Refused& known : refused_) {
    if (known.put == put) return;
  }
  if (refused_.size() >= limits_.max_refused) {
    const ExtentList& oldest = refused_.front().place;
    if (early_.size() < limits_.max_refused) early_.insert(early_.end(), oldest.begin(), oldest.end());
    refused_.pop_front();
  }
  refused_.push_back({put, place});
}

void RangeTable::TakeUnpinned(const std::function<bool(Version)>& is_closed, std::vector<Extent>* out) {
  out->insert(out->end(), early_.begin(), early_.end());
  early_.clear();
  std::erase_if(refused_, [&](const Refused& refused) {
    if (!is_closed(refused.put)) return false;
    for (const Extent& extent : refused.place) {
      if (AnyUse(extent)) return false;
    }
    out->insert(out->end(), refused.place.begin(), refused.place.end());
    return true;
  });
}

void RangeTable::ForgetRefused() {
  refused_.clear();
  early_.clear();
}

bool RangeTable::AnyUse(Extent range) const { return FindIngest(range) || FindShared(range); }

std::optional<RangeTable::Conflict> RangeTable::FindIngest(Extent range) const {
  auto it = FirstTouching(ingests_, range.offset);
  if (it == ingests_.end() || it->first >= EndOf(range)) return std::nullopt;
  return Conflict{{it->first, it->second.end - it->first}, Use::kIngest, it->second.put};
}

std::optional<RangeTable::Conflict> RangeTable::FindShared(Extent range) const {
  auto it = FirstTouching(shared_, range.offset);
  if (it == shared_.end() || it->first >= EndOf(range)) return std::nullopt;
  const Counts& counts = it->second.counts;
  Use use = Use::kSend;
  if (counts[static_cast<size_t>(Use::kDiskWrite)] > 0) use = Use::kDiskWrite;
  if (counts[static_cast<size_t>(Use::kView)] > 0) use = Use::kView;
  return Conflict{{it->first, it->second.end - it->first}, use, Version{}};
}

// A piece that goes across `offset` becomes two.
void RangeTable::SplitAt(uint64_t offset) {
  auto it = FirstTouching(shared_, offset);
  if (it == shared_.end() || it->first >= offset) return;
  const Piece behind{it->second.end, it->second.counts};
  it->second.end = offset;
  shared_.emplace_hint(std::next(it), offset, behind);
}

// Pieces that meet within [first, last], ends included, become one where their counts are equal.
void RangeTable::MergeAround(uint64_t first, uint64_t last) {
  auto it = shared_.lower_bound(first);
  if (it != shared_.begin()) --it;
  while (it != shared_.end() && it->first <= last) {
    auto next = std::next(it);
    if (next != shared_.end() && it->second.end == next->first && it->second.counts == next->second.counts) {
      it->second.end = next->second.end;
      shared_.erase(next);
    } else {
      it = next;
    }
  }
}

}  // namespace tiercel::node
