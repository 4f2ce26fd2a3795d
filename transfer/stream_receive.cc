// The receiving end of a data connection; all on the driver.
#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "transfer/stream_rail.h"

namespace tiercel::transfer {
namespace {

constexpr size_t kScratchBytes = 16 * 1024;  // of dropped payload at a time
constexpr size_t kTurnBytes = 1 << 20;       // of one connection, before others have their turn

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
  SendAll();
}

void StreamRail::Receive() {
  size_t budget = kTurnBytes;
  while (budget > 0 && !failure_) {
    if (!(receiving_ ? ReceivePayload(&budget) : ReceiveFrames(&budget))) return;
  }
}

bool StreamRail::ReceivePayload(size_t* budget) {
  const uint64_t left = receiving_total_ - receiving_done_;
  std::byte dropped[kScratchBytes];
  const bool drop = receiving_slice_ == nullptr;
  const std::span<std::byte> to(drop ? dropped : receiving_slice_->memory + receiving_done_,
                                static_cast<size_t>(std::min<uint64_t>(left, drop ? kScratchBytes : kPieceBytes)));
  const ssize_t n = ReceiveInto(fd_.get(), to);
  if (NothingThere(n)) return false;
  if (n <= 0) {
    Fail(n == 0 ? Error(ErrorCode::kUnreachable, request_.address.name + " closed the connection within a payload")
                : SystemError("receive from " + request_.address.name, errno));
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  heard_.fetch_add(got, std::memory_order_relaxed);
  PayloadArrived(got);
  return got == to.size();
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
  size_t bytes = 0;
  const FrameInput::Got got = in_.Receive(fd_.get(), &bytes);
  switch (got) {
    case FrameInput::Got::kNothing: return false;
    case FrameInput::Got::kClosed:
      Fail(Error(ErrorCode::kUnreachable, request_.address.name + " closed the connection"));
      return false;
    case FrameInput::Got::kBroken: Fail(SystemError("receive from " + request_.address.name, errno)); return false;
    case FrameInput::Got::kTooManyDescriptors: Fail(PeerError("more descriptors than frames")); return false;
    case FrameInput::Got::kFull:
    case FrameInput::Got::kSome: break;
  }
  *budget -= std::min(*budget, bytes);
  heard_.fetch_add(bytes, std::memory_order_relaxed);
  ParseFrames();
  return got == FrameInput::Got::kFull;
}

void StreamRail::ParseFrames() {
  while (!failure_) {
    if (receiving_) {
      const size_t here = in_.Take(receiving_slice_ != nullptr ? receiving_slice_->memory : nullptr, receiving_total_);
      if (here == 0) return;
      PayloadArrived(here);
      if (receiving_) return;  // the rest goes straight into place
    }
    FrameHeader header;
    std::span<const std::byte> body;
    std::optional<Error> error;
    switch (in_.NextFrame(&header, &body, &error)) {
      case FrameInput::Next::kFrame: OnFrame(header, body); break;
      case FrameInput::Next::kIncomplete: return;
      case FrameInput::Next::kBad: return Fail(PeerError(error->message()));
    }
  }
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
  if (header.type == FrameType::kAttachOk) descriptor = in_.TakeDescriptor();
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
    if (r == nullptr || r->copying || (r->slice != nullptr && (r->slice->kind != OpKind::kWrite || r->slice->view))) {
      Fail(PeerError("an answer that fits no request"));
      return;
    }
  }
  Answered(header.id, std::nullopt);
}

// A request has its answer: ends its slice, or notes the answer while its sender is not done with it yet (a refusal
// comes early; and the sender may still be telling the observer of the last piece).
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
