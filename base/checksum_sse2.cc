// The baseline of x86-64.
#include <emmintrin.h>

#include <cstddef>

namespace tiercel::internal {
namespace {

void StreamCopy(unsigned char* target, const unsigned char* source, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    const auto* from = reinterpret_cast<const __m128i*>(source + i);
    auto* to = reinterpret_cast<__m128i*>(target + i);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
    _mm_stream_si128(to, a);
    _mm_stream_si128(to + 1, b);
    _mm_stream_si128(to + 2, c);
    _mm_stream_si128(to + 3, d);
  }
}

void Leave() {}

}  // namespace
}  // namespace tiercel::internal

#include "base/checksum_kernels_impl.h"

namespace tiercel::internal {

const ChecksumKernels kSse2Kernels = {"sse2", Hash, HashSeeded, CopyAndHash, StreamReset, StreamUpdate, StreamDigest};

}  // namespace tiercel::internal
