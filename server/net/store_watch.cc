#include "server/net/store_watch.h"

#include <fmt/format.h>

#include "server/net/replica_reply.h"

namespace tiercel::net {
namespace {

using State = core::StoreInfo::State;

LogLevel LevelOf(State state) {
  switch (state) {
    case State::kJoining: return LogLevel::kVerbose;
    case State::kSuspect:
    case State::kAway: return LogLevel::kWarning;
    case State::kServing:
    case State::kLeaving:
    case State::kGone: return LogLevel::kNotice;
  }
  return LogLevel::kNotice;
}

}  // namespace

std::vector<StoreWatch::Line> StoreWatch::Look(const core::Master& master) {
  std::vector<Line> lines;
  for (const core::StoreSlot slot : master.Stores()) {
    const core::StoreInfo& store = master.store(slot);
    if (slot >= seen_.size()) seen_.resize(slot + 1);
    Seen& seen = seen_[slot];
    // An incarnation that came and went between two looks is not worth a line.
    const bool fresh = seen.incarnation != store.incarnation;
    const State before = fresh ? State::kGone : seen.state;
    seen = {.incarnation = store.incarnation, .state = store.state};
    if (before == store.state || store.in_process) continue;
    const bool known = before != State::kGone;
    lines.push_back({LevelOf(store.state), fmt::format("store {} at {} is {}{}{}", store.name, store.data_address,
                                                       StoreStateName(store.state), known ? ", was " : "",
                                                       known ? StoreStateName(before) : "")});
  }
  const core::RestoreFigures restored = master.restore_figures();
  if (!restored.loading && restored.confirmed != confirmed_) {
    confirmed_ = restored.confirmed;
    lines.push_back({LogLevel::kNotice, fmt::format("{} of {} objects confirmed", confirmed_, restored.objects)});
  }
  return lines;
}

}  // namespace tiercel::net
