// Random numbers: a fast seeded generator for logic and tests, and the system's for ids and keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiercel {

// xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain description). Not thread-safe.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t Next();
  uint64_t Below(uint64_t bound);  // 0 .. bound-1, unbiased; REQUIRES: bound > 0
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  double Unit();  // [0, 1)

 private:
  uint64_t s_[4];
};

// From getrandom(2); stops the process when the system has none.
void FillRandom(std::span<std::byte> bytes);
uint64_t RandomId();  // never 0

}  // namespace tiercel
