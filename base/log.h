// Logging. spdlog stands behind it, and only log.cc sees it.
//
// A change of state is logged once; repeats go through a LogLimiter, which counts what it swallowed.
// Secrets (passwords, grant keys, MACs) are never passed here.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tiercel/result.h"

namespace tiercel {

enum class LogLevel : int { kDebug = 0, kVerbose = 1, kNotice = 2, kWarning = 3, kError = 4, kNothing = 5 };

// file empty: standard error. Thread-safe; may be called again (reopens: log rotation).
Status OpenLog(const std::string& file, LogLevel level);
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
void LogLine(LogLevel level, std::string_view line);
void FlushLog();
bool LogGoesToFile();  // false: standard error

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(level)) LogLine(level, fmt::format(format, std::forward<Args>(args)...));
}

// At most one line per period of its own; the next line says how many were left out.
class LogLimiter {
 public:
  explicit LogLimiter(int64_t period_ms = 10'000) : period_ms_(period_ms) {}
  // Number of lines left out since the last one, or -1 when this one is to be left out.
  int64_t Admit(int64_t boot_ms);

 private:
  const int64_t period_ms_;
  std::atomic<int64_t> next_ms_{0};
  std::atomic<int64_t> skipped_{0};
};

}  // namespace tiercel
