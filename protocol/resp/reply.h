// A reply as a client sees it, and its incremental parser (RESP2 and RESP3).
//
// The parser keeps the replies under way as a stack of unfinished aggregates, so that no byte is looked at twice
// however a large reply is cut. A bulk string that has not arrived whole is received straight into the reply's own
// memory (ReceiveSpace), so that a large value is copied by the kernel and by nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiercel/result.h"

namespace tiercel::resp {

struct Reply {
  enum class Kind : uint8_t {
    kNull,
    kSimple,
    kError,
    kInteger,
    kBulk,
    kArray,
    kMap,
    kSet,
    kPush,
    kDouble,
    kBoolean,
    kVerbatim,
    kBigNumber
  };
  Kind kind = Kind::kNull;
  int64_t integer = 0;       // kInteger, kBoolean
  double number = 0;         // kDouble
  std::string text;          // strings (verbatim: without its format), errors, digits of a big number
  std::vector<Reply> items;  // kMap: key, value, key, value

  bool is_error() const { return kind == Kind::kError; }
  bool is_null() const { return kind == Kind::kNull; }
  // The reply's error as the project's Error, by its first word. REQUIRES: is_error().
  tiercel::Error ToError() const;
  // Value of a field of a map (or of a RESP2 flat array that stands for one); nullptr when absent.
  const Reply* Field(std::string_view name) const;
  bool operator==(const Reply&) const = default;
};

class ReplyParser {
 public:
  // Of one reply with all that it contains.
  struct Limits {
    uint64_t max_bulk_bytes = uint64_t{1} << 30;
    uint64_t max_items = 1 << 24;
    uint32_t max_depth = 32;
    uint64_t max_reply_bytes = uint64_t{4} << 30;  // of bulk strings together
    uint64_t max_line_bytes = 64 * 1024;
  };
  ReplyParser() = default;
  explicit ReplyParser(const Limits& limits) : limits_(limits) {}

  void Feed(std::span<const char> bytes);

  // The same without the copy: where bytes from a socket go, `direct` first, then `buffer`. Received says how many
  // came. Both spaces are void after Received, Feed and Next.
  struct Space {
    std::span<char> direct;  // may be empty
    std::span<char> buffer;  // never empty
  };
  Space ReceiveSpace();
  void Received(size_t bytes);

  // Next whole reply, nullopt when more bytes are needed, kProtocol when the peer sent nonsense (then for good).
  Result<std::optional<Reply>> Next();
  size_t buffered() const { return end_ - begin_ + filled_; }
  // No byte of an unfinished reply has come.
  bool idle() const { return begin_ == end_ && stack_.empty() && !in_bulk_; }

 private:
  struct Frame {
    Reply reply;
    uint64_t remaining;  // items to come
    bool attribute;      // RESP3's remarks about the value that follows: read and dropped
  };
  enum class Progress { kValue, kMore, kFailed, kNothing };

  Progress ReadLine(std::string_view* line);
  Progress ReadValue(std::string_view line);
  Progress ReadBulk();
  Progress BeginBulk(Reply::Kind kind, std::string_view length);
  Progress BeginAggregate(Reply::Kind kind, std::string_view length, uint64_t each, bool attribute);
  bool Attach(Reply* whole);
  Progress Fail(std::string_view what);
  void Reserve(size_t bytes);

  Limits limits_;
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
  size_t scanned_ = 0;  // no CR in so many bytes behind begin_
  std::vector<Frame> stack_;
  uint64_t items_ = 0, bytes_ = 0;  // of the reply under way
  Reply value_;                     // the one being read
  bool in_bulk_ = false;            // the header of value_ has been read, its payload not
  bool direct_ = false;             // value_.text has its final size; filled_ bytes of it are there
  uint64_t bulk_bytes_ = 0;
  size_t filled_ = 0;
  std::optional<tiercel::Error> failed_;
};

}  // namespace tiercel::resp
