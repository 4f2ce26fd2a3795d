#include <rocksdb/utilities/checkpoint.h>

#include <filesystem>

#include "server/index/rocks_impl.h"

namespace tiercel::index {

// Tables are linked where the file system can, so it costs little; the log's contents are moved into tables first.
Status RocksIndex::Checkpoint(const std::string& dir) {
  const std::shared_lock hold(impl_->db_lock);
  if (impl_->database.db == nullptr) return Error(ErrorCode::kIndexReadOnly, "the index is closed");
  std::error_code ignored;
  if (std::filesystem::exists(dir, ignored)) return Error(ErrorCode::kExists, dir + " is there already");
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(impl_->database.db.get(), &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(dir);
  if (!status.ok()) return ToError("checkpoint to " + dir, status);
  return Ok();
}

}  // namespace tiercel::index
