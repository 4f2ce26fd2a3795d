// PutTable against a model that remembers everything.
#include "server/node/put_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace tiercel::node {
namespace {

using Phase = PutTable::Phase;
using CloseOutcome = PutTable::CloseOutcome;
using EndOutcome = PutTable::EndOutcome;

Version V(uint64_t value) { return Version{value}; }

ErrorCode CodeOf(const Status& status) { return status.ok() ? ErrorCode::kInternal : status.error().code(); }

TEST(PutTableTest, LifeOfAPut) {
  PutTable table;
  EXPECT_EQ(table.PhaseOf(V(7)), Phase::kUnknown);
  ASSERT_TRUE(table.Begin(V(7)).ok());
  ASSERT_TRUE(table.Begin(V(7)).ok());
  EXPECT_EQ(table.PhaseOf(V(7)), Phase::kOpen);
  EXPECT_EQ(table.End(V(7)), EndOutcome::kNothing);
  EXPECT_EQ(table.Close(V(7)), CloseOutcome::kInFlight);
  EXPECT_EQ(table.PhaseOf(V(7)), Phase::kClosing);
  EXPECT_EQ(CodeOf(table.Begin(V(7))), ErrorCode::kStalePut);
  EXPECT_EQ(table.End(V(7)), EndOutcome::kClosedByOrder);
  EXPECT_EQ(table.PhaseOf(V(7)), Phase::kClosed);
  EXPECT_EQ(CodeOf(table.Begin(V(7))), ErrorCode::kStalePut);
  // The order is repeated (its answer was lost): closed, again.
  EXPECT_EQ(table.Close(V(7)), CloseOutcome::kClosed);
}

TEST(PutTableTest, CloseBeforeTheFirstOperation) {
  PutTable table;
  EXPECT_EQ(table.Close(V(9)), CloseOutcome::kClosed);
  EXPECT_EQ(CodeOf(table.Begin(V(9))), ErrorCode::kStalePut);
  EXPECT_EQ(table.open(), 0u);
}

TEST(PutTableTest, NoPutHasNoVersion) {
  PutTable table;
  EXPECT_EQ(CodeOf(table.Begin(V(0))), ErrorCode::kStalePut);
}

TEST(PutTableTest, FloorClosesWhatIsBelowAndOnlyRises) {
  PutTable table;
  ASSERT_TRUE(table.Begin(V(3)).ok());
  ASSERT_TRUE(table.Begin(V(5)).ok());
  EXPECT_EQ(table.End(V(5)), EndOutcome::kNothing);
  ASSERT_TRUE(table.Begin(V(8)).ok());
  EXPECT_EQ(table.RaiseFloor(V(8)), 1u);  // 3 is in flight, 5 is not
  EXPECT_FALSE(table.AllClosedBelow(V(8)));
  EXPECT_EQ(table.PhaseOf(V(3)), Phase::kClosing);
  EXPECT_EQ(table.PhaseOf(V(5)), Phase::kClosed);
  EXPECT_EQ(table.PhaseOf(V(8)), Phase::kOpen);
  EXPECT_EQ(CodeOf(table.Begin(V(4))), ErrorCode::kStalePut);
  EXPECT_EQ(table.RaiseFloor(V(2)), 0u);
  EXPECT_EQ(table.floor(), V(8));
  EXPECT_EQ(table.End(V(3)), EndOutcome::kClosed);  // nobody asked for this one by name
  EXPECT_TRUE(table.AllClosedBelow(V(8)));
}

TEST(PutTableTest, OpenPutsAreBounded) {
  PutTable table({.max_open = 2, .max_closed_ranges = 10});
  ASSERT_TRUE(table.Begin(V(1)).ok());
  ASSERT_TRUE(table.Begin(V(2)).ok());
  EXPECT_EQ(CodeOf(table.Begin(V(3))), ErrorCode::kRetry);
  ASSERT_TRUE(table.Begin(V(2)).ok());  // a known one goes on
  EXPECT_EQ(table.Close(V(2)), CloseOutcome::kInFlight);
  EXPECT_EQ(CodeOf(table.Begin(V(3))), ErrorCode::kRetry);  // a closing one still counts
  EXPECT_EQ(table.End(V(2)), EndOutcome::kNothing);
  EXPECT_EQ(table.End(V(2)), EndOutcome::kClosedByOrder);
  EXPECT_TRUE(table.Begin(V(3)).ok());
}

TEST(PutTableTest, NeighboursMergeAndForgettingRefusesRatherThanAdmits) {
  PutTable table({.max_open = 100, .max_closed_ranges = 3});
  for (uint64_t v = 100; v < 200; ++v) table.Close(V(v));
  EXPECT_EQ(table.closed_ranges(), 1u);
  ASSERT_TRUE(table.Begin(V(50)).ok());
  for (uint64_t v : {210, 220, 230}) table.Close(V(v));
  EXPECT_EQ(table.closed_ranges(), 3u);
  EXPECT_EQ(table.forgotten_ranges(), 1u);
  EXPECT_EQ(CodeOf(table.Begin(V(150))), ErrorCode::kStalePut);
  EXPECT_EQ(CodeOf(table.Begin(V(60))), ErrorCode::kStalePut);  // never closed, but too old to tell
  EXPECT_TRUE(table.Begin(V(50)).ok());                         // open all the while
  EXPECT_TRUE(table.Begin(V(205)).ok());
}

TEST(PutTableTest, AliveIsWhatMoved) {
  PutTable table;
  std::vector<Version> alive;
  ASSERT_TRUE(table.Begin(V(1)).ok());
  ASSERT_TRUE(table.Begin(V(2)).ok());
  ASSERT_TRUE(table.Begin(V(3)).ok());
  table.Close(V(3));
  table.TakeAlive(&alive);
  EXPECT_EQ(alive, (std::vector<Version>{V(1), V(2)}));
  alive.clear();
  table.TakeAlive(&alive);  // an operation that is stuck is no sign of life
  EXPECT_TRUE(alive.empty());
  EXPECT_EQ(table.End(V(2)), EndOutcome::kNothing);
  table.TakeAlive(&alive);
  EXPECT_EQ(alive, (std::vector<Version>{V(2)}));
}

TEST(PutTableTest, AStoppingStoreTakesNoNewPut) {
  PutTable table;
  ASSERT_TRUE(table.Begin(V(1)).ok());
  table.RefuseNew();
  EXPECT_TRUE(table.Begin(V(1)).ok());
  EXPECT_EQ(CodeOf(table.Begin(V(2))), ErrorCode::kShutdown);
}

TEST(PutTableTest, AWriterThatWillNotComeAgainLeavesNothingBehind) {
  PutTable table({.max_open = 2, .max_closed_ranges = 10});
  for (uint64_t v = 1; v < 100; ++v) {
    ASSERT_TRUE(table.Begin(V(v)).ok());
    EXPECT_EQ(table.EndForGood(V(v)), EndOutcome::kNothing);
    EXPECT_EQ(table.PhaseOf(V(v)), Phase::kUnknown);
  }
  EXPECT_EQ(table.open(), 0u);
  // Closed while it was writing: as for any other.
  ASSERT_TRUE(table.Begin(V(100)).ok());
  EXPECT_EQ(table.Close(V(100)), CloseOutcome::kInFlight);
  EXPECT_EQ(table.EndForGood(V(100)), EndOutcome::kClosedByOrder);
  EXPECT_EQ(table.PhaseOf(V(100)), Phase::kClosed);
  // Another operation of the put is still under way.
  ASSERT_TRUE(table.Begin(V(101)).ok());
  ASSERT_TRUE(table.Begin(V(101)).ok());
  EXPECT_EQ(table.EndForGood(V(101)), EndOutcome::kNothing);
  EXPECT_EQ(table.PhaseOf(V(101)), Phase::kOpen);
}

// What a table without bounds and without cleverness would say.
struct Model {
  struct Put {
    uint32_t operations = 0;
    bool closing = false, ordered = false;
  };
  std::map<uint64_t, Put> open;
  std::set<uint64_t> closed;
  uint64_t floor = 0;

