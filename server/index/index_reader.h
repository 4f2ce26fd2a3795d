// An index that no server has open, for tools: reads, verifies, changes nothing.
#pragma once

#include <memory>
#include <string>

#include "server/index/rocks_index.h"

namespace tiercel::index {

class IndexReader {
 public:
  // As RocksIndex::Open refuses, and kNotFound when there is no index. Also opens what Checkpoint made, and
  // directories on read-only file systems. A server cannot start on the directory meanwhile.
  static Result<std::unique_ptr<IndexReader>> Open(const std::string& dir);
  ~IndexReader();

  uint32_t format() const;
  // Changes that had been written and are not in the log any more.
  uint64_t lost_records() const;
  Result<LoadReport> Scan(const RocksIndex::Take& take);
  // Every block of every table.
  Status VerifyTables();

 private:
  struct Impl;
  explicit IndexReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tiercel::index
