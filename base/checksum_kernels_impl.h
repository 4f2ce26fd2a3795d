// The kernels' bodies, included once per instruction set; everything here has internal linkage.
//
// The including file defines
//   StreamCopy: a copy with non-temporal stores whose target is aligned to a cache line and whose length is a
//     multiple of one;
//   Leave: what must be done before code of another set runs. Every kernel ends with it: xxHash's own functions
//     return with the upper halves of the vector registers in use (their pragma loses the compiler's clearing), and
//     all SSE code behind them was then measured to run at a third of its speed.
//
// Copy and hash: the copy writes around the cache, so the source is read from memory once (by the hash, whose
// piece stays in the first-level cache for the copy) and the target's lines are never fetched. A memcpy of large
// blocks pays for fetching them where it does not choose such stores itself. Rejected: copying first and hashing
// the copy (it has just left the cache), and pieces beyond the first-level cache (slower by a fifth at 64 KiB).
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/checksum_kernels.h"

namespace tiercel::internal {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kPieceBytes = 8 * 1024;
// Below this the target is likely to be read soon and to fit the cache: an ordinary copy.
constexpr size_t kStreamFromBytes = 16 * 1024;
static_assert(sizeof(StreamState) >= sizeof(XXH3_state_t) && alignof(StreamState) >= alignof(XXH3_state_t));

XXH3_state_t* Cast(StreamState* state) { return reinterpret_cast<XXH3_state_t*>(state->bytes); }
const XXH3_state_t* Cast(const StreamState* state) { return reinterpret_cast<const XXH3_state_t*>(state->bytes); }

uint64_t Hash(const void* data, size_t n) {
  const uint64_t sum = XXH3_64bits(data, n);
  Leave();
  return sum;
}
uint64_t HashSeeded(const void* data, size_t n, uint64_t seed) {
  const uint64_t sum = XXH3_64bits_withSeed(data, n, seed);
  Leave();
  return sum;
}
void StreamReset(StreamState* state) {
  XXH3_64bits_reset(Cast(state));
  Leave();
}
void StreamUpdate(StreamState* state, const void* data, size_t n) {
  XXH3_64bits_update(Cast(state), data, n);
  Leave();
}
uint64_t StreamDigest(const StreamState* state) {
  const uint64_t sum = XXH3_64bits_digest(Cast(state));
  Leave();
  return sum;
}

uint64_t CopyAndHash(void* target, const void* source, size_t n) {
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  if (n < kStreamFromBytes) {
    const uint64_t sum = Hash(from, n);
    if (n != 0) std::memcpy(to, from, n);
    return sum;
  }
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  // Ordinary stores up to the first line of the target, whole lines around the cache, ordinary ones for the rest.
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  if (head != 0) {
    XXH3_64bits_update(&state, from, head);
    std::memcpy(to, from, head);
    to += head, from += head, n -= head;
  }
  while (n >= kLine) {
    const size_t piece = n < kPieceBytes ? n / kLine * kLine : kPieceBytes;
    XXH3_64bits_update(&state, from, piece);
    StreamCopy(to, from, piece);
    to += piece, from += piece, n -= piece;
  }
  if (n != 0) {
    XXH3_64bits_update(&state, from, n);
    std::memcpy(to, from, n);
  }
  // Non-temporal stores are weakly ordered: whoever is told that the bytes are there must see them.
  _mm_sfence();
  const uint64_t sum = XXH3_64bits_digest(&state);
  Leave();
  return sum;
}

}  // namespace
}  // namespace tiercel::internal
