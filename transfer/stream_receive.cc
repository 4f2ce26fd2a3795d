// The receiving end of a data connection; all on the driver.
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "transfer/stream_rail.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kTurnBytes = 1 << 20;  // of one connection, before others have their turn
constexpr size_t kMaxDescriptors = 4;   // that wait for their frame

}  // namespace

void StreamRail::FinishConnecting() {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) {
    Fail(SystemError(fmt::format("connect to {} ({})", request_.address.name, where_), error));
    return;
  }
  {
    std::lock_guard lock(mu_);
    phase_ = Phase::kGreeting;
    AppendHello(kProtocolMinor, {.ticket = request_.ticket, .expected = request_.address.incarnation}, &control_);
    sending_ = true;
  }
  host_->OnRailGreeting(*this);
  Flush();
}

void StreamRail::Receive() {
  size_t budget = kTurnBytes;
  while (budget > 0 && !failure_) {
    if (!(receiving_ ? ReceivePayload(&budget) : ReceiveFrames(&budget))) return;
  }
}

bool StreamRail::ReceivePayload(size_t* budget) {
  const uint64_t left = receiving_total_ - receiving_done_;
  // Dropped payload goes through the input buffer, which is empty while payload is received.
  std::byte* to = receiving_slice_ != nullptr ? receiving_slice_->memory + receiving_done_ : in_.data();
  const size_t want =
      static_cast<size_t>(std::min<uint64_t>(left, receiving_slice_ != nullptr ? kPieceBytes : in_.size()));
  ssize_t n = 0;
  do {
    n = recv(fd_.get(), to, want, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (n <= 0) {
    Fail(n == 0 ? Error(ErrorCode::kUnreachable, request_.address.name + " closed the connection within a payload")
                : SystemError("receive from " + request_.address.name, errno));
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  heard_.fetch_add(got, std::memory_order_relaxed);
  PayloadArrived(got);
  return got == want;
}

void StreamRail::PayloadArrived(size_t bytes) {
  if (receiving_slice_ != nullptr) {
    host_->OnPiece(*receiving_slice_, receiving_done_, {receiving_slice_->memory + receiving_done_, bytes});
  }
  receiving_done_ += bytes;
  if (receiving_done_ < receiving_total_) return;
  receiving_ = false;
  receiving_slice_ = nullptr;
  Answered(receiving_id_, std::nullopt);
}

bool StreamRail::ReceiveFrames(size_t* budget) {
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
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = 0;
  do {
    n = recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  for (cmsghdr* c = n > 0 ? CMSG_FIRSTHDR(&message) : nullptr; c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      descriptors_.emplace_back(descriptor);
    }
  }
  if (n <= 0) {
    Fail(n == 0 ? Error(ErrorCode::kUnreachable, request_.address.name + " closed the connection")
                : SystemError("receive from " + request_.address.name, errno));
    return false;
  }
  if (descriptors_.size() > kMaxDescriptors || (message.msg_flags & MSG_CTRUNC) != 0) {
    Fail(PeerError("more descriptors than frames"));
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  heard_.fetch_add(got, std::memory_order_relaxed);
  in_end_ += got;
  ParseFrames();
  return got == part.iov_len;
}

void StreamRail::ParseFrames() {
  while (!failure_) {
    if (receiving_) {
      const auto here = static_cast<size_t>(std::min<uint64_t>(in_end_ - in_begin_, receiving_total_));
      if (here == 0) return;
      if (receiving_slice_ != nullptr) std::memcpy(receiving_slice_->memory, in_.data() + in_begin_, here);
      in_begin_ += here;
      PayloadArrived(here);
      if (receiving_) return;  // the rest goes straight into place
    }
    if (!ParseFrame()) return;
  }
}

// One frame; false when it is not all here, or bad.
bool StreamRail::ParseFrame() {
  if (in_end_ - in_begin_ < kHeaderBytes) return false;
  const std::byte* at = in_.data() + in_begin_;
  Result<FrameHeader> header = DecodeHeader({at, kHeaderBytes});
  if (!header.ok()) {
    Fail(PeerError(header.error().message()));
    return false;
  }
  if (in_end_ - in_begin_ < kHeaderBytes + header->body_bytes) return false;
  const std::span<const std::byte> body(at + kHeaderBytes, header->body_bytes);
  if (!BodyIsIntact(*header, body)) {
    Fail(PeerError("a frame's body is damaged"));
    return false;
  }
  in_begin_ += kHeaderBytes + body.size();
  OnFrame(*header, body);
  return true;
}

void StreamRail::OnFrame(const FrameHeader& header, std::span<const std::byte> body) {
  if (header.type == FrameType::kError) return OnErrorFrame(header, body);
  if (phase_ == Phase::kGreeting) return OnHelloOk(header, body);
  switch (header.type) {
    case FrameType::kReadOk: return OnReadOk(header);
    case FrameType::kWriteOk: return OnWriteOk(header);
    default: break;
  }
  UniqueFd descriptor;
  if (header.type == FrameType::kAttachOk && !descriptors_.empty()) {
    descriptor = std::move(descriptors_.front());
    descriptors_.erase(descriptors_.begin());
  }
  if (!OnOtherFrame(header, body, &descriptor)) {
    Fail(PeerError(fmt::format("unexpected frame type {}", static_cast<int>(header.type))));
  }
}

void StreamRail::OnHelloOk(const FrameHeader& header, std::span<const std::byte> body) {
  if (header.type != FrameType::kHelloOk) return Fail(PeerError("no answer to the greeting"));
  Result<HelloOk> hello = DecodeHelloOk(body);
  if (!hello.ok()) return Fail(PeerError(hello.error().message()));
  const Incarnation expected = request_.address.incarnation;
  if (expected && hello->incarnation != expected) {
    return Fail(Error(ErrorCode::kStaleIncarnation,
                      fmt::format("{} ({}) is incarnation {:016x} now, not {:016x}", request_.address.name, where_,
                                  hello->incarnation.value, expected.value)));
  }
  RailInfo info{.incarnation = hello->incarnation, .grant_time_ms = hello->grant_time_ms, .odd_version = {}};
  if (header.minor != kProtocolMinor) {
    info.odd_version =
        PeerError(fmt::format("claims data protocol {}, this side speaks {}, and it does not answer",
                              VersionText(header.major, header.minor), VersionText(kProtocolMajor, kProtocolMinor)));
  }
  {
    std::lock_guard lock(mu_);
    phase_ = Phase::kReady;
  }
  OnUp();
  host_->OnRailUp(*this, info);
}

void StreamRail::OnErrorFrame(const FrameHeader& header, std::span<const std::byte> body) {
  bool well_formed = false;
  Error error = DecodeError(body, &well_formed);
  if (!well_formed) return Fail(PeerError(error.message()));
  if (header.id != 0) return Answered(header.id, std::move(error));
  // About the connection. What is our fault in the peer's eyes is a damaged or misunderstood protocol in ours.
  const bool protocol = error.code() == ErrorCode::kProtocol || error.code() == ErrorCode::kTooBig ||
                        error.code() == ErrorCode::kPeerProtocol || error.code() == ErrorCode::kInternal;
  Fail(Error(protocol ? ErrorCode::kPeerProtocol : error.code(),
             fmt::format("{} ({}): {}", request_.address.name, where_, error.message())));
}

void StreamRail::OnReadOk(const FrameHeader& header) {
  Slice* slice = nullptr;
  {
    std::lock_guard lock(mu_);
    const Request* r = FindLocked(header.id);
    if (r == nullptr || r->copying ||
        (r->slice != nullptr &&
         (r->slice->kind != OpKind::kRead || r->slice->view || r->slice->length != header.payload_bytes))) {
      Fail(PeerError("an answer that fits no request"));
      return;
    }
    slice = r->slice;
  }
  if (header.payload_bytes == 0) return Fail(PeerError("an empty payload"));
  receiving_ = true;
  receiving_id_ = header.id;
  receiving_slice_ = slice;
  receiving_done_ = 0;
  receiving_total_ = header.payload_bytes;
}

void StreamRail::OnWriteOk(const FrameHeader& header) {
  {
    std::lock_guard lock(mu_);
    const Request* r = FindLocked(header.id);
    if (r == nullptr || r->sending || r->copying ||
        (r->slice != nullptr && (r->slice->kind != OpKind::kWrite || r->slice->view))) {
      Fail(PeerError("an answer that fits no request"));
      return;
    }
  }
  Answered(header.id, std::nullopt);
}

// A request has its answer: ends its slice, or notes a refusal that came while the payload is still going out.
void StreamRail::Answered(uint64_t id, const std::optional<Error>& refusal) {
  Slice* slice = nullptr;
  bool own = false;
  {
    std::lock_guard lock(mu_);
    Request* r = FindLocked(id);
    if (r == nullptr || r->copying || r->answered) return Fail(PeerError("an answer that fits no request"));
    if (r->sending) {
      r->answered = true;
      r->refusal = refusal;
      return;
    }
    slice = r->slice;
    own = slice == nullptr && !r->abandoned;
    if (!refusal || slice == nullptr) ForgetLocked(*r);
  }
  if (own && refusal) OnOwnRefused(id, *refusal);
  if (slice == nullptr) return;
  if (!refusal) return host_->OnSliceDone(*slice, SliceEnd::kOk, nullptr);
  if (OnRefused(id, *slice, *refusal)) return;
  {
    std::lock_guard lock(mu_);
    ForgetLocked(*FindLocked(id));
  }
  host_->OnSliceDone(*slice, SliceEnd::kRefused, &*refusal);
}

}  // namespace tiercel::transfer
