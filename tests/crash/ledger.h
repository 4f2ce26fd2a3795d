// What one writer knows of its keys: every outcome that its acknowledged and unanswered commands allow.
//
// A command that was answered leaves one possibility for each there was before; one whose answer never came leaves both
// what was and what would be. Reading a key back must find one of them, and what was found is then the only one: a
// value that showed itself stays. Each key has one writer, so nothing here is shared.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiercel/types.h"

namespace tiercel::test {

// The bytes of a value, told by its number.
std::string ValueOf(uint64_t number, size_t size);

// When something was asked for and when its answer came (or was given up): wall clock, ms.
struct Span {
  int64_t from_ms = 0, to_ms = 0;
};

struct Held {
  uint64_t number = 0;
  size_t size = 0;
  Version version;          // none: not told
  std::optional<Span> end;  // expires at a moment within
  bool hard_pin = false;
};

// What reading a key back has shown.
struct Seen {
  Span when;
  std::optional<std::string> bytes;  // nullopt: absent
  Version version;
  int64_t ttl_ms = -1;  // -1: no end
  bool hard_pin = false;
};

class Ledger {
 public:
  enum class Outcome { kDone, kRefused, kUnknown };  // kRefused: answered, and nothing was changed

  void Put(const std::string& key, Held value, Outcome outcome);
  void Delete(const std::string& key, Outcome outcome);
  void Flush(Outcome outcome);
  void Expire(const std::string& key, std::optional<Span> end, Outcome outcome);
  void Pin(const std::string& key, bool hard, Outcome outcome);

  // Bytes that a read gave while the system was in trouble, when a miss proves nothing. Says what is wrong; "":
  // nothing.
  std::string CheckBytes(const std::string& key, std::string_view bytes) const;
  // Everything, with the system whole. Narrows to what was seen.
  std::string Check(const std::string& key, const Seen& seen);

  const std::vector<std::string>& keys() const { return order_; }
  bool KnownAbsent(const std::string& key) const;
  void AddKey(const std::string& key);

 private:
  struct Entry {
    std::vector<std::optional<Held>> possible = {std::nullopt};
    Version highest;
  };
  template <typename F>
  void Change(Entry* entry, Outcome outcome, F change);
  static std::string Describe(const Entry& entry);

  std::map<std::string, Entry> entries_;
  std::vector<std::string> order_;
};

}  // namespace tiercel::test
