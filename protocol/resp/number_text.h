// Decimal digits of an integer, two at a time from a table: most of what a reply header costs.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace tiercel::resp {

inline constexpr size_t kMaxDigits = 20;  // of 2^64 - 1

namespace number_text_internal {
constexpr std::array<char, 200> MakePairs() {
  std::array<char, 200> pairs{};
  for (int i = 0; i < 100; ++i) {
    pairs[2 * i] = static_cast<char>('0' + i / 10);
    pairs[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return pairs;
}
inline constexpr std::array<char, 200> kPairs = MakePairs();
}  // namespace number_text_internal

// Writes the digits so that they end before `end`; returns where they begin. REQUIRES: kMaxDigits bytes of room.
inline char* WriteDigitsBefore(char* end, uint64_t value) {
  using number_text_internal::kPairs;
  while (value >= 100) {
    end -= 2;
    std::memcpy(end, &kPairs[value % 100 * 2], 2);
    value /= 100;
  }
  if (value >= 10) {
    end -= 2;
    std::memcpy(end, &kPairs[value * 2], 2);
  } else {
    *--end = static_cast<char>('0' + value);
  }
  return end;
}

}  // namespace tiercel::resp
