// One pass over the bytes. While a command is whole in one buffer, arguments are written as views at once; only a
// command that is cut turns them into offsets, so the usual case pays nothing for the rare one.
//
// Rejected: keeping views and patching their base when the buffer moves. It costs a pass over all arguments for
// every piece of a command with many of them.
#include "protocol/resp/decoder.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/tokenizer.h"
#include "base/units.h"

namespace tiercel::resp {
namespace {

constexpr int64_t kUnauthenticatedArguments = 10;
constexpr int64_t kUnauthenticatedBulkBytes = 16 * 1024;
// What a connection keeps of its vectors between commands.
constexpr size_t kKeptCapacity = 1024;

bool EqualsFolded(std::string_view word, std::string_view lower) {
  if (word.size() != lower.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    const char folded = (c >= 'A' && c <= 'Z') ? static_cast<char>(c | 0x20) : c;
    if (folded != lower[i]) return false;
  }
  return true;
}

// A browser can be made to send a form to any port: what it sends begins like this. Redis drops it without a word.
bool IsCrossProtocol(std::string_view name) {
  if (name.size() != 4 && name.size() != 5) return false;
  return EqualsFolded(name, "post") || EqualsFolded(name, "host:");
}

std::string Printable(char c) {
  if (c == '\r' || c == '\n') return " ";
  if (c >= 0x20 && c < 0x7f) return std::string(1, c);
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

}  // namespace

Decoder::Step Decoder::Next(std::span<const char> buffer) {
  if (failed_) return {Event::kError, 0};
  TIERCEL_CHECK(!taking_bulk_, "the payload of a direct bulk must be taken first");
  if (announced_ != 0) return NextArguments(buffer, 0);

  size_t start = 0;
  while (start < buffer.size()) {
    Begun begun = buffer[start] == '*' ? BeginArray(buffer, &start) : BeginInline(buffer, &start);
    switch (begun) {
      case Begun::kNothing: continue;
      case Begun::kPartial: wanted_ = 1; return {Event::kNeedMore, start};
      case Begun::kFailed: return {Event::kError, start};
      case Begun::kInline: return Whole(start);
      case Begun::kArray: return NextArguments(buffer, start);
    }
  }
  wanted_ = 1;
  return {Event::kNeedMore, start};
}

// The header of an array at `*start`. An empty array asks for nothing and is not answered: it is stepped over.
Decoder::Begun Decoder::BeginArray(std::span<const char> buffer, size_t* start) {
  const char* const data = buffer.data();
  int64_t count = 0;
  const char* after = nullptr;
  switch (ReadLength(data + *start + 1, data + buffer.size(), &count, &after)) {
    case Line::kPartial: return Begun::kPartial;
    case Line::kTooLong: return Fail("too big mbulk count string");
    case Line::kMalformed: return Fail("invalid multibulk length");
    case Line::kWhole: break;
  }
  const auto end_of_line = static_cast<size_t>(after - data);
  if (count <= 0) {
    *start = end_of_line;
    return Begun::kNothing;
  }
  if (static_cast<uint64_t>(count) > limits_.max_arguments) return Fail("invalid multibulk length");
  if (!limits_.authenticated && count > kUnauthenticatedArguments) return Fail("unauthenticated multibulk length");
  ForgetCommand();
  announced_ = static_cast<size_t>(count);
  position_ = end_of_line - *start;
  return Begun::kArray;
}

// A line at `*start`. Empty ones are stepped over.
Decoder::Begun Decoder::BeginInline(std::span<const char> buffer, size_t* start) {
  const char* const line = buffer.data() + *start;
  const size_t have = buffer.size() - *start;
  const size_t from = std::min(scanned_, have);
  const auto* lf = have == from ? nullptr : static_cast<const char*>(std::memchr(line + from, '\n', have - from));
  size_t length = lf == nullptr ? have : static_cast<size_t>(lf - line);
  if (length > limits_.max_inline_bytes) return Fail("too big inline request");
  if (lf == nullptr) {
    scanned_ = have;
    return Begun::kPartial;
  }
  scanned_ = 0;
  *start += length + 1;
  if (length > 0 && line[length - 1] == '\r') --length;
  ForgetCommand();
  if (!SplitLine({line, length})) return Fail("unbalanced quotes in request");
  return arguments_.empty() ? Begun::kNothing : Begun::kInline;
}

// Words without quotes are split in place; the rest of the syntax is the tokenizer's, which redis.conf shares.
bool Decoder::SplitLine(std::string_view line) {
  constexpr std::string_view kPlainSpace = " \t\r";
  constexpr std::string_view kNeedsTokenizer{"\"'\n\v\f\0", 6};
  if (line.find_first_of(kNeedsTokenizer) == std::string_view::npos) {
    size_t at = line.find_first_not_of(kPlainSpace);
    while (at != std::string_view::npos) {
      const size_t end = std::min(line.find_first_of(kPlainSpace, at), line.size());
      arguments_.push_back(line.substr(at, end - at));
      at = line.find_first_not_of(kPlainSpace, end);
    }
    return true;
  }
  auto words = Tokenize(line);
  if (!words.ok()) return false;
  inline_words_ = std::move(words).value();
  arguments_.assign(inline_words_.begin(), inline_words_.end());
  return true;
}

// Reads "NUMBER\r\n". Numbers of a few digits, which is nearly all of them, are read in one go.
Decoder::Line Decoder::ReadLength(const char* line, const char* end, int64_t* value, const char** after) {
  constexpr ptrdiff_t kFastDigits = 9;
  if (line < end && *line >= '1' && *line <= '9') {
    const char* at = line;
    const char* const stop = end - line > kFastDigits ? line + kFastDigits : end;
    int64_t number = 0;
    while (at < stop && *at >= '0' && *at <= '9') number = number * 10 + (*at++ - '0');
    if (end - at >= 2 && at[0] == '\r' && at[1] == '\n') {
      *value = number;
      *after = at + 2;
      scanned_ = 0;
      return Line::kWhole;
    }
  }
  const auto have = static_cast<size_t>(end - line);
  const size_t from = std::min(scanned_, have);
  const auto* cr = have == from ? nullptr : static_cast<const char*>(std::memchr(line + from, '\r', have - from));
  const size_t length = cr == nullptr ? have : static_cast<size_t>(cr - line);
  if (length > limits_.max_inline_bytes) return Line::kTooLong;
  scanned_ = length;
  if (cr == nullptr || cr + 1 == end) return Line::kPartial;
  scanned_ = 0;
  const std::optional<int64_t> number = ParseInt64({line, length});
  if (cr[1] != '\n' || !number) return Line::kMalformed;
  *value = *number;
  *after = cr + 2;
  return Line::kWhole;
}

// Goes on with the arguments of the command that begins at `start`.
Decoder::Step Decoder::NextArguments(std::span<const char> buffer, size_t start) {
  const char* const command = buffer.data() + start;
  const char* const end = buffer.data() + buffer.size();
  const char* at = command + position_;
  // Of a resumed command, the views of what is in the buffer are stale until RestoreViews; their number is right.
  while (arguments_.size() < announced_) {
    if (length_ < 0) {
      if (at == end) return Partial(command, start, at, 1);
      if (*at != '$') return Failed("expected '$', got '" + Printable(*at) + "'");
      int64_t length = 0;
      const char* after = nullptr;
      switch (ReadLength(at + 1, end, &length, &after)) {
        case Line::kPartial: return Partial(command, start, at, 1);
        case Line::kTooLong: return Failed("too big bulk count string");
        case Line::kMalformed: return Failed("invalid bulk length");
        case Line::kWhole: break;
      }
      if (!AcceptLength(length, static_cast<size_t>(after - command))) return {Event::kError, start};
      at = after;
      if (static_cast<uint64_t>(length) >= limits_.direct_bytes) {
        return Direct(command, static_cast<uint64_t>(length), static_cast<size_t>(at - buffer.data()));
      }
      length_ = length;
    }
    const auto size = static_cast<size_t>(length_);
    const auto have = static_cast<size_t>(end - at);
    if (have < size + 2) return Partial(command, start, at, size + 2 - have);
    if (at[size] != '\r' || at[size + 1] != '\n') return Failed("expected CRLF after a bulk string");
    arguments_.emplace_back(at, size);
    at += size + 2;
    length_ = -1;
  }
  RestoreViews(command);
  announced_ = 0;
  return Whole(static_cast<size_t>(at - buffer.data()));
}

// `offset` is how far behind the command's begin (or its last direct bulk) the argument lies.
bool Decoder::AcceptLength(int64_t length, size_t offset) {
  if (length < 0 || static_cast<uint64_t>(length) > limits_.max_bulk_bytes) {
    Fail("invalid bulk length");
  } else if (!limits_.authenticated && length > kUnauthenticatedBulkBytes) {
    Fail("unauthenticated bulk length");
  } else if (const uint64_t bytes = static_cast<uint64_t>(length);
             bytes < limits_.direct_bytes && kept_bytes_ + offset + bytes > limits_.max_command_bytes) {
    Fail("command is longer than client-query-buffer-limit");
  }
  return !failed_;
}

Decoder::Step Decoder::Partial(const char* command, size_t start, const char* at, size_t wanted) {
  for (size_t i = stable_ + ranges_.size(); i < arguments_.size(); ++i) {
    ranges_.push_back({static_cast<size_t>(arguments_[i].data() - command), arguments_[i].size()});
  }
  position_ = static_cast<size_t>(at - command);
  wanted_ = wanted;
  return {Event::kNeedMore, start};
}

Decoder::Step Decoder::Whole(size_t consumed) {
  if (IsCrossProtocol(arguments_.front())) return Silent();
  return {Event::kCommand, consumed};
}

// The payload goes its own way, and the caller may drop what lies before it: the arguments so far are copied.
Decoder::Step Decoder::Direct(const char* command, uint64_t bytes, size_t consumed) {
  RestoreViews(command);
  if (!arguments_.empty() && IsCrossProtocol(arguments_.front())) return Silent();
  size_t total = 0;
  for (size_t i = stable_; i < arguments_.size(); ++i) total += arguments_[i].size();
  if (total > 0) {
    std::string& kept = kept_.emplace_back();
    kept.reserve(total);
    for (size_t i = stable_; i < arguments_.size(); ++i) {
      const char* const place = kept.data() + kept.size();
      kept.append(arguments_[i]);
      arguments_[i] = {place, arguments_[i].size()};
    }
    kept_bytes_ += total;
  }
  stable_ = arguments_.size();
  bulk_index_ = stable_;
  bulk_bytes_ = bytes;
  taking_bulk_ = true;
  return {Event::kBulk, consumed};
}

void Decoder::BulkTaken() {
  TIERCEL_CHECK(taking_bulk_);
  taking_bulk_ = false;
  arguments_.emplace_back();
  stable_ = arguments_.size();
  position_ = 0;
}

void Decoder::RestoreViews(const char* command) {
  for (size_t i = 0; i < ranges_.size(); ++i) {
    arguments_[stable_ + i] = {command + ranges_[i].offset, ranges_[i].size};
  }
  ranges_.clear();
}

void Decoder::ForgetCommand() {
  const size_t used = arguments_.size();
  arguments_.clear();
  if (stable_ != 0) {
    stable_ = 0;
    kept_bytes_ = 0;
    kept_.clear();
  }
  // One huge command must not leave its vectors to an idle connection; a stream of them may keep them.
  if (arguments_.capacity() > kKeptCapacity && used <= kKeptCapacity) {
    std::vector<std::string_view>().swap(arguments_);
    std::vector<Range>().swap(ranges_);
  }
  if (!inline_words_.empty()) std::vector<std::string>().swap(inline_words_);
}

Decoder::Begun Decoder::Fail(std::string_view what) {
  failed_ = true;
  error_.assign("ERR Protocol error: ").append(what);
  return Begun::kFailed;
}

Decoder::Step Decoder::Failed(std::string_view what) {
  Fail(what);
  return {Event::kError, 0};
}

Decoder::Step Decoder::Silent() {
  failed_ = true;
  error_.clear();
  return {Event::kError, 0};
}

}  // namespace tiercel::resp
