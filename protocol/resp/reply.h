// A reply as a client sees it, and its incremental parser (RESP2 and RESP3).
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::string text;          // strings, errors
  std::vector<Reply> items;  // kMap: key, value, key, value

  bool is_error() const { return kind == Kind::kError; }
  bool is_null() const { return kind == Kind::kNull; }
  // The reply's error as the project's Error, by its first word.
  tiercel::Error ToError() const;
  // Value of a field of a map (or of a RESP2 flat array that stands for one); nullptr when absent.
  const Reply* Field(std::string_view name) const;
};

class ReplyParser {
 public:
  struct Limits {
    uint64_t max_bulk_bytes = uint64_t{1} << 30;
    uint64_t max_items = 1 << 24;
    uint32_t max_depth = 32;
  };
  ReplyParser() = default;
  explicit ReplyParser(const Limits& limits) : limits_(limits) {}

  void Feed(std::span<const char> bytes);
  // Next whole reply, nullopt when more bytes are needed, kProtocol when the peer sent nonsense (then for good).
  Result<std::optional<Reply>> Next();
  size_t buffered() const { return buffer_.size() - position_; }

 private:
  Limits limits_;
  std::string buffer_;
  size_t position_ = 0;
};

}  // namespace tiercel::resp
