#include "server/admin/admin.h"

#include "server/admin/http_server.h"
#include "server/admin/listen.h"

namespace tiercel::admin {
namespace {

HttpAnswer AnswerReadiness(const Readiness& readiness) {
  if (readiness.ready) return {.body = "ready\n"};
  return {.status = 503, .body = readiness.reason + "\n"};
}

std::vector<HttpServer::Route> Routes(const AdminHandlers& handlers) {
  return {
      {"/healthz", [] { return HttpAnswer{.body = "ok\n"}; }},
      {"/readyz", [=] { return AnswerReadiness(handlers.readiness()); }},
      {"/metrics",
       [=] {
         return HttpAnswer{.type = "text/plain; version=0.0.4; charset=utf-8", .body = MetricsText(handlers.metrics())};
       }},
      {"/",
       [=] {
         return HttpAnswer{.type = "text/html; charset=utf-8",
                           .body = StatusPage(handlers.readiness(), handlers.status())};
       }},
  };
}

class Server final : public AdminServer {
 public:
  Server(std::vector<Listener> listeners, const AdminHandlers& handlers)
      : port_(listeners.front().port),
        addresses_(AddressesOf(listeners)),
        http_(std::move(listeners), Routes(handlers)) {}

  Status Start() { return http_.Start(); }
  uint16_t port() const override { return port_; }
  std::vector<std::string> addresses() const override { return addresses_; }

 private:
  static std::vector<std::string> AddressesOf(const std::vector<Listener>& listeners) {
    std::vector<std::string> addresses;
    for (const Listener& listener : listeners) addresses.push_back(listener.address);
    return addresses;
  }

  const uint16_t port_;
  const std::vector<std::string> addresses_;
  HttpServer http_;
};

}  // namespace

Result<std::unique_ptr<AdminServer>> StartAdmin(const AdminOptions& options, const AdminHandlers& handlers) {
  TIERCEL_ASSIGN(std::vector<Listener> listeners, Listen(options.binds, options.port));
  auto server = std::make_unique<Server>(std::move(listeners), handlers);
  TIERCEL_TRY(server->Start());
  return std::unique_ptr<AdminServer>(std::move(server));
}

}  // namespace tiercel::admin
