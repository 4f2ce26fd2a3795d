#include "base/siphash.h"

#include <bit>
#include <cstring>

namespace tiercel {
namespace {

static_assert(std::endian::native == std::endian::little);

uint64_t LoadWord(const std::byte* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

struct SipState {
  uint64_t v0, v1, v2, v3;

  explicit SipState(const SipKey& key) {
    const uint64_t k0 = LoadWord(key.data()), k1 = LoadWord(key.data() + 8);
    v0 = k0 ^ 0x736f6d6570736575;  // "somepseudorandomlygeneratedbytes"
    v1 = k1 ^ 0x646f72616e646f6d;
    v2 = k0 ^ 0x6c7967656e657261;
    v3 = k1 ^ 0x7465646279746573;
  }

  void Round() {
    v0 += v1, v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1, v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }

  void Compress(uint64_t word) {
    v3 ^= word;
    Round(), Round();
    v0 ^= word;
  }

  void Absorb(std::span<const std::byte> message) {
    const size_t whole = message.size() / 8 * 8;
    for (size_t i = 0; i < whole; i += 8) Compress(LoadWord(message.data() + i));
    // The rest of the message, and its length modulo 256 in the top byte.
    uint64_t last = uint64_t{message.size()} << 56;
    for (size_t i = whole; i < message.size(); ++i) last |= static_cast<uint64_t>(message[i]) << (8 * (i - whole));
    Compress(last);
  }

  uint64_t Squeeze() {
    Round(), Round(), Round(), Round();
    return v0 ^ v1 ^ v2 ^ v3;
  }
};

}  // namespace

uint64_t SipHash24(const SipKey& key, std::span<const std::byte> message) {
  SipState state(key);
  state.Absorb(message);
  state.v2 ^= 0xff;
  return state.Squeeze();
}

Mac128 SipHash24Mac(const SipKey& key, std::span<const std::byte> message) {
  SipState state(key);
  state.v1 ^= 0xee;
  state.Absorb(message);
  state.v2 ^= 0xee;
  const uint64_t low = state.Squeeze();
  state.v1 ^= 0xdd;
  const uint64_t high = state.Squeeze();
  Mac128 mac;
  std::memcpy(mac.data(), &low, sizeof(low));
  std::memcpy(mac.data() + sizeof(low), &high, sizeof(high));
  return mac;
}

bool EqualConstantTime(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;  // lengths are no secret
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | static_cast<unsigned char>(a[i] ^ b[i]));
  }
  return difference == 0;
}

}  // namespace tiercel
