// Block sums of versions of which ranges were read lately, so that the next range need not fetch them again.
// Only sums that were checked against the object's checksum come in; versions never repeat, so nothing goes stale.
// Least recently used out; at most kMaxBytes of sums. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tiercel/types.h"

namespace tiercel::client {

class TrailerCache {
 public:
  using Sums = std::shared_ptr<const std::vector<uint64_t>>;
  static constexpr size_t kMaxBytes = 4 << 20;  // a value of 64 GiB has 512 KiB

  Sums Find(Version version);  // nullptr when unknown
  void Add(Version version, Sums sums);
  void Clear();
  size_t bytes() const;

 private:
  struct Entry {
    uint64_t version;
    Sums sums;
  };
  void DropLastLocked();

  mutable std::mutex mutex_;
  std::list<Entry> order_;  // latest first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> by_version_;
  size_t bytes_ = 0;
};

}  // namespace tiercel::client
