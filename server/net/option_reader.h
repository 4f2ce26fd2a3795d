// Reads a command's words: fixed arguments with their limits, and the options behind them, in any order and case.
// Errors name the argument, what was given and what is allowed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::net {

bool SameWord(std::string_view a, std::string_view b);  // in any case

Result<int64_t> ReadInteger(std::string_view argument, std::string_view text, int64_t least, int64_t most);
Result<uint64_t> ReadValueSize(std::string_view text);  // TOOBIG beyond kMaxValueBytes
Result<Version> ReadVersion(std::string_view argument, std::string_view text);
Result<uint64_t> ReadSum(std::string_view text);  // exactly 16 hex digits
Result<Incarnation> ReadIncarnation(std::string_view text);
Result<Tier> ReadTier(std::string_view argument, std::string_view text);
// Not empty, at most `most` bytes, printable and without spaces: it stands as a word in replies.
Result<std::string_view> ReadName(std::string_view argument, std::string_view text, size_t most);
// 1 byte to kMaxKeyBytes.
Status CheckKey(std::string_view argument, std::string_view key);

class OptionReader {
 public:
  OptionReader(std::span<const std::string_view> args, size_t first) : args_(args), next_(first) {}

  // Moves to the next option; false at the end.
  bool Next();
  bool Is(std::string_view name) const { return SameWord(option_, name); }
  bool NextIs(std::string_view name) const { return next_ < args_.size() && SameWord(args_[next_], name); }
  // The option's value.
  Result<std::string_view> Text();
  Result<int64_t> Integer(int64_t least, int64_t most);
  Result<Tier> TierName();
  Error Unknown() const;
  size_t left() const { return args_.size() - next_; }
  // `count` words more, as they stand. REQUIRES: left() >= count.
  std::span<const std::string_view> Take(size_t count);

 private:
  std::span<const std::string_view> args_;
  size_t next_;
  std::string_view option_;
};

}  // namespace tiercel::net
