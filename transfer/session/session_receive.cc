// Bytes of a data connection become frames and payload in place.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "transfer/session/session.h"
#include "transfer/session/stream_server.h"
#include "transfer/transport.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kTurnBytes = 512 * 1024;  // of one connection, before others have their turn
constexpr size_t kMaxDescriptors = 4;

}  // namespace

bool Session::MayTakeRequests() const {
  return !cut_ && !closing_ && !copying_ && replies_.size() < kMaxReplies && draining_.size() < kMaxDraining;
}

void Session::WaitReadable() {
  if (waiting_read_ || cut_) return;
  waiting_read_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& e) {
    self->waiting_read_ = false;
    if (!e && !self->cut_) self->OnReadable();
  });
}

void Session::OnReadable() {
  size_t budget = kTurnBytes;
  in_turn_ = true;
  while (budget > 0 && !cut_) {
    if (incoming_) {
      if (!ReceivePayload(&budget)) break;
    } else {
      if (!MayTakeRequests()) break;  // Resume goes on
      if (!ReceiveFrames(&budget)) break;
    }
  }
  in_turn_ = false;
  if (!cut_ && !replies_.empty() && !waiting_write_ && !send_scheduled_) SendMore();
  if (!cut_ && (incoming_ || MayTakeRequests())) WaitReadable();
}

// A bound that stopped the reading is no longer reached: first what is in the buffer, then the socket.
void Session::Resume() {
  if (waiting_read_ || incoming_ || !MayTakeRequests()) return;
  ParseFrames();
  if (!cut_ && (incoming_ || MayTakeRequests())) WaitReadable();
}

bool Session::ReceivePayload(size_t* budget) {
  const std::span<std::byte> scratch = loop_.scratch();
  const uint64_t left = incoming_->total - incoming_->done;
  const bool drop = incoming_->use == nullptr;
  std::byte* to = drop ? scratch.data() : incoming_->use->access->memory.data() + incoming_->done;
  const auto want = static_cast<size_t>(std::min<uint64_t>(left, drop ? scratch.size() : kPieceBytes));
  ssize_t n = 0;
  do {
    n = recv(socket_.native_handle(), to, want, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n <= 0) {
    Cut();
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  Progress();
  incoming_->done += got;
  if (incoming_->done == incoming_->total) IncomingDone();
  return got == want;
}

bool Session::ReceiveFrames(size_t* budget) {
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
  if (in_begin_ > 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  iovec part{in_.data() + in_end_, in_.size() - in_end_};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  if (local_) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
  }
  ssize_t n = 0;
  do {
    n = recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n <= 0) {
    Cut();
    return false;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      descriptors_.emplace_back(descriptor);
    }
  }
  if (descriptors_.size() > kMaxDescriptors || (message.msg_flags & MSG_CTRUNC) != 0) {
    Refuse(Error(ErrorCode::kProtocol, "more descriptors than frames"));
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  Progress();
  in_end_ += got;
  ParseFrames();
  return got == part.iov_len;
}

void Session::ParseFrames() {
  while (!cut_) {
    if (incoming_) {
      const auto here =
          static_cast<size_t>(std::min<uint64_t>(in_end_ - in_begin_, incoming_->total - incoming_->done));
      if (here == 0) return;
      if (incoming_->use != nullptr) {
        std::memcpy(incoming_->use->access->memory.data() + incoming_->done, in_.data() + in_begin_, here);
      }
      in_begin_ += here;
      incoming_->done += here;
      if (incoming_->done < incoming_->total) return;  // the rest goes straight into place
      IncomingDone();
      continue;
    }
    if (!MayTakeRequests() || !ParseFrame()) return;
  }
}

bool Session::ParseFrame() {
  const size_t here = in_end_ - in_begin_;
  const std::byte* at = in_.data() + in_begin_;
  if (here < kHeaderBytes) {
    // A stranger may say less than a header and wait; the first bytes tell already.
    const size_t told = std::min(here, sizeof(kFrameMagic));
    if (told > 0 && std::memcmp(at, &kFrameMagic, told) != 0) {
      Refuse(Error(ErrorCode::kProtocol, "not a frame of the data protocol"), /*answer=*/false);
    }
    return false;
  }
  Result<FrameHeader> header = DecodeHeader({at, kHeaderBytes});
  if (!header.ok()) {
    const bool ours = std::memcmp(at, &kFrameMagic, sizeof(kFrameMagic)) == 0;
    Refuse(header.error(), ours);
    return false;
  }
  if (here < kHeaderBytes + header->body_bytes) return false;
  const std::span<const std::byte> body(at + kHeaderBytes, header->body_bytes);
  if (!BodyIsIntact(*header, body)) {
    Refuse(Error(ErrorCode::kProtocol, "a frame's body is damaged"));
    return false;
  }
  in_begin_ += kHeaderBytes + body.size();
  OnFrame(*header, body);
  return true;
}

}  // namespace tiercel::transfer
