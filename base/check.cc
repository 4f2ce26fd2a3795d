#include "base/check.h"

#include <cstdio>
#include <cstdlib>

#include "base/log.h"

namespace tiercel {

// Standard error first: it works whatever state the process is in. The log file is for those who run a service.
void CheckFailed(const char* condition, const char* file, int line, const char* why) {
  const char* separator = *why == '\0' ? "" : ": ";
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition, separator, why);
  std::fflush(stderr);
  if (LogGoesToFile()) {
    Log(LogLevel::kError, "{}:{}: check failed: {}{}{}", file, line, condition, separator, why);
    FlushLog();
  }
  std::abort();
}

}  // namespace tiercel
