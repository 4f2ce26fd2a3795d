// What a look-up or a put pays in base: seeds, allocation, MACs, the text of a grant.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/extent_allocator.h"
#include "base/grant.h"
#include "base/random.h"

namespace tiercel {
namespace {

void KeySeedOf(benchmark::State& state) {
  const std::string key(static_cast<size_t>(state.range(0)), 'k');
  for (auto _ : state) benchmark::DoNotOptimize(KeySeed(0, key));
}
BENCHMARK(KeySeedOf)->Arg(16)->Arg(64)->Arg(1024);

void SipMac(benchmark::State& state) {
  const std::vector<std::byte> message(static_cast<size_t>(state.range(0)));
  const SipKey key{};
  for (auto _ : state) benchmark::DoNotOptimize(SipHash24Mac(key, message));
}
BENCHMARK(SipMac)->Arg(16)->Arg(70)->Arg(4096);

Grant SomeGrant() {
  Grant grant;
  grant.user = UserId("default");
  grant.version = {uint64_t{1} << kCounterBits | 12345};
  grant.store = {0x9f3c20aa12345678};
  grant.place = {2, 41};
  grant.extents.push_back({1048576, 1048576});
  grant.expiry_ms = 123'456'789;
  return grant;
}

void SealGrant(benchmark::State& state) {
  const GrantKey key{.id = 3};
  Grant grant = SomeGrant();
  for (auto _ : state) {
    Seal(key, &grant);
    benchmark::DoNotOptimize(grant.mac);
  }
}
BENCHMARK(SealGrant);

// All of what GETREPLICAS does for one replica's grant.
void MakeSealAndWriteGrant(benchmark::State& state) {
  const GrantKey key{.id = 3};
  std::string text;
  text.reserve(256);
  for (auto _ : state) {
    Grant grant = SomeGrant();
    Seal(key, &grant);
    text.clear();
    AppendGrantText(grant, &text);
    benchmark::DoNotOptimize(text.data());
  }
}
BENCHMARK(MakeSealAndWriteGrant);

void ParseAndCheckGrant(benchmark::State& state) {
  const GrantKey key{.id = 3};
  Grant grant = SomeGrant();
  Seal(key, &grant);
  std::string text;
  AppendGrantText(grant, &text);
  for (auto _ : state) {
    std::optional<Grant> parsed = ParseGrantText(text);
    parsed->store = grant.store;
    parsed->place = grant.place;
    parsed->extents = grant.extents;
    benchmark::DoNotOptimize(MacIsRight(key, *parsed));
  }
}
BENCHMARK(ParseAndCheckGrant);

// A full segment in which one object goes and another of the same kind comes: the steady state of a cache.
void AllocateAndFree(benchmark::State& state) {
  const auto objects = static_cast<size_t>(state.range(0));
  const bool mixed = state.range(1) != 0;
  Random random(1);
  ExtentAllocator allocator(objects * 16384);
  const auto next_size = [&] { return mixed ? 1024 + random.Below(30 * 1024) : 15 * 1024; };
  std::vector<ExtentList> live;
  for (ExtentList out; live.size() < objects && allocator.Allocate(next_size(), kSmallGranule, &out);) {
    live.push_back(out);
  }
  // Some slack, so that a request rarely needs several extents.
  for (size_t i = 0; i < live.size() / 10; ++i) {
    const size_t victim = random.Below(live.size());
    for (const Extent& extent : live[victim]) allocator.Free(extent);
    live[victim] = std::move(live.back());
    live.pop_back();
  }
  uint64_t failed = 0, extents = 0;
  for (auto _ : state) {
    ExtentList& victim = live[random.Below(live.size())];
    for (const Extent& extent : victim) allocator.Free(extent);
    failed += !allocator.Allocate(next_size(), kSmallGranule, &victim);
    extents += victim.size();
  }
  state.counters["failed"] = static_cast<double>(failed);
  state.counters["extents"] = static_cast<double>(extents) / static_cast<double>(state.iterations());
  state.counters["MiB"] = static_cast<double>(allocator.memory_bytes()) / (1 << 20);
}
BENCHMARK(AllocateAndFree)->ArgsProduct({{1000, 100'000, 1'000'000}, {0, 1}});

void AllocateAndFreeLarge(benchmark::State& state) {
  ExtentAllocator allocator(uint64_t{64} << 30);
  ExtentList out;
  for (auto _ : state) {
    benchmark::DoNotOptimize(allocator.Allocate(1 << 20, kLargeGranule, &out));
    allocator.Free(out[0]);
  }
}
BENCHMARK(AllocateAndFreeLarge);

}  // namespace
}  // namespace tiercel
