#include "transfer/tcp/tcp_transport.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>

#include "transfer/stream_rail.h"
#include "transfer/tcp/address.h"
#include "transfer/tcp/resolver.h"

namespace tiercel::transfer::tcp {
namespace {

class TcpTransport final : public Transport {
 public:
  TransportKind kind() const override { return TransportKind::kTcp; }
  bool Reaches(const PeerAddress& address) const override { return !address.data_address.empty(); }

  Result<std::shared_ptr<Rail>> Open(const OpenRequest& request, RailHost* host) override {
    const std::string& where = request.address.data_address;
    TIERCEL_ASSIGN(const HostPort to, ParseHostPort(where));
    TIERCEL_ASSIGN(const std::vector<SocketAddress> addresses, resolver_.Find(to.host, to.port));
    Error last(ErrorCode::kUnreachable, "connect to " + where);
    // Refusals that come at once (no route, wrong family) move on to the next address; others are seen later.
    for (const SocketAddress& address : addresses) {
      UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!socket) {
        last = SystemError("create a socket for " + where, errno);
        continue;
      }
      TuneDataSocket(socket.get());
      if (connect(socket.get(), address.get(), address.length) != 0 && errno != EINPROGRESS) {
        last = SystemError("connect to " + where, errno);
        continue;
      }
      return std::shared_ptr<Rail>(std::make_shared<StreamRail>(std::move(socket), request, where, host));
    }
    return last;
  }

 private:
  Resolver resolver_{{}};
};

}  // namespace

std::unique_ptr<Transport> MakeTransport() { return std::make_unique<TcpTransport>(); }

}  // namespace tiercel::transfer::tcp
