#include "client/client_impl.h"

#include "client/messages.h"

namespace tiercel::client {

ClientImpl::ClientImpl(const ClientOptions& options, Ingredients ingredients)
    : parts_(options, std::move(ingredients.host_id), std::move(ingredients.connection),
             ingredients.clock != nullptr ? ingredients.clock : &SystemClock::Get()),
      make_engine_(std::move(ingredients.make_engine)) {
  if (ingredients.step_bytes > 0) parts_.step_bytes = ingredients.step_bytes;
  // Another process may answer now: what was learnt of the former one is asked for again when needed.
  parts_.control.OnNewConnection([this] {
    if (parts_.directory != nullptr) parts_.directory->Forget();
  });
}

ClientImpl::~ClientImpl() { Close(); }

Status ClientImpl::Reconnect() {
  std::lock_guard lock(connecting_);
  if (state_ == State::kClosed) return Error(ErrorCode::kShutdown, "the client is closed");
  if (parts_.engine == nullptr) {
    auto tickets = [this] { return parts_.control.FetchTicket(Deadline::After(parts_.options.connect_timeout_ms)); };
    TIERCEL_ASSIGN(std::shared_ptr<transfer::Engine> engine, make_engine_(tickets));
    parts_.SetEngine(std::move(engine));
  }
  auto stores = parts_.directory->Ask(Deadline::After(parts_.options.connect_timeout_ms));
  if (!stores.ok()) {
    const bool other_server = stores.error().code() == ErrorCode::kUnknownCommand;
    if (!other_server) return std::move(stores).error();
    return Error(ErrorCode::kPeerProtocol, "what answers is no Tiercel master: " + stores.error().message());
  }
  State idle = State::kIdle;
  state_.compare_exchange_strong(idle, State::kOpen);
  return Ok();
}

void ClientImpl::Close() {
  if (state_.exchange(State::kClosed) == State::kClosed) return;
  parts_.stop.Stop();
  parts_.control.Close();
  std::lock_guard lock(connecting_);
  if (parts_.mover != nullptr) parts_.mover->Close();
  workers_.Stop();
}

Status ClientImpl::Usable() const {
  switch (state_.load(std::memory_order_acquire)) {
    case State::kOpen: return Ok();
    case State::kIdle: return Error(ErrorCode::kUnreachable, "not connected: call Reconnect first");
    case State::kClosed: break;
  }
  return Error(ErrorCode::kShutdown, "the client is closed");
}

bool ClientImpl::Healthy() { return PingMicros().ok(); }

Result<int64_t> ClientImpl::PingMicros() {
  TIERCEL_TRY(Usable());
  const int64_t start_ns = MonotonicNanos();
  const std::string_view words[] = {"PING"};
  const Deadline deadline = Deadline::After(parts_.options.connect_timeout_ms);
  TIERCEL_ASSIGN(resp::Reply reply, parts_.control.Call(words, deadline, Control::Again::kYes));
  TIERCEL_TRY(ParseOk(reply));
  return (MonotonicNanos() - start_ns) / 1000;
}

}  // namespace tiercel::client