  bool IsClosed(uint64_t v) const { return !open.contains(v) && (v < floor || closed.contains(v)); }
};

TEST(PutTableTest, RandomHistoriesAgreeWithTheModel) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    PutTable table;
    Model model;
    uint64_t newest = 1;
    for (int step = 0; step < 3000; ++step) {
      newest += random.Below(3);
      const uint64_t v = newest > 40 ? newest - random.Below(40) : 1 + random.Below(newest);
      switch (random.Below(8)) {
        case 0:
        case 1:
        case 2: {
          const bool wanted = !model.IsClosed(v) && !(model.open.contains(v) && model.open[v].closing);
          ASSERT_EQ(table.Begin(V(v)).ok(), wanted);
          if (wanted) ++model.open[v].operations;
          break;
        }
        case 3:
        case 4:
        case 5: {
          auto it = model.open.lower_bound(v);
          if (it == model.open.end() || it->second.operations == 0) break;
          --it->second.operations;
          EndOutcome wanted = EndOutcome::kNothing;
          const uint64_t put = it->first;
          if (it->second.closing && it->second.operations == 0) {
            wanted = it->second.ordered ? EndOutcome::kClosedByOrder : EndOutcome::kClosed;
            model.closed.insert(put);
            model.open.erase(it);
          }
          ASSERT_EQ(table.End(V(put)), wanted);
          break;
        }
        case 6: {
          auto it = model.open.find(v);
          if (it != model.open.end() && it->second.operations > 0) {
            it->second.closing = it->second.ordered = true;
            ASSERT_EQ(table.Close(V(v)), CloseOutcome::kInFlight);
          } else {
            model.open.erase(v);
            model.closed.insert(v);
            ASSERT_EQ(table.Close(V(v)), CloseOutcome::kClosed);
          }
          break;
        }
        case 7: {
          if (!random.OneIn(10)) break;
          model.floor = std::max(model.floor, v);
          table.RaiseFloor(V(v));
          for (auto it = model.open.begin(); it != model.open.end() && it->first < model.floor;) {
            it->second.closing = true;
            it = it->second.operations == 0 ? model.open.erase(it) : std::next(it);
          }
          break;
        }
      }
      ASSERT_EQ(table.open(), model.open.size());
      ASSERT_EQ(table.AllClosedBelow(V(model.floor)), model.open.empty() || model.open.begin()->first >= model.floor);
      const uint64_t probe = 1 + random.Below(newest + 3);
      ASSERT_EQ(table.PhaseOf(V(probe)) == Phase::kClosed, model.IsClosed(probe)) << probe;
    }
  }
}

TEST(PutTableTest, NothingThatWasClosedIsEverAdmittedUnderTightBounds) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    PutTable table({.max_open = 8, .max_closed_ranges = 4});
    std::set<uint64_t> closed;
    std::map<uint64_t, uint32_t> operations;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t v = 1 + static_cast<uint64_t>(step) / 10 + random.Below(60);
      if (random.OneIn(2)) {
        const bool ok = table.Begin(V(v)).ok();
        if (ok) {
          ASSERT_FALSE(closed.contains(v)) << v;
          ++operations[v];
        }
      } else if (random.OneIn(2) && operations[v] > 0) {
        --operations[v];
        if (table.End(V(v)) != EndOutcome::kNothing) closed.insert(v);
      } else if (table.Close(V(v)) == CloseOutcome::kClosed) {
        closed.insert(v);
      }
      ASSERT_LE(table.closed_ranges(), 4u);
      ASSERT_LE(table.open(), 8u);
    }
  }
}

}  // namespace
}  // namespace tiercel::node
