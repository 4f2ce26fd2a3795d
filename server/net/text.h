// Small questions about words that clients send.
#pragma once

#include <algorithm>
#include <string_view>

namespace tiercel::net {

// The version of Redis whose behaviour this front end has: clients choose features by it.
inline constexpr std::string_view kRedisVersion = "7.0.15";

// `lower` is in lower case.
constexpr bool EqualsIgnoreCase(std::string_view word, std::string_view lower) {
  if (word.size() != lower.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != lower[i]) return false;
  }
  return true;
}

// What may stand unquoted in CLIENT LIST: no spaces, no control characters.
constexpr bool IsPlainName(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '!' && c <= '~'; });
}

}  // namespace tiercel::net
