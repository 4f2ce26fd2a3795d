// The sweep: finds what lay on segments that are gone. One walk over all records serves all segments that were lost
// before it began; one lost meanwhile has it begin again.
#include "server/core/impl.h"

namespace tiercel::core {

void Master::Impl::Sweep(uint32_t* budget, Times now) {
  // Looking at a record that stays is much cheaper than taking one apart.
  constexpr uint32_t kLooksPerStep = 16;
  if (!sweep_running) {
    if (!sweep_wanted) return;
    sweep_wanted = false;
    sweep_running = true;
    sweep_at = 1;
  }
  uint32_t looks = 0;
  while (*budget > 0) {
    if (sweep_at >= objects.end()) {
      sweep_running = false;
      return;
    }
    const uint32_t slot = sweep_at++;
    if (++looks % kLooksPerStep == 0) --*budget;
    const Object& o = objects[slot];
    if (o.state != ObjectState::kLive) continue;
    bool gone = false;
    ForEachReplica(
        o, [&](uint32_t s, bool, const ExtentList*) { gone = gone || segments[s].life == Segment::Life::kGone; });
    if (!gone) continue;
    if (tables[o.table]->gated) {
      sweep_wanted = true;  // may become visible again: later
      continue;
    }
    if (*budget > 0) --*budget;
    DropReplicas(slot, now);
  }
}

}  // namespace tiercel::core
