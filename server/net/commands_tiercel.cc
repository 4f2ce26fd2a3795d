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
#undef TIERCEL_NOT_SERVED

}  // namespace tiercel::net
