// Stands in for the commands that Tiercel adds to Redis until their own files define them.
#include "server/net/handlers.h"

namespace tiercel::net {
namespace {

Outcome NotServed(CommandContext& c) { return c.Fail(ErrorCode::kUnknownCommand, "this build does not serve it"); }

}  // namespace

#define TIERCEL_NOT_SERVED(name) \
  __attribute__((weak)) Outcome name(CommandContext& c) { return NotServed(c); }
TIERCEL_NOT_SERVED(DoPutStart)
TIERCEL_NOT_SERVED(DoPutRenew)
TIERCEL_NOT_SERVED(DoPutEnd)
TIERCEL_NOT_SERVED(DoPutRevoke)
TIERCEL_NOT_SERVED(DoGetReplicas)
TIERCEL_NOT_SERVED(DoMGetReplicas)
TIERCEL_NOT_SERVED(DoPrefixMatch)
TIERCEL_NOT_SERVED(DoPin)
TIERCEL_NOT_SERVED(DoReport)
TIERCEL_NOT_SERVED(DoVerify)
TIERCEL_NOT_SERVED(DoObjectPlaces)
TIERCEL_NOT_SERVED(DoStores)
TIERCEL_NOT_SERVED(DoTicket)
TIERCEL_NOT_SERVED(DoTiers)
TIERCEL_NOT_SERVED(DoStoreJoin)
TIERCEL_NOT_SERVED(DoStoreSegment)
TIERCEL_NOT_SERVED(DoStoreReady)
TIERCEL_NOT_SERVED(DoStoreWork)
TIERCEL_NOT_SERVED(DoStoreDone)
TIERCEL_NOT_SERVED(DoStorePing)
TIERCEL_NOT_SERVED(DoStoreLeave)
#undef TIERCEL_NOT_SERVED

}  // namespace tiercel::net
