// Times to live as commands give them, with Redis's rules and errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tiercel::net {

enum class ExpireForm : uint8_t {
  kSeconds,      // from now
  kMillis,       // from now
  kUnixSeconds,  // a moment
  kUnixMillis,   // a moment
};

// The moment in Unix milliseconds; nullopt on overflow. May lie in the past.
constexpr std::optional<int64_t> ExpireMoment(int64_t value, ExpireForm form, int64_t wall_ms) {
  if (form == ExpireForm::kSeconds || form == ExpireForm::kUnixSeconds) {
    if (value > INT64_MAX / 1000 || value < INT64_MIN / 1000) return std::nullopt;
    value *= 1000;
  }
  if (form == ExpireForm::kSeconds || form == ExpireForm::kMillis) {
    if (value > INT64_MAX - wall_ms) return std::nullopt;
    value += wall_ms;
  }
  return value;
}

}  // namespace tiercel::net
