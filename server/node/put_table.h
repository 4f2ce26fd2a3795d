// PutTable: which puts may still write at this store. Pure: no lock, no clock.
//
//   unknown -first operation-> OPEN (n operations in flight)
//   OPEN    -Close, or the floor passes it-> CLOSING (no new operation) -n = 0-> CLOSED
//   unknown -Close-> CLOSED
//
// Puts are versions, so they are ordered. The floor is the lowest put that the master still has open on this store:
// it only rises, and everything below it is closed. A closed put is remembered until the floor has passed it, so
// that a late operation with a grant that is still valid finds it closed.
//
// Bounds: `max_open` puts open or closing (beyond: kRetry). Closed puts are kept as ranges of versions, which merge,
// because versions are counted; at most `max_closed_ranges` of them. When there are more, the lowest range is
// forgotten and every put up to its end counts as closed unless it is open now. That refuses a put whose first
// operation comes after so many younger ones were closed (its writer starts again), and admits nothing wrongly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::node {

class PutTable {
 public:
  struct Limits {
    size_t max_open = 65'536;
    size_t max_closed_ranges = 65'536;
  };
  enum class Phase : uint8_t { kUnknown, kOpen, kClosing, kClosed };

  PutTable() = default;
  explicit PutTable(Limits limits) : limits_(limits) {}

  // One more operation of this put is in flight. kStalePut: closing or closed; kRetry: the table is full;
  // kShutdown: the put is unknown and RefuseNew was called.
  Status Begin(Version put);
  enum class EndOutcome : uint8_t { kNothing, kClosed, kClosedByOrder };
  // That operation has ended. kClosed: its put became CLOSED by it; kClosedByOrder: after a Close, which is to be
  // answered now. REQUIRES: a Begin without its End.
  EndOutcome End(Version put);
  // The same for a writer who will not come again with this put, and of whom the master may not say so (it ends
  // such puts by itself): with no operation left the put becomes unknown again, unless it is closing.
  EndOutcome EndForGood(Version put);

  enum class CloseOutcome : uint8_t { kClosed, kInFlight };
  // kClosed: also when it was closed before or never seen. kInFlight: End will tell.
  CloseOutcome Close(Version put);

  // Number of puts below the new floor that have operations in flight. A floor that is not higher changes nothing.
  size_t RaiseFloor(Version floor);
  // No operation of a put below `version` is in flight, and none will ever be. REQUIRES: version <= floor().
  bool AllClosedBelow(Version version) const;

  Phase PhaseOf(Version put) const;
  // Puts that began or ended an operation since the last call and are still open: their bytes are arriving.
  void TakeAlive(std::vector<Version>* out);
  // From now on only puts that are open already may begin operations.
  void RefuseNew() { refuse_new_ = true; }

  Version floor() const { return floor_; }
  size_t open() const { return open_.size(); }  // open and closing
  size_t closed_ranges() const { return closed_.size(); }
  uint64_t forgotten_ranges() const { return forgotten_ranges_; }

 private:
  struct Entry {
    uint32_t operations = 0;
    bool closing = false;
    bool report = false;   // closed by order, not only by the floor
    bool touched = false;  // listed in touched_
  };
  using Open = std::map<Version, Entry>;

  void Touch(Version put, Entry* entry);
  void RememberClosed(Version put);
  bool InClosedRange(Version put) const;

  Limits limits_;
  Version floor_;
  Version forgotten_;  // closed up to and including, unless open now
  Open open_;
  std::map<uint64_t, uint64_t> closed_;  // first -> last, inclusive; neither overlapping nor adjacent
  std::vector<Version> touched_;         // at most one entry an open put between two calls of TakeAlive
  bool refuse_new_ = false;
  uint64_t forgotten_ranges_ = 0;
};

}  // namespace tiercel::node
