#include "client/control.h"

#include <optional>

#include "base/backoff.h"
#include "base/random.h"
#include "client/messages.h"
#include "protocol/resp/version.h"

namespace tiercel::client {
namespace {

constexpr Backoff::Options kPauses{.first_ms = 20, .cap_ms = 500, .jitter = 0.2};

bool Loading(const resp::Reply& reply) { return reply.is_error() && reply.text.starts_with("LOADING"); }
bool Loading(const std::vector<resp::Reply>& replies) {
  for (const resp::Reply& reply : replies) {
    if (Loading(reply)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::vector<std::string>> Greeting(uint32_t name_space, const std::string& host_id) {
  std::vector<std::vector<std::string>> greeting;
  if (name_space != 0) greeting.push_back({"SELECT", std::to_string(name_space)});
  greeting.push_back({"TICKET", "HOST", host_id, "PROTO", resp::ControlVersionText(resp::kControlVersion)});
  return greeting;
}

Control::Control(std::unique_ptr<resp::Connection> connection, std::string host_id, StopSignal* stop)
    : connection_(std::move(connection)), host_id_(std::move(host_id)), stop_(stop) {}

void Control::NoticeEpoch() {
  const uint64_t now = connection_->epoch();
  const uint64_t before = epoch_.exchange(now, std::memory_order_acq_rel);
  if (before != now && before != 0 && on_new_connection_) on_new_connection_();
}

// Bounded by the deadline: every repeat is behind a pause, and the last pause ends before it.
template <typename T, typename Send>
Result<T> Control::WithRepeats(const Deadline& deadline, Again again, Send&& send) {
  std::optional<Backoff> pauses;
  for (;;) {
    if (stop_->stopped()) return Error(ErrorCode::kShutdown, "the client is closed");
    Result<T> answer = send(std::max<int64_t>(deadline.left_ms(), 1));
    if (stop_->stopped()) return Error(ErrorCode::kShutdown, "the client is closed");
    if (answer.ok()) {
      NoticeEpoch();
      if (!Loading(*answer)) return answer;
    } else if (again == Again::kNo || answer.error().code() != ErrorCode::kUnreachable) {
      return answer;
    }
    if (!pauses) pauses.emplace(kPauses, RandomId());
    const int64_t pause_ms = pauses->NextMs();
    if (pause_ms >= deadline.left_ms() || !stop_->Sleep(pause_ms)) return answer;
  }
}

Result<resp::Reply> Control::Call(std::span<const std::string_view> words, const Deadline& deadline, Again again) {
  return WithRepeats<resp::Reply>(deadline, again,
                                  [&](int64_t timeout_ms) { return connection_->Call(words, timeout_ms); });
}

Result<std::vector<resp::Reply>> Control::Pipeline(std::span<const Command> commands, const Deadline& deadline,
                                                   Again again) {
  return WithRepeats<std::vector<resp::Reply>>(
      deadline, again, [&](int64_t timeout_ms) { return connection_->Pipeline(commands, timeout_ms); });
}

void Control::Tell(std::span<const std::string_view> words, const Deadline& deadline) {
  (void)connection_->Call(words, std::max<int64_t>(deadline.AtMost(kAsideMs).left_ms(), 1));
}

Result<Ticket> Control::FetchTicket(const Deadline& deadline) {
  const std::string_view words[] = {"TICKET", "HOST", host_id_};
  TIERCEL_ASSIGN(resp::Reply reply, Call(words, deadline, Again::kYes));
  if (reply.is_error()) return reply.ToError();
  auto ticket = ParseTicketText(reply.text);
  if (!ticket) return UnexpectedReply("TICKET", reply);
  return *ticket;
}

}  // namespace tiercel::client
