#include "transfer/session/stream_server.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/clock.h"
#include "base/log.h"

namespace tiercel::transfer {
namespace {

constexpr int64_t kTickMs = 250;
constexpr int64_t kMaxDrainPauseMs = 64;
constexpr int kAcceptsPerTurn = 16;
constexpr int64_t kAcceptPauseMs = 100;  // without descriptors or memory
constexpr size_t kScratchBytes = 64 * 1024;

int64_t MonotonicMs() { return MonotonicNanos() / 1'000'000; }

}  // namespace

SessionLoop::SessionLoop(std::string name, Target* target, const SessionLimits& limits)
    : target_(*target),
      limits_(limits),
      scratch_(kScratchBytes),
      loop_(std::move(name)),
      tick_(loop_.context()),
      drain_(loop_.context()) {}

void SessionLoop::Start() {
  loop_.Start();
  loop_.Post([this] { Tick(); });
}

void SessionLoop::Stop() {
  std::promise<void> cut;
  loop_.Post([&] {
    stopping_ = true;
    tick_.cancel();
    drain_.cancel();
    const auto sessions = std::exchange(sessions_, {});
    for (const auto& session : sessions) session->Cut();
    cut.set_value();
  });
  cut.get_future().wait();
  loop_.Stop();
}

void SessionLoop::Add(UniqueFd socket, bool local, std::string address) {
  loop_.Post([this, socket = std::move(socket), local, address = std::move(address)]() mutable {
    if (stopping_) {
      --counts->connections;
      --counts->unauthenticated;
      return;
    }
    auto session = std::make_shared<Session>(*this, std::move(socket), local, std::move(address));
    sessions_.insert(session);
    session->Start();
  });
}

void SessionLoop::Remove(const std::shared_ptr<Session>& session) { sessions_.erase(session); }

void SessionLoop::Tick() {
  if (stopping_) return;
  const int64_t now = MonotonicMs();
  const std::vector<std::shared_ptr<Session>> sessions(sessions_.begin(), sessions_.end());  // Tick may cut one
  for (const auto& session : sessions) session->Tick(now);
  tick_.expires_after(std::chrono::milliseconds(kTickMs));
  tick_.async_wait([this](const asio::error_code& error) {
    if (!error) Tick();
  });
}

void SessionLoop::WatchDraining() {
  if (draining_ || stopping_) return;
  draining_ = true;
  drain_.expires_after(std::chrono::milliseconds(drain_pause_ms_));
  drain_.async_wait([this](const asio::error_code& error) {
    if (!error) LookAtDraining();
  });
}

void SessionLoop::LookAtDraining() {
  draining_ = false;
  bool left = false;
  const std::vector<std::shared_ptr<Session>> sessions(sessions_.begin(), sessions_.end());
  for (const auto& session : sessions) left = session->LookAtDraining() || left;
  drain_pause_ms_ = left ? std::min(kMaxDrainPauseMs, drain_pause_ms_ * 2) : 1;
  if (left) WatchDraining();
}

StreamServer::StreamServer(Options options, std::vector<UniqueFd> listeners, Target* target)
    : options_(std::move(options)), target_(*target), counts_(std::make_shared<SessionLoop::Counts>()) {
  for (uint32_t i = 0; i < std::max(1U, options_.threads); ++i) {
    loops_.push_back(std::make_unique<SessionLoop>(fmt::format("{}-{}", options_.name, i), target, options_.limits));
    loops_.back()->counts = counts_;
  }
  asio::io_context& first = loops_.front()->loop().context();
  for (UniqueFd& listener : listeners) {
    listeners_.push_back(std::make_unique<Listener>(
        Listener{asio::posix::stream_descriptor(first, listener.Release()), asio::steady_timer(first)}));
  }
  for (const auto& loop : loops_) loop->Start();
  loops_.front()->loop().Post([this] {
    for (const auto& listener : listeners_) WaitConnection(*listener);
  });
}

StreamServer::~StreamServer() { Stop(); }

void StreamServer::Stop() {
  if (std::exchange(stopped_, true)) return;
  // Before the socket closes: a successor may put its own in the place from then on.
  if (options_.on_stop) options_.on_stop();
  std::promise<void> closed;
  loops_.front()->loop().Post([&] {
    for (const auto& listener : listeners_) {
      asio::error_code ignored;
      listener->pause.cancel();
      listener->socket.close(ignored);
    }
    closed.set_value();
  });
  closed.get_future().wait();
  // The first loop gives sockets to the others, so it goes first.
  for (const auto& loop : loops_) loop->Stop();
  listeners_.clear();
}

void StreamServer::WaitConnection(Listener& listener) {
  listener.socket.async_wait(asio::posix::stream_descriptor::wait_read, [this, &listener](const asio::error_code& e) {
    if (!e) Accept(listener);
  });
}

void StreamServer::Accept(Listener& listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(accept4(listener.socket.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      Take(std::move(socket));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    static LogLimiter limiter;
    const int error = errno;
    if (const int64_t skipped = limiter.Admit(MonotonicMs()); skipped >= 0) {
      Log(LogLevel::kWarning, "data port {}: {} ({} more left out)", options_.address,
          SystemError("accept a connection", error).message(), skipped);
    }
    listener.pause.expires_after(std::chrono::milliseconds(kAcceptPauseMs));
    listener.pause.async_wait([this, &listener](const asio::error_code& e) {
      if (!e) WaitConnection(listener);
    });
    return;
  }
  WaitConnection(listener);
}

void StreamServer::Take(UniqueFd socket) {
  if (counts_->connections >= options_.limits.max_connections ||
      counts_->unauthenticated >= options_.limits.max_unauthenticated) {
    target_.CountRefusal(ErrorCode::kRetry);
    return;
  }
  ++counts_->connections;
  ++counts_->unauthenticated;
  std::string peer = options_.peer_text(socket.get());
  loops_[next_loop_++ % loops_.size()]->Add(std::move(socket), options_.local, std::move(peer));
}

}  // namespace tiercel::transfer
