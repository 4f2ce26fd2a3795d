// The codec: what one command of a pipeline costs from its bytes to its row of the table, and what a reply costs.
#include <benchmark/benchmark.h>

#include <span>
#include <string>

#include "protocol/resp/command_table.h"
#include "protocol/resp/decoder.h"
#include "protocol/resp/descriptor.h"
#include "protocol/resp/encoder.h"
#include "protocol/resp/reply.h"

namespace tiercel::resp {
namespace {

std::string Pipeline(std::span<const std::string_view> arguments, size_t bytes) {
  std::string stream;
  while (stream.size() < bytes) {
    AppendCommandHeader(arguments.size(), &stream);
    for (std::string_view argument : arguments) AppendArgument(argument, &stream);
  }
  return stream;
}

constexpr std::string_view kExists[] = {"EXISTS", "key:000000000042"};
constexpr std::string_view kSet[] = {"SET", "key:000000000042",
                                     "0123456789012345678901234567890123456789012345678901234567890123"};

void Decode(benchmark::State& state, std::span<const std::string_view> arguments, bool resolve) {
  const std::string stream = Pipeline(arguments, 64 * 1024);
  Decoder decoder({});
  int64_t commands = 0;
  for (auto _ : state) {
    std::span<const char> rest = stream;
    while (!rest.empty()) {
      const Decoder::Step step = decoder.Next(rest);
      if (resolve) {
        const CommandSpec* spec = ResolveCommand(decoder.arguments());
        benchmark::DoNotOptimize(spec);
        const auto keys = ExtractKeys(*spec, decoder.arguments());
        benchmark::DoNotOptimize(keys);
      }
      rest = rest.subspan(step.consumed);
      ++commands;
    }
  }
  state.SetItemsProcessed(commands);
}

void BM_DecodeExists(benchmark::State& state) { Decode(state, kExists, false); }
void BM_DecodeSet64(benchmark::State& state) { Decode(state, kSet, false); }
void BM_DecodeAndResolveExists(benchmark::State& state) { Decode(state, kExists, true); }
void BM_DecodeAndResolveSet64(benchmark::State& state) { Decode(state, kSet, true); }
BENCHMARK(BM_DecodeExists);
BENCHMARK(BM_DecodeSet64);
BENCHMARK(BM_DecodeAndResolveExists);
BENCHMARK(BM_DecodeAndResolveSet64);

void BM_FindCommand(benchmark::State& state) {
  constexpr std::string_view kNames[] = {"GET",       "set",      "EXISTS",       "GETREPLICAS",
                                         "pexpireat", "PUTSTART", "nosuchcommand"};
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(FindCommand(kNames[i++ % std::size(kNames)]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_FindCommand);

void Encode(benchmark::State& state, const auto& write) {
  std::string out;
  int64_t replies = 0;
  for (auto _ : state) {
    out.clear();
    Encoder encoder(&out, 3);
    for (int i = 0; i < 1'000; ++i) write(encoder, i);
    benchmark::DoNotOptimize(out.data());
    replies += 1'000;
  }
  state.SetItemsProcessed(replies);
}

void BM_EncodeSmallInteger(benchmark::State& state) {
  Encode(state, [](Encoder& encoder, int i) { encoder.Integer(i & 1); });
}
void BM_EncodeVersion(benchmark::State& state) {
  Encode(state, [](Encoder& encoder, int i) { encoder.Integer(1'099'511'627'776 + i); });
}
void BM_EncodeOk(benchmark::State& state) {
  Encode(state, [](Encoder& encoder, int) { encoder.Simple("OK"); });
}
void BM_EncodeBulk64(benchmark::State& state) {
  Encode(state, [](Encoder& encoder, int) { encoder.Bulk(kSet[2]); });
}
BENCHMARK(BM_EncodeSmallInteger);
BENCHMARK(BM_EncodeVersion);
BENCHMARK(BM_EncodeOk);
BENCHMARK(BM_EncodeBulk64);

// As GETREPLICAS answers for one replica of one extent.
void BM_EncodeReplicas(benchmark::State& state) {
  const ExtentList extents(Extent{1 << 30, 1 << 20});
  Grant grant;
  grant.version = {uint64_t{1} << 41};
  grant.expiry_ms = 1'234'567;
  std::string line;
  Encode(state, [&](Encoder& encoder, int i) {
    encoder.Map(5);
    encoder.Bulk("version");
    encoder.Integer((int64_t{1} << 41) + i);
    encoder.Bulk("size");
    encoder.Integer(1 << 20);
    encoder.Bulk("sum");
    encoder.Bulk("0123456789abcdef");
    encoder.Bulk("lease-ms");
    encoder.Integer(10'000);
    encoder.Bulk("replicas");
    encoder.Array(1);
    line.clear();
    AppendReplica(Tier::kDram, "store-1", Incarnation{0x9f3c20aa12345678}, {2, 41}, extents, &grant, &line);
    encoder.Bulk(line);
  });
}
BENCHMARK(BM_EncodeReplicas);

void Parse(benchmark::State& state, const std::string& stream, int64_t replies) {
  ReplyParser parser;
  for (auto _ : state) {
    parser.Feed(stream);
    for (int64_t i = 0; i < replies; ++i) benchmark::DoNotOptimize(parser.Next());
  }
  state.SetItemsProcessed(state.iterations() * replies);
}

void BM_ParseIntegers(benchmark::State& state) {
  std::string stream;
  for (int i = 0; i < 1'000; ++i) Encoder(&stream, 3).Integer(i);
  Parse(state, stream, 1'000);
}
void BM_ParseBulk64(benchmark::State& state) {
  std::string stream;
  for (int i = 0; i < 1'000; ++i) Encoder(&stream, 3).Bulk(kSet[2]);
  Parse(state, stream, 1'000);
}
BENCHMARK(BM_ParseIntegers);
BENCHMARK(BM_ParseBulk64);

void BM_ParseReplicaLine(benchmark::State& state) {
  std::string line;
  const ExtentList extents(Extent{1 << 30, 1 << 20});
  const Grant grant;
  AppendReplica(Tier::kDram, "store-1", Incarnation{0x9f3c20aa12345678}, {2, 41}, extents, &grant, &line);
  for (auto _ : state) benchmark::DoNotOptimize(ParseReplica(line));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ParseReplicaLine);

}  // namespace
}  // namespace tiercel::resp
