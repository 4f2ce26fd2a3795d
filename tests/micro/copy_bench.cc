// Copy and hash against memcpy: calls of a given size over 512 MiB of touched memory. The two are registered
// alternately, because the machine's speed drifts; compare neighbours of one run.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstring>

#include "base/checksum.h"
#include "base/checksum_kernels.h"

namespace tiercel {
namespace {

constexpr size_t kTouched = size_t{512} << 20;

struct Memory {
  std::byte* data;
  Memory() {
    data = static_cast<std::byte*>(
        mmap(nullptr, kTouched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    std::memset(data, 7, kTouched);
  }
};
Memory& Source() {
  static Memory memory;
  return memory;
}
Memory& Target() {
  static Memory memory;
  return memory;
}

template <typename Copy>
void Run(benchmark::State& state, Copy copy) {
  const auto n = static_cast<size_t>(state.range(0));
  std::byte* from = Source().data;
  std::byte* to = Target().data;
  size_t at = 0;
  for (auto _ : state) {
    copy(to + at, from + at, n);
    at += n;
    if (at + n > kTouched) at = 0;
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * n));
}

void Memcpy(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t n) {
    std::memcpy(to, from, n);
    benchmark::ClobberMemory();
  });
}
void CopyHash(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t n) { benchmark::DoNotOptimize(CopyAndHash(to, from, n)); });
}
void CopyHashSse2(benchmark::State& state) {
  Run(state, [](void* to, const void* from, size_t n) {
    benchmark::DoNotOptimize(internal::kSse2Kernels.copy_and_hash(to, from, n));
  });
}
void Hash(benchmark::State& state) {
  Run(state, [](void*, const void* from, size_t n) {
    benchmark::DoNotOptimize(HashBytes({static_cast<const std::byte*>(from), n}));
  });
}

void HashSse2(benchmark::State& state) {
  Run(state, [](void*, const void* from, size_t n) { benchmark::DoNotOptimize(internal::kSse2Kernels.hash(from, n)); });
}

BENCHMARK(Memcpy)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(CopyHash)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(CopyHashSse2)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(Memcpy)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(CopyHash)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(CopyHashSse2)->Arg(1 << 20)->MinTime(0.7);
BENCHMARK(Hash)->Arg(1 << 20);
BENCHMARK(HashSse2)->Arg(1 << 20);
BENCHMARK(Memcpy)->Arg(64 << 10);
BENCHMARK(CopyHash)->Arg(64 << 10);
BENCHMARK(Memcpy)->Arg(16 << 10);
BENCHMARK(CopyHash)->Arg(16 << 10);
BENCHMARK(Memcpy)->Arg(4 << 10);
BENCHMARK(CopyHash)->Arg(4 << 10);
BENCHMARK(Memcpy)->Arg(64);
BENCHMARK(CopyHash)->Arg(64);

}  // namespace
}  // namespace tiercel
