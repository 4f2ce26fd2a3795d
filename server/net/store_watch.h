// What an operator reads of stores in the master's log: one line for each change of a store's state.
//
// The core is pure logic and logs nothing; it is looked at from the housekeeping timer instead. A store that goes
// to and fro between two looks is told with where it ended, so that each store has at most one line a look.
#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "server/core/master.h"

namespace tiercel::net {

// Threads: one at a time; Look under the core's lock.
class StoreWatch {
 public:
  struct Line {
    LogLevel level;
    std::string text;
  };
  // What has changed since the last look, and how far a restarted master is. Stores of this process are left out: they
  // log by themselves.
  std::vector<Line> Look(const core::Master& master);

 private:
  struct Seen {
    Incarnation incarnation;
    core::StoreInfo::State state = core::StoreInfo::State::kGone;
  };
  std::vector<Seen> seen_;  // by slot; as many as the core's table of stores
  uint64_t confirmed_ = 0;  // of the restored objects, as told last
};

}  // namespace tiercel::net
