// Where this process runs, as the master and the stores name it: BOOTID/HOST. Two processes with the same boot id
// share a kernel and may share memory.
#pragma once

#include <string>
#include <string_view>

namespace tiercel::client {

// `location`: the configured host name; empty: the machine's own.
std::string HostId(const std::string& location);

// True when a store that announced `store_host` and a data socket at `socket` can be reached by shared memory
// from here: the same boot id when the store tells one, else the same host name; and a socket at that path.
bool OnThisHost(const std::string& own_host_id, const std::string& store_host, const std::string& socket);

}  // namespace tiercel::client
