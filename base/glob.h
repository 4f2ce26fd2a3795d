// Redis's glob patterns: * ? [abc] [^a] [a-z] and \ to escape. Bytes, case-sensitive unless told.
#pragma once

#include <string_view>

namespace tiercel {

// Linear in practice: backtracks to the last star only, so no pattern takes exponential time.
bool GlobMatch(std::string_view pattern, std::string_view text, bool ignore_case = false);

}  // namespace tiercel
