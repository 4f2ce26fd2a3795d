#include "server/net/data_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cstring>

#include "base/units.h"
#include "server/net/option_reader.h"

namespace tiercel::net {

Result<HostPort> ParseHostPort(std::string_view text) {
  const auto bad = [&] {
    return Error(ErrorCode::kInvalid, fmt::format("data-address is '{}', it must be host:port or [v6]:port with a port "
                                                  "of 1 to 65535",
                                                  text.substr(0, 300)));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad();
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad();
  }
  const std::optional<uint64_t> port = ParseUint64(text.substr(colon + 1));
  if (host.empty() || !port || *port == 0 || *port > UINT16_MAX) return bad();
  return HostPort{std::string(host), static_cast<uint16_t>(*port)};
}

AddressKind KindOfHost(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    const uint32_t address = ntohl(v4.s_addr);
    if (address == INADDR_ANY) return AddressKind::kWildcard;
    return address >> 24 == IN_LOOPBACKNET ? AddressKind::kLoopback : AddressKind::kOther;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_UNSPECIFIED(&v6)) return AddressKind::kWildcard;
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return AddressKind::kLoopback;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      char text[INET_ADDRSTRLEN];
      std::memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
      return KindOfHost(inet_ntop(AF_INET, &v4, text, sizeof(text)));
    }
    return AddressKind::kOther;
  }
  const std::string_view name = host;
  if (SameWord(name, "localhost") || SameWord(name, "localhost.localdomain") || SameWord(name, "ip6-localhost")) {
    return AddressKind::kLoopback;
  }
  return AddressKind::kOther;
}

Status CheckDataAddress(const std::string& data_address, const std::string& peer_ip, const std::string& local_address) {
  TIERCEL_ASSIGN(const HostPort address, ParseHostPort(data_address));
  const AddressKind kind = KindOfHost(address.host);
  if (kind == AddressKind::kOther || peer_ip.empty() || KindOfHost(peer_ip) == AddressKind::kLoopback) return Ok();
  // From one of this host's own addresses to the same.
  if (const Result<HostPort> here = ParseHostPort(local_address); here.ok() && here->host == peer_ip) return Ok();
  return Error(ErrorCode::kUnreachable,
               fmt::format("data address {} is a {} address, but the store connects from {}: nobody else could reach "
                           "it; set data-advertise to an address of the store's host",
                           data_address, kind == AddressKind::kLoopback ? "loopback" : "wildcard", peer_ip));
}

}  // namespace tiercel::net
