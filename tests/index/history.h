// Seeded histories of commands for the index, and what must be in it after each.
//
// Every batch ends with a namespace record whose floor is the batch's number, so that what is found later tells how
// many batches are in it: the state must then be exactly the one after that many, never half of one more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "server/index/rocks_index.h"

namespace tiercel::index {

// A directory of its own, removed with everything in it.
class TestDir {
 public:
  TestDir();
  ~TestDir();
  TestDir(const TestDir&) = delete;
  TestDir& operator=(const TestDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// All that a record holds, comparable and printable.
std::string Text(const core::Record& record);

// What an index holds: type and identity -> Text.
using Contents = std::map<std::string, std::string>;
std::string Identity(const core::Record& record);

core::Record MakePut(uint64_t version, std::string key, Random* random);
core::Record MakeDelete(uint64_t version);

class History {
 public:
  static constexpr uint32_t kCounterNamespace = 4'000'000'000;

  explicit History(uint64_t seed) : random_(seed) {}
  // The next command batch: puts, replaces, changes, deletes, now and then a store, a segment, a floor.
  std::vector<core::Record> Next();
  uint64_t batches() const { return batches_; }
  const Contents& contents() const { return contents_; }

 private:
  void Apply(const core::Record& record);
  void AddObjects(std::vector<core::Record>* batch);

  Random random_;
  uint64_t batches_ = 0;
  uint64_t next_version_ = (uint64_t{1} << kCounterBits) + 1;
  std::vector<uint64_t> live_;
  Contents contents_;
};

// Everything that an index gives, and how many batches of a History that is.
struct Loaded {
  Contents contents;
  uint64_t batches = 0;
  LoadReport report;
};
Result<Loaded> LoadAll(RocksIndex* index);

// The state of History(seed) after that many batches.
Contents ContentsAfter(uint64_t seed, uint64_t batches);

}  // namespace tiercel::index
