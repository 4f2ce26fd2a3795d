// The sending role of a data connection.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "transfer/stream_rail.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kBatchBytes = 16 * 1024;  // frames that go out with one call

}  // namespace

void StreamRail::FlushIfFree() {
  {
    std::lock_guard lock(mu_);
    if (sending_ || want_write_ || broken_) return;
    sending_ = true;
  }
  SendAll();
}

void StreamRail::SendAll() {
  for (;;) {
    if (out_sent_ == out_.size() && stream_ == nullptr) {
      std::unique_lock lock(mu_);
      if (broken_ || !FillLocked()) {
        if (want_write_ && !broken_) {
          // With the role in hand, so that nobody closes the descriptor or asks for the opposite meanwhile.
          want_write_ = false;
          lock.unlock();
          host_->WantWrite(*this, false);
          continue;  // somebody may have left something in between
        }
        sending_ = false;
        sender_left_.notify_all();
        return;
      }
    }
    const Sent sent = SendSome();
    if (sent == Sent::kAll) continue;
    if (sent == Sent::kFull) {
      bool ask = false;
      {
        std::lock_guard lock(mu_);
        ask = !want_write_;
        want_write_ = true;
      }
      if (ask) host_->WantWrite(*this, true);
    }
    std::lock_guard lock(mu_);
    if (sent == Sent::kBroken && phase_ != Phase::kClosed) {
      if (!broken_) send_error_ = SystemError("send to " + request_.address.name, errno);
      broken_ = true;
      shutdown(fd_.get(), SHUT_RDWR);  // the driver sees it, and closes
    }
    sending_ = false;
    sender_left_.notify_all();
    return;
  }
}

// Encodes what is to go out next; false when there is nothing.
bool StreamRail::FillLocked() {
  out_.clear();
  out_sent_ = 0;
  out_encoded_ = {};
  out_.swap(control_);
  if (phase_ != Phase::kReady) return !out_.empty();
  while (queue_head_ != nullptr && out_.size() < kBatchBytes) {
    Slice* slice = queue_head_;
    queue_head_ = slice->rail_next;
    if (queue_head_ == nullptr) queue_tail_ = nullptr;
    const uint64_t id = NewRequestLocked(slice).id;
    out_encoded_ = EncodeLocked(*slice, id, &out_);
    if (out_encoded_.streams_payload) {
      FindLocked(id)->sending = true;
      stream_ = slice;
      stream_id_ = id;
      stream_sent_ = 0;
    }
    if (stream_ != nullptr || out_encoded_.descriptor >= 0) break;
  }
  return !out_.empty();
}

StreamRail::Sent StreamRail::SendSome() {
  iovec parts[2];
  int count = 0;
  const size_t head = out_.size() - out_sent_;
  if (head > 0) parts[count++] = {out_.data() + out_sent_, head};
  size_t piece = 0;
  if (stream_ != nullptr) {
    piece = static_cast<size_t>(std::min<uint64_t>(stream_->length - stream_sent_, kPieceBytes));
    parts[count++] = {stream_->memory + stream_sent_, piece};
  }
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<size_t>(count);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  if (out_encoded_.descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(c), &out_encoded_.descriptor, sizeof(int));
  }
  ssize_t n = 0;
  do {
    n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Sent::kFull : Sent::kBroken;
  out_encoded_.descriptor = -1;  // went with the first byte
  auto sent = static_cast<size_t>(n);
  const size_t of_head = std::min(sent, head);
  out_sent_ += of_head;
  sent -= of_head;
  if (sent > 0) PayloadSent(sent);
  return Sent::kAll;
}

void StreamRail::PayloadSent(size_t bytes) {
  host_->OnPiece(*stream_, stream_sent_, {stream_->memory + stream_sent_, bytes});
  stream_sent_ += bytes;
  if (stream_sent_ < stream_->length) return;
  Slice* slice = stream_;
  std::optional<Error> refusal;
  bool answered = false;
  {
    std::lock_guard lock(mu_);
    Request* r = FindLocked(stream_id_);
    TIERCEL_CHECK(r != nullptr && r->slice == slice && r->sending);
    r->sending = false;
    answered = r->answered;
    refusal = std::move(r->refusal);
    if (answered) ForgetLocked(*r);
  }
  stream_ = nullptr;
  if (!answered) return;
  host_->OnSliceDone(*slice, refusal ? SliceEnd::kRefused : SliceEnd::kOk, refusal ? &*refusal : nullptr);
}

}  // namespace tiercel::transfer
