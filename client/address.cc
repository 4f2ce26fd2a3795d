#include "client/address.h"

#include <fmt/format.h>

#include <optional>

#include "base/units.h"

namespace tiercel::client {
namespace {

Error Bad(std::string_view text) {
  return Error(ErrorCode::kInvalid,
               fmt::format("'{}' is no address of a master: HOST:PORT, [V6]:PORT or unix:PATH is needed", text));
}

}  // namespace

Result<MasterAddress> ParseMasterAddress(std::string_view text) {
  MasterAddress address;
  if (text.starts_with("unix:")) {
    address.unix_socket = text.substr(5);
    if (address.unix_socket.empty()) return Bad(text);
    return address;
  }
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Bad(text);
    address.host = text.substr(1, end - 1);
    std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return Bad(text);
    if (!rest.empty()) port = rest.substr(1);
  } else {
    const size_t colon = text.find(':');
    // More than one colon without brackets is a bare v6 address.
    const bool bare_v6 = colon != std::string_view::npos && text.find(':', colon + 1) != std::string_view::npos;
    address.host = bare_v6 ? text : text.substr(0, colon);
    if (!bare_v6 && colon != std::string_view::npos) port = text.substr(colon + 1);
  }
  if (address.host.empty()) return Bad(text);
  if (port) {
    auto number = ParseUint64(*port);
    if (!number || *number == 0 || *number > UINT16_MAX) return Bad(text);
    address.port = static_cast<uint16_t>(*number);
  }
  return address;
}

}  // namespace tiercel::client
