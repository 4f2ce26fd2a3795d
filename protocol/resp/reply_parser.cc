// One value at a time: a line, or the payload that a line announced. Finished values are attached to the innermost
// unfinished aggregate; an aggregate that becomes whole is itself a finished value.
//
// Announced lengths are checked before anything is allocated for them. Memory for a bulk string is taken at once
// (it is not touched before its bytes come); memory for items grows with the items.
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/units.h"
#include "protocol/resp/reply.h"

namespace tiercel::resp {
namespace {

constexpr size_t kBufferBytes = 16 * 1024;  // what one receive gets at least, half of it after compaction
constexpr size_t kKeptBufferBytes = 256 * 1024;
// Bulk strings shorter than this are taken out of the buffer once they are there; a direct receive costs more.
constexpr size_t kDirectBytes = 4 * 1024;
constexpr size_t kHugeBytes = size_t{4} << 20;
// Items reserved for an announced aggregate: more must have come before more is taken.
constexpr uint64_t kReservedItems = 64;

// (std::string::resize would write zeros first. The size is captured because libstdc++ 12 hands over the capacity.)
void ResizeUninitialised(std::string* text, size_t size) {
  text->resize_and_overwrite(size, [size](char*, size_t) noexcept { return size; });
}

// Fresh memory for a large value costs more in page faults than the copy into it (measured: 0.55 of 0.75 seconds a
// gigabyte); huge pages take nearly all of that away. Only advice: it is right whether or not it is followed.
void PreferHugePages(std::span<char> memory) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t before = -reinterpret_cast<uintptr_t>(memory.data()) % kHugePage;
  if (memory.size() < before + kHugePage) return;
  madvise(memory.data() + before, (memory.size() - before) / kHugePage * kHugePage, MADV_HUGEPAGE);
}

std::optional<double> ParseDouble(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text[0] == '+') text.remove_prefix(1);
  const bool named = text == "inf" || text == "-inf" || text == "nan" || text == "-nan";
  if (!named && text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool IsBigNumber(std::string_view digits) {
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

// Room for `bytes` behind end_.
void ReplyParser::Reserve(size_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (capacity_ - end_ >= bytes) return;
  const size_t have = end_ - begin_;
  if (capacity_ - have >= bytes && have <= capacity_ / 2) {
    if (have > 0) std::memmove(data_.get(), data_.get() + begin_, have);
  } else {
    const size_t larger = std::max({kBufferBytes, capacity_ * 2, have + bytes});
    auto grown = std::make_unique_for_overwrite<char[]>(larger);
    if (have > 0) std::memcpy(grown.get(), data_.get() + begin_, have);
    data_ = std::move(grown);
    capacity_ = larger;
  }
  begin_ = 0;
  end_ = have;
}

ReplyParser::Space ReplyParser::ReceiveSpace() {
  if (begin_ == end_ && capacity_ > kKeptBufferBytes) {
    data_.reset();
    capacity_ = begin_ = end_ = 0;
  }
  Reserve(kBufferBytes / 2);
  Space space;
  if (direct_) space.direct = std::span(value_.text).subspan(filled_);
  space.buffer = {data_.get() + end_, capacity_ - end_};
  return space;
}

void ReplyParser::Received(size_t bytes) {
  if (direct_) {
    const size_t direct = std::min(bytes, value_.text.size() - filled_);
    filled_ += direct;
    bytes -= direct;
  }
  TIERCEL_CHECK(bytes <= capacity_ - end_);
  end_ += bytes;
}

void ReplyParser::Feed(std::span<const char> bytes) {
  if (direct_) {
    const size_t direct = std::min(bytes.size(), value_.text.size() - filled_);
    if (direct > 0) std::memcpy(value_.text.data() + filled_, bytes.data(), direct);
    filled_ += direct;
    bytes = bytes.subspan(direct);
  }
  if (bytes.empty()) return;
  Reserve(bytes.size());
  std::memcpy(data_.get() + end_, bytes.data(), bytes.size());
  end_ += bytes.size();
}

Result<std::optional<Reply>> ReplyParser::Next() {
  while (!failed_) {
    Progress progress = Progress::kNothing;
    if (in_bulk_) {
      progress = ReadBulk();
    } else {
      std::string_view line;
      progress = ReadLine(&line);
      if (progress == Progress::kNothing) progress = ReadValue(line);
    }
    if (progress == Progress::kMore) return std::optional<Reply>();
    Reply whole;
    if (progress == Progress::kValue && Attach(&whole)) return std::optional<Reply>(std::move(whole));
  }
  return *failed_;
}

// kNothing: `line` is a whole one, without CRLF, and consumed.
ReplyParser::Progress ReplyParser::ReadLine(std::string_view* line) {
  const char* const start = data_.get() + begin_;
  const size_t have = end_ - begin_;
  const auto* cr =
      have == scanned_ ? nullptr : static_cast<const char*>(std::memchr(start + scanned_, '\r', have - scanned_));
  const size_t length = cr == nullptr ? have : static_cast<size_t>(cr - start);
  if (length > limits_.max_line_bytes) return Fail("a line is too long");
  scanned_ = length;
  if (cr == nullptr || length + 1 == have) return Progress::kMore;
  if (cr[1] != '\n') return Fail("CR without LF");
  scanned_ = 0;
  begin_ += length + 2;
  *line = {start, length};
  if (length == 0) return Fail("an empty line");
  if (std::memchr(start, '\n', length) != nullptr) return Fail("LF without CR");
  return Progress::kNothing;
}

ReplyParser::Progress ReplyParser::ReadValue(std::string_view line) {
  const std::string_view rest = line.substr(1);
  value_ = Reply();
  switch (line[0]) {
    case '+':
      value_.kind = Reply::Kind::kSimple;
      value_.text = rest;
      return Progress::kValue;
    case '-':
      value_.kind = Reply::Kind::kError;
      value_.text = rest;
      return Progress::kValue;
    case ':': {
      const auto number = ParseInt64(rest);
      if (!number) return Fail("not an integer");
      value_.kind = Reply::Kind::kInteger;
      value_.integer = *number;
      return Progress::kValue;
    }
    case ',': {
      const auto number = ParseDouble(rest);
      if (!number) return Fail("not a double");
      value_.kind = Reply::Kind::kDouble;
      value_.number = *number;
      return Progress::kValue;
    }
    case '#':
      if (rest != "t" && rest != "f") return Fail("not a boolean");
      value_.kind = Reply::Kind::kBoolean;
      value_.integer = rest == "t" ? 1 : 0;
      return Progress::kValue;
    case '(':
      if (!IsBigNumber(rest)) return Fail("not a big number");
      value_.kind = Reply::Kind::kBigNumber;
      value_.text = rest;
      return Progress::kValue;
    case '_': return rest.empty() ? Progress::kValue : Fail("not a null");
    case '$': return BeginBulk(Reply::Kind::kBulk, rest);
    case '=': return BeginBulk(Reply::Kind::kVerbatim, rest);
    case '!': return BeginBulk(Reply::Kind::kError, rest);
    case '*': return BeginAggregate(Reply::Kind::kArray, rest, 1, false);
    case '%': return BeginAggregate(Reply::Kind::kMap, rest, 2, false);
    case '~': return BeginAggregate(Reply::Kind::kSet, rest, 1, false);
    case '>':
      if (!stack_.empty()) return Fail("a push inside a reply");
      return BeginAggregate(Reply::Kind::kPush, rest, 1, false);
    case '|': return BeginAggregate(Reply::Kind::kMap, rest, 2, true);
    default: return Fail("not a reply");
  }
}

ReplyParser::Progress ReplyParser::BeginBulk(Reply::Kind kind, std::string_view length) {
  const auto bytes = ParseInt64(length);
  if (kind == Reply::Kind::kBulk && bytes == -1) return Progress::kValue;  // RESP2's null
  if (!bytes || *bytes < 0 || static_cast<uint64_t>(*bytes) > limits_.max_bulk_bytes) return Fail("a bad bulk length");
  if (kind == Reply::Kind::kVerbatim && *bytes < 4) return Fail("a verbatim string without its format");
  bulk_bytes_ = static_cast<uint64_t>(*bytes);
  if (bytes_ + bulk_bytes_ > limits_.max_reply_bytes) return Fail("a reply is too large");
  bytes_ += bulk_bytes_;
  value_.kind = kind;
  in_bulk_ = true;
  return Progress::kNothing;
}

ReplyParser::Progress ReplyParser::BeginAggregate(Reply::Kind kind, std::string_view length, uint64_t each,
                                                  bool attribute) {
  const auto count = ParseInt64(length);
  if (kind == Reply::Kind::kArray && count == -1) return Progress::kValue;  // RESP2's null array
  if (!count || *count < 0) return Fail("a bad number of items");
  const auto announced = static_cast<uint64_t>(*count);
  if (announced > limits_.max_items / each || items_ + announced * each > limits_.max_items) {
    return Fail("too many items");
  }
  if (announced == 0) {
    value_.kind = kind;
    return attribute ? Progress::kNothing : Progress::kValue;
  }
  if (stack_.size() >= limits_.max_depth) return Fail("nested too deep");
  items_ += announced * each;
  Frame& frame = stack_.emplace_back(Reply(), announced * each, attribute);
  frame.reply.kind = kind;
  frame.reply.items.reserve(std::min(frame.remaining, kReservedItems));
  return Progress::kNothing;
}

ReplyParser::Progress ReplyParser::ReadBulk() {
  const size_t have = end_ - begin_;
  if (!direct_) {
    const size_t taken = std::min<uint64_t>(have, bulk_bytes_);
    if (taken < bulk_bytes_) {
      if (bulk_bytes_ < kDirectBytes) return Progress::kMore;
      ResizeUninitialised(&value_.text, bulk_bytes_);
      if (bulk_bytes_ >= kHugeBytes) PreferHugePages(value_.text);
      if (taken > 0) std::memcpy(value_.text.data(), data_.get() + begin_, taken);
      begin_ += taken;
      filled_ = taken;
      direct_ = true;
      return Progress::kMore;
    }
    if (have < bulk_bytes_ + 2) return Progress::kMore;
    value_.text.assign(data_.get() + begin_, bulk_bytes_);
    begin_ += bulk_bytes_;
  } else if (filled_ < bulk_bytes_ || have < 2) {
    return Progress::kMore;
  }
  if (std::memcmp(data_.get() + begin_, "\r\n", 2) != 0) return Fail("no CRLF behind a bulk string");
  begin_ += 2;
  in_bulk_ = direct_ = false;
  filled_ = 0;
  if (value_.kind == Reply::Kind::kVerbatim) {
    if (value_.text[3] != ':') return Fail("a verbatim string without its format");
    value_.text.erase(0, 4);
  }
  return Progress::kValue;
}

// Hangs value_ into what it belongs to. True: that made a whole reply.
bool ReplyParser::Attach(Reply* whole) {
  while (!stack_.empty()) {
    Frame& top = stack_.back();
    top.reply.items.push_back(std::move(value_));
    if (--top.remaining > 0) return false;
    const bool dropped = top.attribute;
    value_ = std::move(top.reply);
    stack_.pop_back();
    if (dropped) return false;
  }
  *whole = std::move(value_);
  items_ = bytes_ = 0;
  return true;
}

ReplyParser::Progress ReplyParser::Fail(std::string_view what) {
  failed_.emplace(ErrorCode::kProtocol, "the peer's reply is not RESP: " + std::string(what));
  stack_.clear();
  return Progress::kFailed;
}

}  // namespace tiercel::resp
