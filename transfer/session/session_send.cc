// Answers of a data connection.
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transfer/session/session.h"
#include "transfer/session/stream_server.h"
#include "transfer/transport.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kMaxHeads = 16;  // answers without payload that go out with one call
constexpr size_t kMaxSpare = 64;

}  // namespace

Session::ReplyPtr Session::NewReply(uint64_t id) {
  ReplyPtr reply;
  if (spare_replies_.empty()) {
    reply = std::make_unique<Reply>();
  } else {
    reply = std::move(spare_replies_.back());
    spare_replies_.pop_back();
  }
  reply->id = id;
  return reply;
}

void Session::Send(ReplyPtr reply) {
  replies_.push_back(std::move(reply));
  ScheduleSend();
}

void Session::SendBare(FrameType type, uint64_t id) {
  ReplyPtr reply = NewReply(id);
  AppendBare(type, id, 0, &reply->head);
  Send(std::move(reply));
}

void Session::SendError(uint64_t id, const Error& error) {
  ReplyPtr reply = NewReply(id);
  AppendError(id, error, &reply->head);
  Send(std::move(reply));
}

void Session::Refuse(const Error& error, bool answer) {
  if (closing_ || cut_) return;
  loop_.target().CountRefusal(error.code());
  if (error.code() == ErrorCode::kPeerProtocol) {
    static LogLimiter limiter;
    if (const int64_t skipped = limiter.Admit(MonotonicNanos() / 1'000'000); skipped >= 0) {
      Log(LogLevel::kWarning, "data port: {} is refused: {} ({} more like this)", address_, error.message(), skipped);
    }
  }
  if (!answer) return Cut();
  closing_ = true;
  ReplyPtr reply = NewReply(0);
  AppendError(0, error, &reply->head);
  reply->last = true;
  Send(std::move(reply));
}

// Sends when the frames that have arrived are handled, so that answers to pipelined requests leave together.
void Session::ScheduleSend() {
  if (in_turn_ || send_scheduled_ || waiting_write_ || cut_) return;
  send_scheduled_ = true;
  loop_.loop().Post([self = shared_from_this()] {
    self->send_scheduled_ = false;
    if (!self->cut_) self->SendMore();
  });
}

void Session::SendMore() {
  TIERCEL_CHECK(InLoop());
  size_t budget = kPieceBytes;
  while (!cut_ && !replies_.empty()) {
    if (budget == 0) return ScheduleSend();
    Reply& front = *replies_.front();
    const Step step = front.head_sent < front.head.size() ? SendHeads() : SendPayload(&budget);
    if (step == Step::kCut) return Cut();
    if (step == Step::kFull) {
      waiting_write_ = true;
      socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this()](const asio::error_code& e) {
                           self->waiting_write_ = false;
                           if (!e && !self->cut_) self->SendMore();
                         });
      break;
    }
  }
  if (!cut_) Resume();
}

Session::Step Session::SendHeads() {
  std::array<iovec, kMaxHeads> parts;
  size_t count = 0;
  bool more = false;
  int descriptor = -1;
  for (const ReplyPtr& reply : replies_) {
    if (count == kMaxHeads) break;
    if (reply->descriptor && reply->head_sent == 0) {
      if (count > 0) break;  // goes with the first byte of its own call
      descriptor = reply->descriptor.get();
    }
    parts[count++] = {reply->head.data() + reply->head_sent, reply->head.size() - reply->head_sent};
    more = reply->payload > 0;
    if (more || reply->last || descriptor >= 0) break;
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &descriptor, sizeof(int));
  }
  const ssize_t n =
      sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | (more && !local_ ? MSG_MORE : 0));
  if (n < 0) {
    if (errno == EINTR) return Step::kProgress;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Step::kFull : Step::kCut;
  }
  Progress();
  sent_bytes_ += static_cast<uint64_t>(n);
  for (auto left = static_cast<size_t>(n); left > 0;) {
    Reply& front = *replies_.front();
    const size_t part = std::min(left, front.head.size() - front.head_sent);
    front.head_sent += part;
    left -= part;
    front.descriptor.Reset();
    if (front.head_sent < front.head.size() || front.payload > 0) break;
    if (front.last) return Step::kCut;
    FinishReply();
  }
  return Step::kProgress;
}

Session::Step Session::SendPayload(size_t* budget) {
  Reply& reply = *replies_.front();
  const Access& access = *reply.use->access;
  const auto want = static_cast<size_t>(std::min<uint64_t>(reply.payload - reply.sent, *budget));
  ssize_t n = 0;
  if (access.file >= 0 && !local_) {
    auto offset = static_cast<off_t>(access.file_offset + reply.sent);
    n = sendfile(socket_.native_handle(), access.file, &offset, want);
    if (n == 0) return Step::kCut;  // the file is shorter than it was admitted
  } else {
    n = send(socket_.native_handle(), access.memory.data() + reply.sent, want, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  if (n < 0) {
    if (errno == EINTR) return Step::kProgress;
    return errno == EAGAIN || errno == EWOULDBLOCK ? Step::kFull : Step::kCut;
  }
  Progress();
  reply.sent += static_cast<uint64_t>(n);
  sent_bytes_ += static_cast<uint64_t>(n);
  *budget -= static_cast<size_t>(n);
  if (reply.sent == reply.payload) FinishReply();
  return Step::kProgress;
}

void Session::FinishReply() {
  ReplyPtr reply = std::move(replies_.front());
  replies_.pop_front();
  if (reply->use != nullptr) {
    if (!local_ && reply->use->access->file >= 0) {
      draining_.push_back({.end = sent_bytes_, .use = std::move(reply->use)});
      loop_.WatchDraining();
    } else {
      FreeUse(std::move(reply->use));
    }
  }
  if (spare_replies_.size() >= kMaxSpare) return;
  reply->head.clear();
  reply->head_sent = 0;
  reply->payload = 0;
  reply->sent = 0;
  spare_replies_.push_back(std::move(reply));
}

}  // namespace tiercel::transfer
