#include "server/net/placement.h"

#include <fmt/format.h>

#include "server/net/ports.h"
#include "server/net/server_shared.h"

namespace tiercel::net {
namespace {

bool HasLocalSegments(const core::Master& master) {
  for (const core::SegmentInfo& segment : master.Segments()) {
    if (master.store(segment.store).in_process) return true;
  }
  return false;
}

}  // namespace

Status PlacePut(ServerShared& shared, core::Master& master, const core::Caller& caller, const core::KeyRef& key,
                uint64_t size, core::PutOptions& options, Times now, core::PutPlan* plan) {
  options.in_process = shared.local_segments.load(std::memory_order_relaxed);
  Status placed = master.PutStart(caller, key, size, options, now, plan);
  if (placed.ok()) {
    if (!options.in_process && plan->outcome == core::PutOutcome::kCreated &&
        master.store(plan->replicas.front().store).in_process) {
      shared.local_segments.store(true, std::memory_order_relaxed);  // one has joined meanwhile
    }
    return placed;
  }
  if (placed.error().code() != ErrorCode::kNoSpace) return placed;
  // Rare: full, or the set of segments is not what it was.
  const bool local = HasLocalSegments(master);
  shared.local_segments.store(local, std::memory_order_relaxed);
  if (local == options.in_process) return placed;
  options.in_process = local;
  return master.PutStart(caller, key, size, options, now, plan);
}

bool RoomMayCome(const core::Master& master, Tier tier, uint64_t size) {
  const uint64_t usable = master.Figures(tier).usable;
  return usable > 0 && usable >= StoredBytes(size);
}

void RefusePlace(core::Master& master, const core::Caller& caller, const core::PutPlan& plan, ErrorCode reason,
                 Times now) {
  const core::ReplicaFailure failure{.index = 0, .reason = reason};
  // Answers kPutFailed, since no replica is left: that is what was asked for.
  static_cast<void>(master.PutEnd(caller, plan.put, 0, {&failure, 1}, now).ok());
}

Error BusyError(const core::PutPlan& plan) {
  return Error(ErrorCode::kInFlight,
               fmt::format("put {} of this key has been in flight for {} ms", plan.put.value, plan.age_ms));
}

uint64_t ServerUserId() {
  static const uint64_t id = UserId(kServerUser);
  return id;
}

}  // namespace tiercel::net
