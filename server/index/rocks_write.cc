// Writing: one batch, encoded into buffers that are kept, one append to the log.
//
// A batch that fails is undone by the core, so it must not come back: it may lie in the log as a whole (when it was the
// sync that failed). The SEQUENCE file notes where it began, and opening skips what lies behind. Nothing is written
// after it until Resume has opened the database anew, which leaves an empty log.
#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/log.h"
#include "server/index/bytes.h"
#include "server/index/committer.h"
#include "server/index/record_codec.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {

using core::Record;
using Kind = Record::Kind;

namespace {

// The batch buffer is given back after one that was far larger than usual.
constexpr size_t kKeptBatchBytes = size_t{8} << 20;

}  // namespace

rocksdb::WalFilter::WalProcessingOption RefusalFilter::LogRecord(const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                                                 bool*) const {
  // A batch begins with its sequence number, 8 bytes little-endian.
  ByteReader in(batch.Data());
  const uint64_t sequence = in.Fixed64();
  return in.ok() && sequence > refused_after_ ? WalProcessingOption::kIgnoreCurrentRecord
                                              : WalProcessingOption::kContinueProcessing;
}

void RocksIndex::Impl::Encode(std::span<const Record> batch) {
  if (write_batch.GetDataSize() > kKeptBatchBytes) write_batch = rocksdb::WriteBatch();
  write_batch.Clear();
  for (const Record& record : batch) {
    key_buffer.clear();
    if (record.kind == Kind::kPut || record.kind == Kind::kDelete) {
      AppendObjectKey(record.version, &key_buffer);
      if (record.kind == Kind::kDelete) {
        write_batch.Delete(database.objects, key_buffer);
        continue;
      }
      value_buffer.clear();
      AppendObjectValue(key_buffer, record, &value_buffer);
      write_batch.Put(database.objects, key_buffer, value_buffer);
      continue;
    }
    if (record.kind == Kind::kGeneration && record.number <= generation) continue;  // never back
    AppendMetaKey(record, &key_buffer);
    if (record.gone) {
      write_batch.Delete(database.meta, key_buffer);
      continue;
    }
    value_buffer.clear();
    AppendMetaValue(key_buffer, record, &value_buffer);
    write_batch.Put(database.meta, key_buffer, value_buffer);
  }
}

// Rare: a generation goes to its file as well, before the batch that names it.
Status RocksIndex::Impl::KeepGenerations(std::span<const Record> batch) {
  for (const Record& record : batch) {
    if (record.kind != Kind::kGeneration || options.generation_file.empty()) continue;
    TIERCEL_TRY(KeepGeneration(options.generation_file, record.number));
  }
  return Ok();
}

Status RocksIndex::Impl::Fail(const std::string& what, bool no_space) {
  failed = true;
  was_full |= no_space;
  note.refused = true;
  note.refused_after = note.sequence;
  if (!sequence_file->Write(note)) {
    Log(LogLevel::kWarning, "index: the failed batch could not be marked as undone: {}",
        SystemError("write SEQUENCE", errno).message());
  }
  if (no_space) reserve.Release();  // so that compaction can make room
  const std::lock_guard hold(state_lock);
  ++figures.write_errors;
  figures.read_only = true;
  return Error(ErrorCode::kIndexReadOnly, what);
}

// With `everysec`: the disk may lag by a bounded time, then writers wait for it.
void RocksIndex::Impl::AwaitSync() {
  const auto longest = std::chrono::milliseconds(options.sync_every_ms * kMaxUnsyncedIntervals);
  std::unique_lock hold(state_lock);
  const auto near_enough = [&] {
    if (stopping || background_failed) return true;
    const auto oldest = syncing_since.has_value() ? syncing_since : unsynced_since;
    return !oldest.has_value() || std::chrono::steady_clock::now() - *oldest < longest;
  };
  if (near_enough()) return;
  ++figures.sync_waits;
  changed.wait(hold, near_enough);
}

Status RocksIndex::Impl::Write(std::span<const Record> batch) {
  if (batch.empty()) return Ok();
  if (failed) return Error(ErrorCode::kIndexReadOnly, "the index is read-only until it can be written again");
  if (background_failed) {
    std::string why;
    {
      const std::lock_guard hold(state_lock);
      why = background_error;
    }
    return Fail("the index failed in the background: " + why, background_full);
  }
  if (options.fsync == Fsync::kEverySec) AwaitSync();
  if (Status kept = KeepGenerations(batch); !kept.ok()) return Fail(kept.error().message(), false);
  Encode(batch);
  rocksdb::WriteOptions how;
  how.sync = options.fsync == Fsync::kAlways;
  const rocksdb::Status written = database.db->Write(how, &write_batch);
  if (!written.ok()) return Fail("write the index: " + written.ToString(), written.IsNoSpace());
  note.sequence = database.db->GetLatestSequenceNumber();
  (void)sequence_file->Write(note);
  int64_t more = 0;
  for (const Record& record : batch) {
    if (record.kind == Kind::kPut && !record.again) ++more;
    if (record.kind == Kind::kDelete) --more;
    if (record.kind == Kind::kGeneration) generation = std::max(generation, record.number);
  }
  live_records += static_cast<uint64_t>(more);
  const std::lock_guard hold(state_lock);
  ++figures.batches;
  figures.records_written += batch.size();
  if (!unsynced_since.has_value()) unsynced_since = std::chrono::steady_clock::now();
  return Ok();
}

Status RocksIndex::Write(std::span<const Record> batch) { return impl_->Write(batch); }

// ---- the generation

Result<uint64_t> RocksIndex::Impl::StoredGeneration() {
  Record record;
  record.kind = Kind::kGeneration;
  std::string key, value;
  AppendMetaKey(record, &key);
  const rocksdb::Status found = database.db->Get({}, database.meta, key, &value);
  if (found.IsNotFound()) return uint64_t{0};
  if (!found.ok()) return ToError("read the index's generation", found);
  if (DecodeMeta(key, value, &record) != DecodeFault::kNone || record.number > kMaxGeneration) {
    return Error(ErrorCode::kChecksum, "the generation in the index in " + options.dir + " is damaged");
  }
  return record.number;
}

Result<uint64_t> RocksIndex::RaiseGeneration() {
  const Result<uint64_t> stored = impl_->StoredGeneration();
  // With `repair` the file's number alone has to do.
  if (!stored.ok() && !(impl_->options.repair && stored.error().code() == ErrorCode::kChecksum)) return stored;
  uint64_t generation = stored.value_or(0) + 1;
  if (!impl_->options.generation_file.empty()) {
    TIERCEL_ASSIGN(generation, index::RaiseGeneration(impl_->options.generation_file, generation));
  } else if (generation > kMaxGeneration) {
    return Error(ErrorCode::kInvalid, "the index in " + impl_->options.dir + " has used up its generations");
  }
  Record record;
  record.kind = Kind::kGeneration;
  record.number = generation;
  TIERCEL_TRY(impl_->Write({&record, 1}));
  TIERCEL_TRY(impl_->Sync());
  return generation;
}

}  // namespace tiercel::index
