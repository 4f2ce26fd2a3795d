#include "transfer/shm/server.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/fd.h"
#include "transfer/session/stream_server.h"

namespace tiercel::transfer::shm {
namespace {

constexpr int kBacklog = 256;

Result<sockaddr_un> SocketPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error(ErrorCode::kInvalid, fmt::format("the path of a data socket has {} bytes, at most {}: {}", path.size(),
                                                  sizeof(address.sun_path) - 1, path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<UniqueFd> NewSocket(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return SystemError("create a socket for " + path, errno);
  return socket;
}

// Removes what a dead process left; kNameInUse when it is not dead, or not a socket.
Status RemoveLeftover(const std::string& path, const sockaddr_un& address) {
  struct stat status{};
  if (lstat(path.c_str(), &status) != 0) return errno == ENOENT ? Ok() : Status(SystemError("look at " + path, errno));
  if (!S_ISSOCK(status.st_mode)) return Error(ErrorCode::kNameInUse, path + " is there and is not a socket");
  TIERCEL_ASSIGN(UniqueFd probe, NewSocket(path));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno != ECONNREFUSED) {
    return Error(ErrorCode::kNameInUse, "another process listens on " + path);
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return SystemError("remove " + path, errno);
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Server>> MakeServer(const ServerOptions& options, Target* target) {
  const std::string path = options.path;
  TIERCEL_ASSIGN(const sockaddr_un address, SocketPath(path));
  TIERCEL_TRY(RemoveLeftover(path, address));
  TIERCEL_ASSIGN(UniqueFd listener, NewSocket(path));
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return SystemError("bind " + path, errno);
  }
  // Before anybody can connect: nobody is accepted until listen.
  if (chmod(path.c_str(), static_cast<mode_t>(options.permissions)) != 0 || listen(listener.get(), kBacklog) != 0) {
    const int error = errno;
    unlink(path.c_str());
    return SystemError("listen on " + path, error);
  }
  StreamServer::Options server;
  server.name = "data-socket";
  server.address = path;
  server.local = true;
  server.threads = options.threads;
  server.limits = options.limits;
  server.peer_text = [path](int) { return "unix:" + path; };
  server.on_stop = [path] { unlink(path.c_str()); };
  std::vector<UniqueFd> listeners;
  listeners.push_back(std::move(listener));
  return std::unique_ptr<Server>(new StreamServer(std::move(server), std::move(listeners), target));
}

}  // namespace tiercel::transfer::shm
