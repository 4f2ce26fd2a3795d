#include "server/net/dial_back.h"

#include <fmt/format.h>

#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "base/units.h"

namespace tiercel::net {

bool SplitHostPort(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size() || colon == 0) return false;
  *port = address.substr(colon + 1);
  *host = address.substr(0, colon);
  if (host->front() == '[') {
    if (host->back() != ']' || host->size() < 3) return false;
    *host = host->substr(1, host->size() - 2);
  } else if (host->find(':') != std::string::npos) {
    return false;  // an IPv6 address needs brackets in front of a port
  }
  const auto number = ParseUint64(*port);
  return number && *number > 0 && *number < 65536;
}

struct DialBack::Attempt : std::enable_shared_from_this<DialBack::Attempt> {
  explicit Attempt(asio::io_context& context) : resolver(context), socket(context), timer(context) {}

  void End(Status status) {
    if (!callback) return;
    const auto call = std::exchange(callback, nullptr);
    asio::error_code ignored;
    timer.cancel();
    resolver.cancel();
    socket.close(ignored);
    call(std::move(status));
  }
  void Failed(const std::string& why) {
    End(Error(ErrorCode::kUnreachable, fmt::format("{} could not be reached: {}", tried, why)));
  }

  asio::ip::tcp::resolver resolver;
  asio::ip::tcp::socket socket;
  asio::steady_timer timer;
  std::string tried;
  std::function<void(Status)> callback;  // empty once called or cancelled
};

DialBack::DialBack(std::shared_ptr<Attempt> attempt) : attempt_(std::move(attempt)) {}

DialBack::~DialBack() {
  attempt_->callback = nullptr;
  asio::error_code ignored;
  attempt_->timer.cancel();
  attempt_->resolver.cancel();
  attempt_->socket.close(ignored);
}

std::unique_ptr<DialBack> DialBack::Start(Loop& loop, const std::string& address, int64_t timeout_ms,
                                          std::function<void(Status)> callback) {
  auto attempt = std::make_shared<Attempt>(loop.context());
  attempt->callback = std::move(callback);
  attempt->tried = address;
  std::string host, port;
  if (!SplitHostPort(address, &host, &port)) {
    loop.Post([attempt] { attempt->Failed("it is not HOST:PORT"); });
    return std::unique_ptr<DialBack>(new DialBack(attempt));
  }
  attempt->timer.expires_after(std::chrono::milliseconds(timeout_ms));
  attempt->timer.async_wait([attempt, timeout_ms](const asio::error_code& error) {
    if (!error) attempt->Failed(fmt::format("no answer within {} ms", timeout_ms));
  });
  attempt->resolver.async_resolve(
      host, port, [attempt](const asio::error_code& error, const asio::ip::tcp::resolver::results_type& results) {
        if (!attempt->callback) return;
        if (error) {
          attempt->Failed(error.message());
          return;
        }
        asio::async_connect(
            attempt->socket, results,
            [attempt](const asio::error_code&, const asio::ip::tcp::endpoint& next) {
              attempt->tried = next.address().is_v6() ? fmt::format("[{}]:{}", next.address().to_string(), next.port())
                                                      : fmt::format("{}:{}", next.address().to_string(), next.port());
              return true;
            },
            [attempt](const asio::error_code& failed, const asio::ip::tcp::endpoint&) {
              if (!attempt->callback) return;
              if (failed) {
                attempt->Failed(failed.message());
              } else {
                attempt->End(Ok());
              }
            });
      });
  return std::unique_ptr<DialBack>(new DialBack(attempt));
}

}  // namespace tiercel::net
