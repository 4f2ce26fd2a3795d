#include "transfer/session/session.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/clock.h"
#include "transfer/session/stream_server.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kMaxSpare = 64;  // pooled objects of one session

int64_t MonotonicMs() { return MonotonicNanos() / 1'000'000; }

}  // namespace

Session::Session(SessionLoop& loop, UniqueFd socket, bool local, std::string address)
    : loop_(loop),
      socket_(loop.loop().context(), socket.Release()),
      local_(local),
      address_(std::move(address)),
      started_ms_(MonotonicMs()),
      progress_ms_(started_ms_) {}

Session::~Session() { TIERCEL_CHECK(cut_, "a session is cut before it is freed"); }

bool Session::InLoop() const { return loop_.loop().InLoop(); }

void Session::Start() {
  TIERCEL_CHECK(InLoop());
  WaitReadable();
}

void Session::Progress() { progress_ms_ = MonotonicMs(); }

void Session::Cut() {
  TIERCEL_CHECK(InLoop());
  if (std::exchange(cut_, true)) return;
  const auto self = shared_from_this();
  // What the socket's queue still refers to must not be sent any more: the pages get another use.
  if (!draining_.empty() || (!replies_.empty() && replies_.front()->sent > 0)) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  asio::error_code ignored;
  socket_.close(ignored);
  incoming_.reset();
  copying_.reset();
  replies_.clear();
  draining_.clear();
  held_.clear();
  maps_.clear();
  in_.DropDescriptors();
  spare_uses_.clear();
  --loop_.counts->connections;
  if (!peer_) --loop_.counts->unauthenticated;
  loop_.Remove(self);
}

void Session::Tick(int64_t now_ms) {
  if (cut_) return;
  const SessionLimits& limits = loop_.limits();
  if (!peer_) {
    if (now_ms - started_ms_ < limits.hello_timeout_ms) return;
    loop_.target().CountRefusal(ErrorCode::kUnauthenticated);
    return Cut();
  }
  const bool due = incoming_.has_value() || !replies_.empty() || !in_.waiting().empty();
  if (due) {
    if (now_ms - progress_ms_ < limits.stall_timeout_ms) return;
    loop_.target().CountRefusal(ErrorCode::kDeadline);
    return Cut();
  }
  const bool idle = held_.empty() && maps_.empty() && draining_.empty() && !copying_;
  if (idle && now_ms - progress_ms_ >= limits.idle_timeout_ms) Cut();
}

bool Session::LookAtDraining() {
  ReleaseDrained();
  Resume();
  return !cut_ && !draining_.empty();
}

void Session::ReleaseDrained() {
  if (cut_ || draining_.empty()) return;
  int queued = 0;
  if (ioctl(socket_.native_handle(), SIOCOUTQ, &queued) != 0) queued = 0;  // no socket, no queue
  const uint64_t taken = sent_bytes_ - static_cast<uint64_t>(queued);
  while (!draining_.empty() && draining_.front().end <= taken) {
    FreeUse(std::move(draining_.front().use));
    draining_.pop_front();
  }
}

Result<Session::UsePtr> Session::Admit(AccessRequest::Kind kind, const DataRequest& request) {
  UsePtr use;
  if (spare_uses_.empty()) {
    use = std::make_unique<Use>();
    use->session = this;
  } else {
    use = std::move(spare_uses_.back());
    spare_uses_.pop_back();
  }
  use->serial = next_serial_++;
  const AccessRequest access{.kind = kind,
                             .place = request.place,
                             .offset = request.offset,
                             .length = request.length,
                             .grant = &request.grant};
  // The target calls this only while the Access lives, so the use and its session are there.
  auto revoke = [u = use.get()] {
    auto session = u->session->weak_from_this().lock();
    if (session == nullptr) return;
    SessionLoop& loop = session->loop_;
    loop.loop().Post([session = std::move(session), serial = u->serial] { session->Revoked(serial); });
  };
  auto admitted = loop_.target().Admit(access, *peer_, std::move(revoke));
  if (!admitted.ok()) {
    FreeUse(std::move(use));
    return std::move(admitted).error();
  }
  use->access = std::move(admitted).value();
  TIERCEL_CHECK(kind == AccessRequest::Kind::kView || use->access->memory.size() == request.length);
  return use;
}

void Session::FreeUse(UsePtr use) {
  use->access.reset();
  use->serial = 0;
  if (spare_uses_.size() < kMaxSpare) spare_uses_.push_back(std::move(use));
}

// The use must end early. A write's remaining payload is dropped, and a read that has not begun is refused: the
// connection goes on for others. What the peer has been promised or already sees ends with the connection.
void Session::Revoked(uint64_t serial) {
  TIERCEL_CHECK(InLoop());
  if (cut_) return;
  const Error error(ErrorCode::kStalePut, "the store has ended this use of the range");
  if (incoming_ && incoming_->use != nullptr && incoming_->use->serial == serial) {
    FreeUse(std::move(incoming_->use));
    return SendError(incoming_->id, error);
  }
  if (copying_ && copying_->use->serial == serial) {
    const uint64_t id = copying_->id;
    FreeUse(std::move(copying_->use));
    copying_.reset();
    SendError(id, error);
    return Resume();
  }
  for (const ReplyPtr& reply : replies_) {
    if (reply->use == nullptr || reply->use->serial != serial) continue;
    if (reply->head_sent > 0) return Cut();
    FreeUse(std::move(reply->use));
    reply->payload = 0;
    reply->head.clear();
    AppendError(reply->id, error, &reply->head);
    return;
  }
  for (const Draining& d : draining_) {
    if (d.use->serial == serial) return Cut();
  }
  for (const auto& [id, use] : held_) {
    if (use->serial == serial) return Cut();
  }
}

}  // namespace tiercel::transfer
