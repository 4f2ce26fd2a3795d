// Where values go that the server itself stores for SET and its like.
//
// Into segments of this process when there are any: their memory is written directly. Only without one are other
// stores' segments used. One replica, replacing what is there, as SET does.
#pragma once

#include "server/core/master.h"
#include "tiercel/result.h"

namespace tiercel::net {

struct ServerShared;

// PutStart with options.in_process set or not, as above. `plan` may be used again and again: no allocation then.
Status PlacePut(ServerShared& shared, core::Master& master, const core::Caller& caller, const core::KeyRef& key,
                uint64_t size, core::PutOptions& options, Times now, core::PutPlan* plan);

// Whether waiting may make room for a value of this size: not when it is larger than all there is.
bool RoomMayCome(const core::Master& master, Tier tier, uint64_t size);

// A place that its store refused although the core thought it free: gives the put back with that reason.
void RefusePlace(core::Master& master, const core::Caller& caller, const core::PutPlan& plan, ErrorCode reason,
                 Times now);

// BUSYPUT with the put in flight: the key's other writer has not ended in time.
Error BusyError(const core::PutPlan& plan);

// The user in whose name the payload port reaches other stores.
uint64_t ServerUserId();

}  // namespace tiercel::net
