#include "tests/index/history.h"

#include <stdlib.h>

#include <filesystem>
#include <sstream>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel::index {

using core::Record;
using Kind = Record::Kind;

TestDir::TestDir() {
  std::string name = (std::filesystem::temp_directory_path() / "tiercel-index-XXXXXX").string();
  TIERCEL_CHECK(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TestDir::~TestDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Text(const Record& r) {
  std::ostringstream out;
  out << static_cast<int>(r.kind) << " v" << r.version.value << " ns" << r.name_space << " key" << r.key.size() << ":"
      << HashBytes(std::as_bytes(std::span(r.key))) << " " << r.size << " " << r.sum << " f" << r.flags << " e"
      << r.expire_at_ms << " p" << r.soft_pin_until_ms << " h" << r.parent_hash << " n" << r.number << " " << r.name
      << " s" << r.store << " t" << static_cast<int>(r.tier) << " " << r.place.segment << "." << r.place.epoch << " "
      << r.storage_id << " " << r.host << " " << r.incarnation.value;
  for (const core::ReplicaInfo& replica : r.replicas) {
    out << " [" << static_cast<int>(replica.tier) << " " << replica.store << " " << replica.place.segment << "."
        << replica.place.epoch;
    for (const Extent& e : replica.extents) out << " " << e.offset << "+" << e.length;
    out << "]";
  }
  return out.str();
}

std::string Identity(const Record& r) {
  switch (r.kind) {
    case Kind::kPut:
    case Kind::kDelete: return "object " + std::to_string(r.version.value);
    case Kind::kSegment: return "segment " + std::to_string(r.store) + " " + std::to_string(r.place.segment);
    case Kind::kStore: return "store " + std::to_string(r.store);
    case Kind::kGeneration: return "generation";
    case Kind::kNamespace: return "namespace " + std::to_string(r.name_space);
  }
  return "";
}

Record MakePut(uint64_t version, std::string key, Random* random) {
  Record r;
  r.kind = Kind::kPut;
  r.version = {version};
  r.name_space = static_cast<uint32_t>(random->Below(3));
  r.key = std::move(key);
  r.size = random->OneIn(8) ? 0 : 1 + random->Below(random->OneIn(4) ? kMaxValueBytes : 100'000);
  r.sum = random->Next();
  r.flags = static_cast<uint32_t>(random->Below(2));
  if (random->OneIn(3)) r.expire_at_ms = static_cast<int64_t>(random->Next());
  if (random->OneIn(3)) r.soft_pin_until_ms = -static_cast<int64_t>(random->Below(1'000'000)) - 1;
  if (random->OneIn(3)) r.parent_hash = random->Next() | 1;
  if (random->OneIn(9)) r.number = random->Next() | 1;
  for (uint64_t n = random->Below(4); n > 0; --n) {
    core::ReplicaInfo& replica = r.replicas.emplace_back();
    replica.tier = static_cast<Tier>(random->Below(kTierCount));
    replica.store = static_cast<core::StoreSlot>(random->Below(5));
    replica.place = {static_cast<uint32_t>(random->Below(9)), static_cast<uint32_t>(random->Next())};
    uint64_t left = StoredBytes(r.size);
    for (uint64_t extents = 1 + random->Below(3); left > 0; --extents) {
      const uint64_t length = extents <= 1 ? left : 1 + random->Below(left);
      replica.extents.push_back({random->Below(uint64_t{1} << 44), length});
      left -= length;
    }
  }
  return r;
}

Record MakeDelete(uint64_t version) {
  Record r;
  r.kind = Kind::kDelete;
  r.version = {version};
  return r;
}

void History::Apply(const Record& record) {
  if (record.kind == Kind::kDelete || record.gone) {
    contents_.erase(Identity(record));
  } else {
    contents_[Identity(record)] = Text(record);
  }
}

void History::AddObjects(std::vector<Record>* batch) {
  for (uint64_t n = 1 + random_.Below(random_.OneIn(20) ? 200 : 12); n > 0; --n) {
    std::string key(1 + random_.Below(random_.OneIn(50) ? 2000 : 40), 'k');
    for (char& c : key) c = static_cast<char>(random_.Next());
    Record put = MakePut(next_version_++, std::move(key), &random_);
    const uint64_t what = live_.size() < 20 ? 0 : random_.Below(8);
    if (what == 0 || what == 1) {  // new
      live_.push_back(put.version.value);
      batch->push_back(std::move(put));
      continue;
    }
    uint64_t& victim = live_[random_.Below(live_.size())];
    if (what == 2) {  // its time to live changed
      put.version = {victim};
      put.again = true;
      batch->push_back(std::move(put));
    } else if (what == 3 || live_.size() > 3000) {
      batch->push_back(MakeDelete(victim));
      victim = live_.back();
      live_.pop_back();
    } else {  // replaced
      const uint64_t old = victim;
      victim = put.version.value;
      batch->push_back(std::move(put));
      batch->push_back(MakeDelete(old));
    }
  }
}

std::vector<Record> History::Next() {
  std::vector<Record> batch;
  if (batches_ == 0 || random_.OneIn(20)) {
    Record store;
    store.kind = Kind::kStore;
    store.store = static_cast<core::StoreSlot>(random_.Below(4));
    store.name = "store-" + std::to_string(store.store);
    store.storage_id = std::to_string(random_.Next());
    store.host = "host";
    store.incarnation = {random_.Next() | 1};
    batch.push_back(std::move(store));
    Record segment;
    segment.kind = Kind::kSegment;
    segment.store = static_cast<core::StoreSlot>(random_.Below(4));
    segment.place = {static_cast<uint32_t>(random_.Below(3)), static_cast<uint32_t>(random_.Below(100))};
    segment.tier = static_cast<Tier>(random_.Below(kTierCount));
    segment.size = 4096 + random_.Below(1 << 30);
    segment.name = "segment-" + std::to_string(segment.place.segment);
    segment.gone = random_.OneIn(4);
    batch.push_back(std::move(segment));
  }
  AddObjects(&batch);
  Record counter;
  counter.kind = Kind::kNamespace;
  counter.name_space = kCounterNamespace;
  counter.number = ++batches_;
  batch.push_back(std::move(counter));
  for (const Record& record : batch) Apply(record);
  return batch;
}

Contents ContentsAfter(uint64_t seed, uint64_t batches) {
  History history(seed);
  while (history.batches() < batches) history.Next();
  return history.contents();
}

Result<Loaded> LoadAll(RocksIndex* index) {
  Loaded loaded;
  uint64_t last_version = 0;
  Result<LoadReport> report = index->Load([&](Record& record) -> Status {
    if (record.kind == Kind::kGeneration) return Ok();
    TIERCEL_CHECK(loaded.contents.emplace(Identity(record), Text(record)).second, "each once");
    if (record.kind == Kind::kPut) {
      TIERCEL_CHECK(record.version.value > last_version, "objects come by rising version");
      last_version = record.version.value;
    } else {
      TIERCEL_CHECK(last_version == 0, "objects come last");
    }
    if (record.kind == Kind::kNamespace && record.name_space == History::kCounterNamespace) {
      loaded.batches = record.number;
    }
    return Ok();
  });
  if (!report.ok()) return std::move(report).error();
  loaded.report = *report;
  return loaded;
}

}  // namespace tiercel::index
