// Listening TCP sockets for a list of addresses, all on one port.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "tiercel/result.h"

namespace tiercel::admin {

struct Listener {
  UniqueFd socket;
  std::string address;  // as it can be pasted back
  uint16_t port = 0;
};

// `binds`: addresses or names (the first address of each), "*" for all, "-" in front of one that may be missing. Port
// 0: the system picks one for the first, the others take the same. At least one listener, or an error. Sockets do not
// block.
Result<std::vector<Listener>> Listen(const std::vector<std::string>& binds, uint16_t port);

}  // namespace tiercel::admin
