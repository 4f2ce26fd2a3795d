// RangeTable: which ranges of one segment are in use, and for what. Pure: no lock, no clock. The last line of
// defence against writing bytes that somebody still reads: the master plans so that it never has to refuse.
//
//   ingest              the store's process writes the range for a put; excludes every other use
//   send, disk write    the range is read for somebody; any number may overlap
//   view                a reader maps the range and may look at it until it lets go; overlaps like reads
//
// Readers that copy and outlive their object meet its successor's ingest here, and lose (their checksums would have
// told them too). A write that meets a use is refused; the table then remembers the refused place, because the
// master keeps it out of use until it hears that nothing holds it any more (TakeUnpinned).
//
// Ingests are disjoint, so one ordered map holds them. Overlapping readers are kept as disjoint pieces with a
// count each, equal neighbours merged: n uses make at most 2n + 1 pieces, and every question is one look-up.
// Bounds: `max_uses` at a time; `max_refused` remembered refusals. The oldest one beyond that is reported too early,
// which is safe: the next write that meets the holder is refused again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/extent_allocator.h"
#include "tiercel/types.h"

namespace tiercel::node {

enum class Use : uint8_t { kSend = 0, kDiskWrite = 1, kView = 2, kIngest = 3 };
inline constexpr size_t kUseCount = 4;

class RangeTable {
 public:
  struct Limits {
    size_t max_uses = 65'536;
    size_t max_refused = 4'096;
  };
  // Somebody whose use does not go together with the one asked for.
  struct Conflict {
    Extent range;  // of the holder, at least the part that is met
    Use use = Use::kSend;
    Version put;  // the holder's, when it is an ingest
  };

  RangeTable() = default;
  explicit RangeTable(Limits limits) : limits_(limits) {}

  // First use that does not go together with this one, if any; nothing changes.
  std::optional<Conflict> Find(Extent range, Use use) const;
  // REQUIRES: Find(range, use) is nullopt, HasRoom(1), the range is not empty and does not wrap around.
  void Add(Extent range, Use use, Version put);
  // REQUIRES: exactly this use was added.
  void Remove(Extent range, Use use);
  bool HasRoom(size_t more) const { return more <= limits_.max_uses && total_uses() <= limits_.max_uses - more; }

  // A write of `put`, whose place these extents are, met a use. One entry a put.
  void NoteRefused(Version put, const ExtentList& place);
  // Places of refused puts that are closed here and of which nothing is in use any more; each is told once.
  // (Only behind its CLOSED: before, the master has not yet been told of the refusal.)
  void TakeUnpinned(const std::function<bool(Version)>& is_closed, std::vector<Extent>* out);
  // The contents were given up: what was refused before does not matter any more.
  void ForgetRefused();

  size_t uses(Use use) const { return uses_[static_cast<size_t>(use)]; }
  uint64_t bytes(Use use) const { return bytes_[static_cast<size_t>(use)]; }
  size_t total_uses() const { return uses_[0] + uses_[1] + uses_[2] + uses_[3]; }
  size_t refused() const { return refused_.size(); }
  size_t pieces() const { return shared_.size() + ingests_.size(); }

 private:
  using Counts = std::array<uint32_t, 3>;  // by Use, without kIngest
  struct Piece {
    uint64_t end = 0;
    Counts counts{};
  };
  struct Ingest {
    uint64_t end = 0;
    Version put;
  };
  struct Refused {
    Version put;
    ExtentList place;
  };
  using Pieces = std::map<uint64_t, Piece>;  // by first byte

  bool AnyUse(Extent range) const;
  std::optional<Conflict> FindIngest(Extent range) const;
  std::optional<Conflict> FindShared(Extent range) const;
  void SplitAt(uint64_t offset);
  void MergeAround(uint64_t first, uint64_t last);

  Limits limits_;
  std::map<uint64_t, Ingest> ingests_;
  Pieces shared_;
  std::deque<Refused> refused_;  // oldest first
  std::vector<Extent> early_;    // pushed out of refused_, told by the next TakeUnpinned; bounded like it
  std::array<size_t, kUseCount> uses_{};
  std::array<uint64_t, kUseCount> bytes_{};
};

}  // namespace tiercel::node
