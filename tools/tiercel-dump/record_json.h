// An index record as one line of JSON.
#pragma once

#include <string>

#include "server/core/record.h"

namespace tiercel::dump {

// Texts that are UTF-8 stand under their name ("key"), others in hexadecimal under NAME-hex ("key-hex"), so that both
// read back exactly. No line feed.
std::string RecordJson(const core::Record& record);

}  // namespace tiercel::dump
