// The head of an HTTP/1.x request: request line and header fields. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace tiercel::admin {

// Longest head that is read.
inline constexpr size_t kMaxHeadBytes = size_t{32} << 10;

struct HttpRequest {
  std::string_view method;
  std::string_view path;  // without the query
};

struct HeadResult {
  enum class State { kIncomplete, kComplete, kRefused };
  State state = State::kIncomplete;
  HttpRequest request;  // kComplete: views into the text, but for the "/" of an absolute URI without a path
  int status = 0;       // kRefused: 400, 414, 431 or 505
};

// `text` is everything received so far. A bad request line is refused as soon as it is complete, a head that does not
// end within kMaxHeadBytes then.
HeadResult ParseHead(std::string_view text);

}  // namespace tiercel::admin
