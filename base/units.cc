#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>
#include <span>

namespace tiercel {
namespace {

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr uint64_t kKib = 1024;
constexpr Unit kSizeUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", 1000},
    {"kb", kKib},
    {"m", 1'000'000},
    {"mb", kKib* kKib},
    {"g", 1'000'000'000},
    {"gb", kKib* kKib* kKib},
    {"t", 1'000'000'000'000},
    {"tb", kKib* kKib* kKib* kKib},
};
constexpr Unit kTimeUnits[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000},
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualIgnoringCase(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (Lower(text[i]) != lower[i]) return false;
  }
  return true;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A number of whole units; nullopt on an unknown unit or when the product does not fit below `limit`.
std::optional<uint64_t> ParseWithUnit(std::string_view text, std::span<const Unit> units, uint64_t limit) {
  size_t digits = 0;
  while (digits < text.size() && IsDigit(text[digits])) ++digits;
  const std::optional<uint64_t> number = ParseUint64(text.substr(0, digits));
  if (!number) return std::nullopt;
  for (const Unit& unit : units) {
    if (!EqualIgnoringCase(text.substr(digits), unit.name)) continue;
    if (*number > limit / unit.factor) return std::nullopt;
    return *number * unit.factor;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> ParseSize(std::string_view text) {
  return ParseWithUnit(text, kSizeUnits, std::numeric_limits<uint64_t>::max());
}

std::optional<int64_t> ParseMillis(std::string_view text) {
  const auto ms = ParseWithUnit(text, kTimeUnits, std::numeric_limits<int64_t>::max());
  if (!ms) return std::nullopt;
  return static_cast<int64_t>(*ms);
}

std::optional<double> ParseRatio(std::string_view text) {
  // from_chars alone would take "1e-3", "inf" and "-0".
  if (text.empty() || !IsDigit(text.front()) || !IsDigit(text.back())) return std::nullopt;
  int points = 0;
  for (char c : text) {
    points += c == '.';
    if (!IsDigit(c) && c != '.') return std::nullopt;
  }
  if (points > 1) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > 1) return std::nullopt;
  return value;
}

std::optional<uint64_t> ParseUint64(std::string_view text) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseInt64(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::optional<uint64_t> magnitude = ParseUint64(text.substr(negative ? 1 : 0));
  if (!magnitude) return std::nullopt;
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (*magnitude > limit || (negative && *magnitude == 0)) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - *magnitude : *magnitude);
}

std::optional<uint64_t> ParseHex64(std::string_view text) {
  if (text.empty() || text.size() > 16) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string FormatSize(uint64_t bytes) {
  constexpr std::string_view kNames[] = {"tb", "gb", "mb", "kb"};
  uint64_t factor = kKib * kKib * kKib * kKib;
  for (std::string_view name : kNames) {
    if (bytes != 0 && bytes % factor == 0) return fmt::format("{}{}", bytes / factor, name);
    factor /= kKib;
  }
  return fmt::format("{}", bytes);
}

std::string FormatMillis(int64_t ms) {
  if (ms > 86'400'000 && ms % 86'400'000 == 0) return fmt::format("{}d", ms / 86'400'000);
  if (ms != 0 && ms % 3'600'000 == 0) return fmt::format("{}h", ms / 3'600'000);
  if (ms != 0 && ms % 60'000 == 0) return fmt::format("{}m", ms / 60'000);
  if (ms % 1000 == 0) return fmt::format("{}s", ms / 1000);
  return fmt::format("{}ms", ms);
}

// Without an exponent, which ratios do not have.
std::string FormatRatio(double ratio) {
  char buffer[512];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), ratio, std::chars_format::fixed);
  return error == std::errc() ? std::string(buffer, end) : std::string("0");
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < kKib) return fmt::format("{} B", bytes);
  constexpr std::string_view kNames[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / kKib;
  size_t i = 0;
  // 1023.995 and more would be printed as 1024.00.
  while (value >= 1023.995 && i + 1 < std::size(kNames)) {
    value /= kKib;
    ++i;
  }
  return fmt::format("{:.2f} {}", value, kNames[i]);
}

std::string FormatHex64(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace tiercel
