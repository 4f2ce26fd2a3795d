// A client or store whose protocol this master does not speak: the error names both versions, and so does the log.
#pragma once

#include <string>

#include "server/net/command_context.h"

namespace tiercel::net {

Outcome RefuseVersion(CommandContext& c, std::string sentence);

}  // namespace tiercel::net
