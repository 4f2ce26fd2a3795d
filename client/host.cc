#include "client/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace tiercel::client {
namespace {

// The parts of BOOTID/HOST; without a slash all of it is the host.
std::string_view BootIdOf(std::string_view host_id) {
  const size_t slash = host_id.find('/');
  return slash == std::string_view::npos ? std::string_view() : host_id.substr(0, slash);
}

std::string_view NameOf(std::string_view host_id) {
  const size_t slash = host_id.find('/');
  return slash == std::string_view::npos ? host_id : host_id.substr(slash + 1);
}

std::string OwnBootId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? "unknown" : id;
}

}  // namespace

std::string HostId(const std::string& location) {
  std::string host = location;
  if (host.empty()) {
    char name[256] = {};
    host = gethostname(name, sizeof(name) - 1) == 0 && name[0] != '\0' ? name : "localhost";
  }
  return OwnBootId() + "/" + host;
}

bool OnThisHost(const std::string& own_host_id, const std::string& store_host, const std::string& socket) {
  if (socket.empty()) return false;
  const bool same = BootIdOf(store_host).empty() ? NameOf(store_host) == NameOf(own_host_id)
                                                 : BootIdOf(store_host) == BootIdOf(own_host_id);
  if (!same) return false;
  struct stat facts{};
  return stat(socket.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

}  // namespace tiercel::client
