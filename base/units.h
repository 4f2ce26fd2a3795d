// Text forms of numbers: sizes ("4gb"), times ("500ms"), ratios ("0.9"), integers, hexadecimal.
//
// Sizes as in redis.conf: k = 1000, kb = 1024, m, mb, g, gb, t, tb, in any case; a bare number is bytes.
// Times: ms, s, m, h, d; a bare number is seconds. Parsers are strict: no spaces, no sign, no overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tiercel {

std::optional<uint64_t> ParseSize(std::string_view text);
std::optional<int64_t> ParseMillis(std::string_view text);
std::optional<double> ParseRatio(std::string_view text);  // 0 to 1 inclusive
// Strict decimal as Redis reads it: optional '-', no '+', no leading zeros, no spaces.
std::optional<int64_t> ParseInt64(std::string_view text);
std::optional<uint64_t> ParseUint64(std::string_view text);
std::optional<uint64_t> ParseHex64(std::string_view text);  // 1 to 16 digits, either case

std::string FormatSize(uint64_t bytes);   // exact, in the largest 1024-based unit that divides: "4gb", "1500kb", "17"
std::string FormatMillis(int64_t ms);     // exact, in the largest unit that divides: "24h", "10s", "500ms", "7d"
std::string FormatRatio(double ratio);    // as few digits as read back as the same number: "0.9"
std::string HumanBytes(uint64_t bytes);   // for people: "1.50 GiB"
std::string FormatHex64(uint64_t value);  // 16 lower-case digits

}  // namespace tiercel
