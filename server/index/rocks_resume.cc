// Coming back after a failure: the database is closed and opened anew. That is slower than RocksDB's own Resume and
// leaves nothing to guess: what was accepted is read from the log and moved into synced tables, what was refused is
// skipped, and the log begins empty. Only the committer comes here, and only while nothing is acknowledged.
#include <cerrno>

#include "base/log.h"
#include "server/index/rocks_impl.h"

namespace tiercel::index {

Status RocksIndex::Impl::Reopen() {
  CloseDatabase();
  TIERCEL_TRY(OpenDatabase());
  const uint64_t latest = database.db->GetLatestSequenceNumber();
  if (latest < note.sequence) {
    // The core goes on with what it has in memory; the next start would not find it.
    Log(LogLevel::kWarning, "index: the disk has lost {} records that were accepted", note.sequence - latest);
    const std::lock_guard hold(state_lock);
    figures.lost_records += note.sequence - latest;
  }
  note.sequence = latest;
  return Ok();
}

Status RocksIndex::Impl::Resume() {
  if (!failed && !background_failed) return Ok();
  if (background_damaged) {
    // Opening anew would not heal it, and the next compaction would stop here again.
    return Error(ErrorCode::kChecksum, "the index is damaged and stays read-only: " + options.dir +
                                           "; a restart with index-repair yes serves what is left");
  }
  const bool full = was_full || background_full;
  if (full && reserve.FreeWithout() < reserve.wanted_bytes()) {
    return Error(ErrorCode::kIndexReadOnly, "the disk of the index has " + std::to_string(reserve.FreeWithout()) +
                                                " bytes free and needs " + std::to_string(reserve.wanted_bytes()));
  }
  if (Status opened = Reopen(); !opened.ok()) {
    failed = true;
    was_full = full;
    return opened;
  }
  note.refused = false;
  note.refused_after = 0;
  if (!sequence_file->Write(note)) return SystemError("write SEQUENCE in " + options.dir, errno);
  TIERCEL_TRY(sequence_file->Sync());  // the mark must not come back: see NoteLosses
  failed = was_full = false;
  (void)reserve.Hold();
  const std::lock_guard hold(state_lock);
  unsynced_since.reset();
  syncing_since.reset();
  ++figures.resumes;
  figures.read_only = false;
  return Ok();
}

Status RocksIndex::Resume() { return impl_->Resume(); }

}  // namespace tiercel::index
