#include "server/net/server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/listener.h"
#include "server/net/server_shared.h"
#include "server/net/worker.h"

namespace tiercel::net {
namespace {

constexpr std::string_view kProtectedLine =
    "-DENIED this server runs in protected mode because no password is set: only connections from this host are "
    "accepted. Set a password (requirepass, or user default on >...), or protected-mode no, or connect locally.\r\n";

std::string MakeRunId() {
  return FormatHex64(RandomId()) + FormatHex64(RandomId()) + FormatHex64(RandomId()).substr(8);
}

void Refuse(const UniqueFd& socket, std::string_view text) {
  // The socket's buffer is empty: this does not block, and nothing more can be done if it fails.
  static_cast<void>(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerOptions& options, const Ports& ports, std::unique_ptr<Users> users, MasterHost* host) {
    shared_.options = options;
    if (shared_.options.run_id.empty()) shared_.options.run_id = MakeRunId();
    shared_.ports = ports;
    shared_.users = std::move(users);
    shared_.host = host;
    shared_.clock = host != nullptr ? &host->clock() : &SystemClock::Get();
    shared_.started = shared_.clock->Now();
    shared_.limits.Set(options.limits);
  }
  ~ServerImpl() override { Stop(); }

  Status Open() {
    const ServerOptions& options = shared_.options;
    if (options.listen_tcp) {
      TIERCEL_ASSIGN(bound_, BindTcp({options.binds, options.port, options.backlog, options.tcp_keepalive_s}));
      shared_.port = bound_.front().port;
    }
    if (!options.unix_socket.empty()) {
      TIERCEL_ASSIGN(BoundSocket bound, BindUnix(options.unix_socket, options.unix_permissions, options.backlog));
      bound_.push_back(std::move(bound));
    }
    for (const BoundSocket& bound : bound_) shared_.addresses.push_back(bound.address);
    for (uint32_t i = 0; i < std::max(1u, options.io_threads); ++i) {
      workers_.push_back(std::make_unique<Worker>(&shared_, static_cast<int>(i)));
      TIERCEL_TRY(workers_.back()->Open());
      shared_.workers.push_back(workers_.back().get());
    }
    return Ok();
  }

  void Start() override {
    TIERCEL_CHECK(!started_, "a server starts once");
    started_ = true;
    if (shared_.host != nullptr) {
      for (const auto& worker : workers_) shared_.host->AddTarget(worker.get());
    }
    for (const auto& worker : workers_) worker->Start();
    Loop& loop = workers_.front()->loop();
    if (shared_.host != nullptr) shared_.host->StartTicking(&loop);
    for (BoundSocket& bound : bound_) {
      listeners_.push_back(std::make_unique<Listener>(
          loop, std::move(bound), [this](UniqueFd fd, Listener::Peer peer) { Accept(std::move(fd), std::move(peer)); },
          [this] { Paused(); }));
    }
    bound_.clear();
    loop.Post([this] {
      for (const auto& listener : listeners_) listener->Start();
    });
  }

  void Drain(int64_t timeout_ms) override {
    if (!started_ || stopped_) return;
    shared_.draining.store(true, std::memory_order_relaxed);
    workers_.front()->loop().Post([this] {
      for (const auto& listener : listeners_) listener->Stop();
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    // First puts that clients have begun, then replies and values under way.
    WaitUntil(end, [this] {
      return shared_.host == nullptr ||
             shared_.host->With([](core::Master& master, Times) { return master.awaited_puts() == 0; });
    });
    for (const auto& worker : workers_) worker->BeginDrain();
    WaitUntil(end, [this] {
      if (shared_.clients.load(std::memory_order_relaxed) == 0) return true;
      for (const auto& worker : workers_) worker->BeginDrain();
      return false;
    });
  }

  void Stop() override {
    if (stopped_) return;
    stopped_ = true;
    if (shared_.host != nullptr) shared_.host->StopTicking();
    for (const auto& worker : workers_) worker->Stop();
    for (const auto& listener : listeners_) listener->Stop();
    if (shared_.host != nullptr) {
      for (const auto& worker : workers_) shared_.host->RemoveTarget(worker.get());
    }
    if (!shared_.options.unix_socket.empty()) ::unlink(shared_.options.unix_socket.c_str());
    listeners_.clear();
  }

  uint16_t port() const override { return shared_.port; }
  std::vector<std::string> addresses() const override { return shared_.addresses; }

  void AdoptConnection(UniqueFd socket, const AdoptOptions& options) override {
    SessionState state;
    state.id = shared_.next_id.fetch_add(1, std::memory_order_relaxed);
    state.user = options.user;
    state.user_id = UserId(options.user);
    state.authenticated = true;
    state.store_right = options.store_right;
    state.in_process = options.in_process;
    state.name = options.name;
    state.peer_address = state.local_address = "in-process:0";
    NextWorker()->Adopt(std::move(socket), std::move(state), false);
  }

  Limits limits() const override { return shared_.limits.Get(); }
  void SetLimits(const Limits& limits) override { shared_.limits.Set(limits); }
  Users& users() override { return *shared_.users; }
  ServerFigures Figures() const override { return shared_.Figures(); }
  void ResetStats() override { shared_.ResetStats(); }
  void SetLoading(bool loading) override { shared_.loading.store(loading, std::memory_order_relaxed); }

 private:
  template <typename Done>
  void WaitUntil(std::chrono::steady_clock::time_point end, const Done& done) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    while (!done() && std::chrono::steady_clock::now() < end) never.wait_for(lock, std::chrono::milliseconds(10));
  }

  Worker* NextWorker() {
    return workers_[next_worker_.fetch_add(1, std::memory_order_relaxed) % workers_.size()].get();
  }

  // In the first loop. Connections are dealt out in turn: a few with large values must not share one loop.
  void Accept(UniqueFd socket, Listener::Peer peer) {
    WorkerStats& stats = workers_.front()->stats();
    if (shared_.options.protected_mode && !peer.local && !shared_.users->default_has_password()) {
      stats.connections_rejected.Add();
      Refuse(socket, kProtectedLine);
      return;
    }
    const uint32_t most = shared_.limits.max_clients.load(std::memory_order_relaxed);
    if (shared_.clients.fetch_add(1, std::memory_order_relaxed) >= most) {
      shared_.clients.fetch_sub(1, std::memory_order_relaxed);
      stats.connections_rejected.Add();
      Refuse(socket, fmt::format("-{}\r\n", resp::kMaxClientsLine));
      return;
    }
    SessionState state;
    state.id = shared_.next_id.fetch_add(1, std::memory_order_relaxed);
    state.peer_address = std::move(peer.address);
    state.local_address = std::move(peer.local_address);
    state.peer_ip = std::move(peer.ip);
    if (const auto identity = shared_.users->Default()) {
      state.authenticated = true;
      state.store_right = identity->store_right;
    }
    state.user_id = UserId(state.user);
    NextWorker()->Adopt(std::move(socket), std::move(state), true);
  }

  void Paused() {
    workers_.front()->stats().accept_pauses.Add();
    const int64_t skipped = pause_log_.Admit(shared_.clock->Now().boot_ms);
    if (skipped < 0) return;
    Log(LogLevel::kWarning, "out of file descriptors: connections are refused ({} more like this); raise ulimit -n",
        skipped);
  }

  ServerShared shared_;
  std::vector<BoundSocket> bound_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<size_t> next_worker_{0};
  LogLimiter pause_log_;
  bool started_ = false, stopped_ = false;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(const ServerOptions& options, const Ports& ports,
                                               std::unique_ptr<Users> users, MasterHost* host) {
  TIERCEL_CHECK(users != nullptr);
  TIERCEL_CHECK(host == nullptr || ports.payload != nullptr, "a master reaches payload through its port");
  auto server = std::make_unique<ServerImpl>(options, ports, std::move(users), host);
  TIERCEL_TRY(server->Open());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tiercel::net
