// Under which address a store's data port is announced to the master. Pure, but for the look-ups at the end.
//
// Given (`data-advertise`): as given, with the data port's number where none is given. Found: the address that the
// control connection to the master has on this side, because that is the way on which the master can dial back.
// A wildcard is never announced. IPv6 addresses stand in brackets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tiercel/result.h"

namespace tiercel::node {

struct HostPort {
  std::string host;   // without brackets
  uint16_t port = 0;  // 0: none given
  bool operator==(const HostPort&) const = default;
};

// "host", "host:port", "v4:port", "[v6]", "[v6]:port", or a bare v6 address. kInvalid otherwise.
Result<HostPort> ParseHostPort(std::string_view text);
std::string FormatHostPort(const HostPort& address);
bool IsWildcard(std::string_view host);  // 0.0.0.0, ::, *, empty

struct AdvertiseInputs {
  std::string given;                    // data-advertise; empty: find one
  std::vector<std::string> bound;       // addresses of the data servers, with their real ports
  std::string local;                    // of the control connection, without brackets; empty: a UNIX socket
  std::vector<std::string> interfaces;  // addresses of this host, best first: when there is nothing better
};
// kInvalid with the reason: nothing bound, a wildcard given, nothing that can be announced.
Result<std::string> ChooseAdvertised(const AdvertiseInputs& inputs);

// Addresses of this host that others may reach: global ones of interfaces that are up, v4 before v6; no loopback,
// no link-local.
std::vector<std::string> InterfaceAddresses();
// The local address of a connection made to this peer for the purpose (host may be a name); empty when there is none.
std::string LocalAddressTowards(const std::string& host, uint16_t port, int64_t timeout_ms);

}  // namespace tiercel::node
