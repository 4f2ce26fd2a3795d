// The committer's cost per record: batches of ordinary records (a key of 40 bytes, one replica of one extent) into the
// index, write-ahead log without sync. The directory lies under the system's temporary one.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "server/index/record_codec.h"
#include "server/index/rocks_index.h"

namespace tiercel::index {
namespace {

using core::Record;

struct Directory {
  std::string path = (std::filesystem::temp_directory_path() / "tiercel-bench-XXXXXX").string();
  Directory() { TIERCEL_CHECK(mkdtemp(path.data()) != nullptr); }
  ~Directory() { std::filesystem::remove_all(path); }
};

Record Put(uint64_t version) {
  Record record;
  record.version = {version};
  record.key = "kv:" + std::to_string(version * 0x9e3779b97f4a7c15) + "-layer-00-block-00000";
  record.size = 2 << 20;
  record.sum = version * 0x9e3779b97f4a7c15;
  record.parent_hash = record.sum ^ 1;
  core::ReplicaInfo& replica = record.replicas.emplace_back();
  replica.place = {1, 41};
  replica.extents.push_back({version % 1000 * (4 << 20), (2 << 20) + 16});
  return record;
}

std::unique_ptr<RocksIndex> OpenIn(const Directory& directory) {
  auto opened = RocksIndex::Open({.dir = directory.path + "/index", .fsync = Fsync::kNo});
  TIERCEL_CHECK(opened.ok());
  return std::move(opened).value();
}

// A cache in its steady state: half are puts, half deletions of what was put a while ago.
void CommitRecords(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const bool churn = state.range(1) != 0;
  const Directory directory;
  const std::unique_ptr<RocksIndex> index = OpenIn(directory);
  constexpr uint64_t kResident = 100'000;
  uint64_t version = (uint64_t{1} << kCounterBits) + kResident;
  // Made once and given new versions: making records is the core's cost, under its own lock.
  std::vector<Record> batch(size);
  for (size_t i = 0; i < size; ++i) {
    const bool deletes = churn && i % 2 == 1;
    batch[i] = deletes ? Record{.kind = Record::Kind::kDelete, .version = {version - kResident}} : Put(++version);
  }
  for (auto _ : state) {
    TIERCEL_CHECK(index->Write(batch).ok());
    for (Record& record : batch) record.version.value += churn ? size / 2 : size;
  }
  const auto records = static_cast<double>(state.iterations()) * static_cast<double>(size);
  state.counters["us/record"] =
      benchmark::Counter(records / 1e6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(CommitRecords)->ArgsProduct({{16, 64, 256, 1024}, {0, 1}})->UseRealTime();

void EncodeRecord(benchmark::State& state) {
  const Record record = Put(uint64_t{1} << kCounterBits);
  std::string key, value;
  for (auto _ : state) {
    key.clear();
    value.clear();
    AppendObjectKey(record.version, &key);
    AppendObjectValue(key, record, &value);
    benchmark::DoNotOptimize(value.data());
  }
  state.counters["bytes"] = static_cast<double>(key.size() + value.size());
}
BENCHMARK(EncodeRecord);

void DecodeRecord(benchmark::State& state) {
  std::string key, value;
  const Record record = Put(uint64_t{1} << kCounterBits);
  AppendObjectKey(record.version, &key);
  AppendObjectValue(key, record, &value);
  Record read;
  for (auto _ : state) benchmark::DoNotOptimize(DecodeObject(key, value, &read));
}
BENCHMARK(DecodeRecord);

// The start of a master with that many objects: opening, and giving every record.
void OpenAndLoad(benchmark::State& state) {
  const auto objects = static_cast<uint64_t>(state.range(0));
  const Directory directory;
  {
    const std::unique_ptr<RocksIndex> index = OpenIn(directory);
    std::vector<Record> batch;
    for (uint64_t i = 1; i <= objects; ++i) {
      batch.push_back(Put((uint64_t{1} << kCounterBits) + i));
      if (batch.size() < 1024 && i < objects) continue;
      TIERCEL_CHECK(index->Write(batch).ok());
      batch.clear();
    }
  }
  for (auto _ : state) {
    const std::unique_ptr<RocksIndex> index = OpenIn(directory);
    const auto report = index->Load([](Record& record) {
      benchmark::DoNotOptimize(record.key.data());
      return Ok();
    });
    TIERCEL_CHECK(report.ok() && report->objects == objects);
  }
}
BENCHMARK(OpenAndLoad)->Arg(1'000'000)->Iterations(3)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tiercel::index
