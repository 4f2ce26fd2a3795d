// Compiled with -mavx2; called only on machines that have it.
#include <immintrin.h>

#include <cstddef>

namespace tiercel::internal {
namespace {

void StreamCopy(unsigned char* target, const unsigned char* source, size_t n) {
  for (size_t i = 0; i < n; i += 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + i + 32), b);
  }
}

void Leave() { _mm256_zeroupper(); }

}  // namespace
}  // namespace tiercel::internal

#include "base/checksum_kernels_impl.h"

namespace tiercel::internal {

const ChecksumKernels kAvx2Kernels = {"avx2", Hash, HashSeeded, CopyAndHash, StreamReset, StreamUpdate, StreamDigest};

}  // namespace tiercel::internal
