// The one thread that makes journal records durable: takes them from the core in batches, writes them to the
// index, tells the core, and wakes whoever waited. Never holds the core's lock over a write.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "server/core/master.h"

namespace tiercel::index {

class Committer {
 public:
  // `progressed` runs on the committer's thread, without the lock, whenever durable() moved or commands were undone.
  // A failed index is asked to resume every `resume_every_ms`, for as long as it takes.
  Committer(core::Index* index, core::Master* master, std::mutex* lock, const Clock* clock,
            std::function<void()> progressed, int64_t resume_every_ms = 1000);
  ~Committer();  // commits what is there, then stops; does not wait for an index that cannot be written
  void Wake();   // records are there; cheap, any thread

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An index that keeps nothing: a restarted master starts empty.
std::unique_ptr<core::Index> MakeNullIndex();

// The generation of this run: reads `file`, writes value + 1 (or `at_least`, if greater) with fsync and rename, and
// returns it. kIo with the path when that fails; kInvalid when the file holds something else.
Result<uint64_t> RaiseGeneration(const std::string& file, uint64_t at_least = 1);
// Makes the file hold at least that, with fsync and rename; never lowers it.
Status KeepGeneration(const std::string& file, uint64_t at_least);

}  // namespace tiercel::index
