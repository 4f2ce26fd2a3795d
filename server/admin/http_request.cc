// RFC 9112, strictly: no folded fields, no space before a colon, no control bytes, one Host in HTTP/1.1. What is not
// understood is refused rather than guessed at.
#include "server/admin/http_request.h"

#include <algorithm>

namespace tiercel::admin {
namespace {

constexpr int kBadRequest = 400, kTargetTooLong = 414, kHeadTooLarge = 431, kVersionNotSupported = 505;

HeadResult Refuse(int status) { return {.state = HeadResult::State::kRefused, .request = {}, .status = status}; }

bool IsTokenByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool IsToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenByte); }
bool IsTextByte(char c) { return static_cast<unsigned char>(c) >= ' ' ? c != 0x7f : c == '\t'; }

bool EqualIgnoringCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b; });
}

// Takes the first line off the text, without its end; false when there is no whole line.
bool TakeLine(std::string_view* text, std::string_view* line) {
  const size_t end = text->find('\n');
  if (end == std::string_view::npos) return false;
  *line = text->substr(0, end);
  text->remove_prefix(end + 1);
  if (line->ends_with('\r')) line->remove_suffix(1);
  return true;
}

struct RequestLine {
  HttpRequest request;
  bool host_needed = false;
  int status = 0;  // not 0: refused
};

// "http://host/path?query" and "/path?query" alike.
std::string_view PathOf(std::string_view target) {
  if (target.starts_with("http://")) {
    target.remove_prefix(7);
    const size_t slash = target.find('/');
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
  }
  return target.substr(0, target.find('?'));
}

RequestLine ParseRequestLine(std::string_view line) {
  RequestLine result;
  result.status = kBadRequest;
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return result;
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  const bool plain = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!IsToken(method) || target.empty() || !plain) return result;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (version.size() != 8 || !version.starts_with("HTTP/") || !digit(version[5]) || version[6] != '.' ||
      !digit(version[7])) {
    return result;
  }
  if (version[5] != '1') {
    result.status = kVersionNotSupported;
    return result;
  }
  return {.request = {.method = method, .path = PathOf(target)}, .host_needed = version[7] != '0', .status = 0};
}

}  // namespace

HeadResult ParseHead(std::string_view text) {
  const bool full = text.size() >= kMaxHeadBytes;
  text = text.substr(0, kMaxHeadBytes);
  // Empty lines in front of a request are leftovers of the one before; they are passed over.
  while (text.starts_with("\r\n") || text.starts_with('\n')) text.remove_prefix(text.front() == '\r' ? 2 : 1);
  std::string_view line;
  if (!TakeLine(&text, &line)) return full ? Refuse(kTargetTooLong) : HeadResult{};
  const RequestLine start = ParseRequestLine(line);
  if (start.status != 0) return Refuse(start.status);
  int hosts = 0;
  while (TakeLine(&text, &line)) {
    if (line.empty()) {
      if (start.host_needed ? hosts != 1 : hosts > 1) return Refuse(kBadRequest);
      return {.state = HeadResult::State::kComplete, .request = start.request, .status = 0};
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !IsToken(line.substr(0, colon)) ||
        !std::all_of(line.begin(), line.end(), IsTextByte)) {
      return Refuse(kBadRequest);
    }
    hosts += EqualIgnoringCase(line.substr(0, colon), "host");
  }
  return full ? Refuse(kHeadTooLarge) : HeadResult{};
}

}  // namespace tiercel::admin
