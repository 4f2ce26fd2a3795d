#include "base/random.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>

#include "base/check.h"

namespace tiercel {
namespace {

uint64_t SplitMix(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : s_) word = SplitMix(&seed);
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(s_[1] * 5, 7) * 9;
  const uint64_t t = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= t;
  s_[3] = std::rotl(s_[3], 45);
  return result;
}

// Lemire's multiplication method: the high half of a 128-bit product, with the few biased draws thrown away.
uint64_t Random::Below(uint64_t bound) {
  TIERCEL_CHECK(bound > 0);
  unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t biased = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < biased) product = static_cast<unsigned __int128>(Next()) * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

double Random::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

void FillRandom(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    TIERCEL_CHECK(got > 0, "the system must have random numbers");
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

uint64_t RandomId() {
  uint64_t id = 0;
  while (id == 0) FillRandom(std::as_writable_bytes(std::span(&id, 1)));
  return id;
}

}  // namespace tiercel
