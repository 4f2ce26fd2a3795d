#include "protocol/resp/version.h"

#include <charconv>

namespace tiercel::resp {
namespace {

bool ParsePart(std::string_view text, uint16_t* out) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && at == end;
}

}  // namespace

std::optional<ControlVersion> ParseControlVersion(std::string_view text) {
  const size_t dot = text.find('.');
  ControlVersion version;
  if (dot == std::string_view::npos || !ParsePart(text.substr(0, dot), &version.major) ||
      !ParsePart(text.substr(dot + 1), &version.minor)) {
    return std::nullopt;
  }
  return version;
}

std::string ControlVersionText(ControlVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

}  // namespace tiercel::resp
