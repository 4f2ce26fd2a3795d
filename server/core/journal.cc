#include "server/core/journal.h"

#include "base/check.h"

namespace tiercel::core {

Seq Journal::Number(bool recorded) {
  // A command keeps its number while nothing else took a later one.
  if (command_ != 0 && command_ == last_ && command_ > durable_) return command_;
  if (recorded) {
    command_ = ++last_;
    return command_;
  }
  TIERCEL_CHECK(active(), "without a record and with nothing on its way a change needs no number");
  return last_;
}

std::vector<Record> Journal::Take(size_t max_records, size_t max_bytes) {
  std::vector<Record> batch;
  if (read_only_) return batch;
  command_ = 0;  // what was taken is not added to
  size_t bytes = 0;
  while (!records_.empty()) {
    const Seq seq = records_.front().seq;
    size_t count = 0, size = 0;
    while (count < records_.size() && records_[count].seq == seq) {
      const Record& r = records_[count];
      size += sizeof(Record) + r.key.size() + r.name.size() + r.storage_id.size() + r.host.size();
      ++count;
    }
    if (!batch.empty() && (batch.size() + count > max_records || bytes + size > max_bytes)) break;
    bytes += size;
    for (; count > 0; --count) {
      batch.push_back(std::move(records_.front()));
      records_.pop_front();
    }
  }
  return batch;
}

std::deque<JournalEntry> Journal::Fail() {
  if (last_ > durable_) {
    undone_.push_back({durable_ + 1, last_});
    if (undone_.size() > kRememberedFailures) undone_.pop_front();
  }
  std::deque<JournalEntry> entries;
  entries.swap(entries_);
  records_.clear();
  durable_ = last_;
  command_ = 0;
  read_only_ = true;
  return entries;
}

bool Journal::WasUndone(Seq seq) const {
  for (const Range& range : undone_) {
    if (seq >= range.from && seq <= range.to) return true;
  }
  return false;
}

}  // namespace tiercel::core
