// A small HTTP/1.x server: one thread, one request a connection, heads without bodies.
//
// Written here because the library at hand (libmicrohttpd 0.9.75) closes the connection without an answer on some
// malformed request lines, and waits for more on others; an operator's tool is owed its 400.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "server/admin/http_request.h"
#include "server/admin/listen.h"
#include "tiercel/result.h"

namespace tiercel::admin {

struct HttpAnswer {
  int status = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  static constexpr size_t kMaxConnections = 64;  // further ones wait in the kernel's queue
  static constexpr int64_t kHeadTimeoutMs = 10'000, kSendTimeoutMs = 30'000, kLingerMs = 1'000;

  // What a GET of this path answers; called on the server's thread.
  struct Route {
    std::string path;
    std::function<HttpAnswer()> get;
  };

  HttpServer(std::vector<Listener> listeners, std::vector<Route> routes);
  ~HttpServer();  // no route runs any more when it returns
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  Status Start();

 private:
  struct Connection {
    enum class State { kReading, kSending, kLingering, kDone };
    UniqueFd socket;
    State state = State::kReading;
    int64_t deadline_ms = 0;
    std::string in, out;
    size_t sent = 0;
  };

  void Run();
  int PollOnce(int64_t now_ms);
  void Accept(const Listener& listener, int64_t now_ms);
  void Advance(Connection* connection, int64_t now_ms);
  void Read(Connection* connection, int64_t now_ms);
  void Send(Connection* connection, int64_t now_ms);
  void Linger(Connection* connection);
  void Respond(Connection* connection, const HeadResult& head, int64_t now_ms);
  HttpAnswer Answer(const HttpRequest& request) const;

  const std::vector<Listener> listeners_;
  const std::vector<Route> routes_;
  UniqueFd wake_;                      // an eventfd
  std::list<Connection> connections_;  // of the thread
  int64_t accept_again_ms_ = 0;        // out of descriptors: until then nobody is accepted
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tiercel::admin
