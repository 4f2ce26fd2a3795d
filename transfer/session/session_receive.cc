// Bytes of a data connection become frames and payload in place.
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
  const uint64_t left = incoming_->total - incoming_->done;
  const std::span<std::byte> scratch = loop_.scratch();
  const bool drop = incoming_->use == nullptr;
  const std::span<std::byte> to(drop ? scratch.data() : incoming_->use->access->memory.data() + incoming_->done,
                                static_cast<size_t>(std::min<uint64_t>(left, drop ? scratch.size() : kPieceBytes)));
  const ssize_t n = ReceiveInto(socket_.native_handle(), to);
  if (NothingThere(n)) return false;
  if (n <= 0) {
    Cut();
    return false;
  }
  const auto got = static_cast<size_t>(n);
  *budget -= std::min(*budget, got);
  Progress();
  incoming_->done += got;
  if (incoming_->done == incoming_->total) IncomingDone();
  return got == to.size();
}

bool Session::ReceiveFrames(size_t* budget) {
  size_t bytes = 0;
  const FrameInput::Got got = in_.Receive(socket_.native_handle(), &bytes);
  switch (got) {
    case FrameInput::Got::kNothing: return false;
    case FrameInput::Got::kClosed:
    case FrameInput::Got::kBroken: Cut(); return false;
    case FrameInput::Got::kTooManyDescriptors:
      Refuse(Error(ErrorCode::kProtocol, "more descriptors than frames"));
      return false;
    case FrameInput::Got::kFull:
    case FrameInput::Got::kSome: break;
  }
  *budget -= std::min(*budget, bytes);
  Progress();
  ParseFrames();
  return got == FrameInput::Got::kFull;
}

void Session::ParseFrames() {
  while (!cut_) {
    if (incoming_) {
      std::byte* to = incoming_->use != nullptr ? incoming_->use->access->memory.data() + incoming_->done : nullptr;
      const size_t here = in_.Take(to, incoming_->total - incoming_->done);
      if (here == 0) return;
      incoming_->done += here;
      if (incoming_->done < incoming_->total) return;  // the rest goes straight into place
      IncomingDone();
      continue;
    }
    if (!MayTakeRequests() || !ParseFrame()) return;
  }
}

bool Session::ParseFrame() {
  FrameHeader header;
  std::span<const std::byte> body;
  std::optional<Error> error;
  const FrameInput::Next next = in_.NextFrame(&header, &body, &error);
  if (next == FrameInput::Next::kFrame) {
    OnFrame(header, body);
    return true;
  }
  // A stranger may say less than a header and wait; the first bytes tell already.
  const size_t told = std::min(in_.waiting().size(), sizeof(kFrameMagic));
  const bool ours = told == 0 || std::memcmp(in_.waiting().data(), &kFrameMagic, told) == 0;
  if (next == FrameInput::Next::kBad) {
    Refuse(*error, ours || peer_.has_value());  // who has greeted is one of ours, whatever became of this
  } else if (!ours) {
    Refuse(Error(ErrorCode::kProtocol, "not a frame of the data protocol"), /*answer=*/false);
  }
  return false;
}

}  // namespace tiercel::transfer
