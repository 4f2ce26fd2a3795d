// Journal: the order of changes, what the index has to write of them, and how to undo them.
//
// Every change that concerns a record is an entry with a sequence number; while records are on their way to the disk,
// changes without a record enter too (under the number of the last record, since nothing of their own is written), so
// that waiting and undoing keep one order. Entries name objects by slot: a slot is not reused while one does.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "server/core/record.h"

namespace tiercel::core {

struct JournalEntry {
  enum class Kind : uint8_t {
    kPut,      // slot was published, `previous` unlinked by it (0: none)
    kUnlink,   // slot was unlinked by a command
    kDrop,     // slot was unlinked by the core itself (eviction, expiry, loss): not undone, only written again
    kChange,   // time to live or pins of slot were changed: the old ones
    kRelease,  // `held` waits for it: a replica was dropped from slot's version
    kFlush,    // name_space's table was taken away: `slot` is its number
    kNote,     // of a store or segment, see Note: not undone, only written again
  };
  // What a kNote says. `slot`: the store's; `version`: segment << 32 | epoch.
  enum class Note : uint8_t { kStore, kSegment, kSegmentGone };
  Seq seq = 0;
  Kind kind = Kind::kPut;
  Note note = Note::kStore;
  uint8_t old_flags = 0;
  bool recorded = false;
  uint32_t slot = 0;
  uint32_t previous = 0;
  uint32_t held = 0;
  uint32_t name_space = 0;
  uint64_t version = 0;
  int64_t old_expire_ms = 0;
  int64_t old_soft_pin_ms = 0;
};

class Journal {
 public:
  Seq last() const { return last_; }
  Seq durable() const { return durable_; }
  // Changes enter the journal also when they have no record of their own.
  bool active() const { return durable_ < last_; }
  bool read_only() const { return read_only_; }

  void BeginCommand() { command_ = 0, wait_ = 0; }
  Seq wait() const { return wait_; }
  // The running command's reply depends on this position.
  void WaitFor(Seq seq) {
    if (seq > durable_ && seq > wait_) wait_ = seq;
  }
  // The number for a change: its command's, or a new one if it has a record; the last one if not.
  Seq Number(bool recorded);
  void Append(const JournalEntry& entry) { entries_.push_back(entry); }
  void AppendRecord(Record record) { records_.push_back(std::move(record)); }

  // Whole commands only, at most that many records and bytes, but at least one command.
  std::vector<Record> Take(size_t max_records, size_t max_bytes);
  bool has_records() const { return !records_.empty(); }

  // Entries up to the position, in order: visit(entry). They are gone afterwards.
  template <typename Visit>
  void Durable(Seq up_to, Visit&& visit) {
    if (up_to > last_) up_to = last_;
    if (up_to <= durable_) return;
    durable_ = up_to;
    while (!entries_.empty() && entries_.front().seq <= up_to) {
      const JournalEntry entry = entries_.front();
      entries_.pop_front();
      visit(entry);
    }
  }
  // All that is not durable fails: gives the entries, oldest first, and forgets the records. Nothing is outstanding
  // then: what must be written all the same is appended anew.
  std::deque<JournalEntry> Fail();
  void Resume() { read_only_ = false; }
  bool WasUndone(Seq seq) const;

  uint64_t memory_bytes() const { return entries_.size() * sizeof(JournalEntry) + records_.size() * sizeof(Record); }
  const std::deque<JournalEntry>& entries() const { return entries_; }

 private:
  struct Range {
    Seq from, to;
  };
  // Replies of failed commands leave within a loop's turn or two; far fewer failures happen meanwhile.
  static constexpr size_t kRememberedFailures = 256;

  Seq last_ = 0, durable_ = 0;
  Seq command_ = 0;  // the running command's number, once it has one
  Seq wait_ = 0;
  bool read_only_ = false;
  std::deque<JournalEntry> entries_;
  std::deque<Record> records_;
  std::deque<Range> undone_;
};

}  // namespace tiercel::core
