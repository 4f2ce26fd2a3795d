// CONFIG REWRITE: brings a configuration file up to date.
#pragma once

#include <set>
#include <string>

#include "server/config/settings.h"
#include "tiercel/result.h"

namespace tiercel::config {

// Puts the values of the directives named `changed` where they stand in the file, or at its end.
Status RewriteFile(const std::string& file, const Settings& settings, const std::set<std::string>& changed);

}  // namespace tiercel::config
