// Assertions of the project: always on, one condition each. A failed one prints where and what, then stops.
#pragma once

#include <cstdint>

namespace tiercel {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line, const char* why);

}  // namespace tiercel

// TIERCEL_CHECK(condition) or TIERCEL_CHECK(condition, "why it must hold").
#define TIERCEL_CHECK(condition, ...)                                         \
  do {                                                                        \
    if (!(condition)) [[unlikely]] {                                          \
      ::tiercel::CheckFailed(#condition, __FILE__, __LINE__, "" __VA_ARGS__); \
    }                                                                         \
  } while (false)
