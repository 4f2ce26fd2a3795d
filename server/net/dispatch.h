// The one array that binds every command of the table to its handler.
#pragma once

#include <cstddef>

#include "server/net/command_context.h"

namespace tiercel::net {

struct HandlerRow {
  Handler run = nullptr;
  LockNeed lock = LockNeed::kAny;
};

const HandlerRow& RowOf(resp::CommandId id);

// Which argument of this command is a value that is received straight into its place when it is large; the key it
// belongs to stands before it. 0: argument `index` is not such a value.
struct ValueArgument {
  bool is_value = false;
  size_t key = 0;
};
ValueArgument ValueArgumentOf(resp::CommandId id, size_t index);

}  // namespace tiercel::net
