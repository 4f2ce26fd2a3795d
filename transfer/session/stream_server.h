// StreamServer: accepts connections on listening sockets and spreads them over loops of its own.
#pragma once

#include <asio/steady_timer.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "base/loop/loop.h"
#include "transfer/session/limits.h"
#include "transfer/session/session.h"
#include "transfer/target.h"

namespace tiercel::transfer {

// One loop and its sessions.
class SessionLoop {
 public:
  SessionLoop(std::string name, Target* target, const SessionLimits& limits);
  void Start();
  void Stop();  // cuts all sessions, then joins

  void Add(UniqueFd socket, bool local, std::string address);  // any thread
  Loop& loop() { return loop_; }
  Target& target() { return target_; }
  const SessionLimits& limits() const { return limits_; }
  std::span<std::byte> scratch() { return scratch_; }

  // In the loop.
  void Remove(const std::shared_ptr<Session>& session);
  void WatchDraining();  // a session holds uses that wait for its socket's queue

  // Shared by the server's loops.
  struct Counts {
    std::atomic<uint32_t> connections{0};
    std::atomic<uint32_t> unauthenticated{0};
  };
  std::shared_ptr<Counts> counts;

 private:
  void Tick();
  void LookAtDraining();

  Target& target_;
  const SessionLimits limits_;
  std::vector<std::byte> scratch_;  // payload that is dropped
  Loop loop_;
  asio::steady_timer tick_;
  asio::steady_timer drain_;
  bool draining_ = false;
  int64_t drain_pause_ms_ = 1;
  bool stopping_ = false;
  std::unordered_set<std::shared_ptr<Session>> sessions_;
};

class StreamServer final : public Server {
 public:
  struct Options {
    std::string name;     // of the threads: "data"
    std::string address;  // as address() says it
    bool local = false;
    uint32_t threads = 1;
    SessionLimits limits;
    std::function<std::string(int socket)> peer_text;
    std::function<void()> on_stop;  // takes the address away
  };
  StreamServer(Options options, std::vector<UniqueFd> listeners, Target* target);
  ~StreamServer() override;
  std::string address() const override { return options_.address; }
  void Stop() override;

 private:
  struct Listener {
    asio::posix::stream_descriptor socket;
    asio::steady_timer pause;
  };
  void WaitConnection(Listener& listener);
  void Accept(Listener& listener);
  void Take(UniqueFd socket);

  const Options options_;
  Target& target_;
  std::shared_ptr<SessionLoop::Counts> counts_;
  std::vector<std::unique_ptr<SessionLoop>> loops_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // of the first loop
  size_t next_loop_ = 0;
  bool stopped_ = false;
};

}  // namespace tiercel::transfer
