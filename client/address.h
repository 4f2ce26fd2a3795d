// The master's address as options give it: HOST, HOST:PORT, [V6]:PORT or unix:PATH. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tiercel/result.h"

namespace tiercel::client {

inline constexpr uint16_t kDefaultPort = 7379;

struct MasterAddress {
  std::string host;  // without brackets; empty when `unix_socket` is set
  uint16_t port = kDefaultPort;
  std::string unix_socket;
};

Result<MasterAddress> ParseMasterAddress(std::string_view text);  // kInvalid

}  // namespace tiercel::client
