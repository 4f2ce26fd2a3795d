// The small files that stand beside RocksDB's own in the index's directory.
//
//   OWNER     locked while a process uses the directory; holds that process's number
//   SEQUENCE  how far the write-ahead log had come: shows what was lost of it
//   TABLES    which table files there were and with how many entries: shows what was lost of them
//   RESERVE   space held back for tidying up when the disk is full
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/fd.h"

namespace tiercel::index {

// ---- OWNER

// Exclusive for as long as the descriptor lives, whatever way its process ends. kNameInUse names the owner.
// `may_be_read_only`: a directory that nobody can write to has no owner and is free.
Result<UniqueFd> OwnDirectory(const std::string& dir, bool may_be_read_only = false);

// ---- SEQUENCE

// Sequence numbers are RocksDB's own: every record takes one, and none is ever skipped.
struct SequenceNote {
  uint64_t database = 0;  // which database it speaks of
  uint64_t sequence = 0;  // the last record whose batch was accepted
  // Not 0: a batch behind this number failed and has been undone, but may be in the log. It must not come back.
  uint64_t refused_after = 0;
  bool refused = false;
};

// Rewritten in place after each batch, without a sync: a killed process leaves it exact, and after a power cut it
// tells, if anything, more than the log has kept, which is just what it is for. Not thread-safe.
class SequenceFile {
 public:
  static Result<SequenceFile> Open(const std::string& dir);
  // Nothing when the file is new or unreadable: then nothing is known.
  std::optional<SequenceNote> Read() const;
  bool Write(const SequenceNote& note);  // false: could not, which is no reason to fail what was written
  Status Sync();

 private:
  UniqueFd fd_;
};
// Without creating it.
std::optional<SequenceNote> ReadSequenceNote(const std::string& dir);
// SequenceNote::database for the database that lies in the directory; 0 when there is none.
uint64_t DatabaseIn(const std::string& dir);

// ---- TABLES

struct TableNote {
  uint64_t entries = 0;  // deletions included
  uint64_t deletions = 0;
  bool superseded = false;  // its contents are in other tables now; the file may still be there
  // Records that are gone with the table, at the most: deletions elsewhere may have met some.
  uint64_t records() const { return entries > deletions ? entries - deletions : 0; }
};
using TableNotes = std::map<uint64_t, TableNote>;  // by file number

TableNotes ReadTableNotes(const std::string& dir);  // empty when there are none
Status WriteTableNotes(const std::string& dir, const TableNotes& notes);
std::optional<uint64_t> TableNumber(const std::string& file_name);  // "000012.sst" -> 12

// ---- RESERVE

class Reserve {
 public:
  Reserve(const std::string& dir, uint64_t bytes) : dir_(dir), bytes_(bytes) {}
  // True when it is there. Takes the space only if as much again stays free.
  bool Hold();
  void Release();
  // The space that would be free without it.
  uint64_t FreeWithout() const { return FreeNow() + held_bytes(); }
  uint64_t FreeNow() const;
  uint64_t wanted_bytes() const { return bytes_; }
  uint64_t held_bytes() const;

 private:
  std::string path() const { return dir_ + "/RESERVE"; }
  const std::string dir_;
  const uint64_t bytes_;
};

}  // namespace tiercel::index
