// Is the address good under which a store wants to be found? Pure; the dial that follows decides the rest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tiercel/result.h"

namespace tiercel::net {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};
// "host:port" or "[v6]:port".
Result<HostPort> ParseHostPort(std::string_view text);

enum class AddressKind : uint8_t { kLoopback, kWildcard, kOther };
// Of an address or name; names other than localhost are kOther.
AddressKind KindOfHost(const std::string& host);

// A store whose connection comes from another host must not advertise an address that means "here" to everybody:
// kUnreachable naming address, where the connection comes from, and the remedy. `peer_ip` is empty for connections
// within this host, `local_address` is this end of the connection ("ip:port").
Status CheckDataAddress(const std::string& data_address, const std::string& peer_ip, const std::string& local_address);

}  // namespace tiercel::net
