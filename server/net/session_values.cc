// Large values of a session, in and out.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "server/net/dispatch.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

// Received at once and hashed while in cache.
constexpr size_t kPiece = 256 * 1024;
// Large arguments that are no values (of unusual commands) are kept up to so many bytes a command.
constexpr uint64_t kMaxBufferedArguments = uint64_t{8} << 20;

LogLimiter corrupt_log;

}  // namespace

// ---- out

Outcome Session::Send(core::Master& master, const core::KeyRef& key, const core::ObjectInfo& info, uint64_t from,
                      uint64_t length, Times now, bool more) {
  TIERCEL_CHECK(!sender_, "one value at a time");
  ReadPin pin(shared_->host, info.version);
  if (Muted()) {
    pin.EndLocked(master, now);
    return more ? Outcome::kMore : Outcome::kDone;
  }
  sender_ = std::make_unique<ValueSender>(worker_, state_.id, master, key, info, std::move(pin), from, length, now);
  sender_header_sent_ = false;
  sender_more_ = more;
  return more ? Outcome::kStreamMore : Outcome::kStream;
}

void Session::CancelSend(core::Master& master, Times now) {
  if (!sender_) return;
  sender_->Abandon(master, now);
  sender_.reset();
}

Session::Step Session::AdvanceSender() {
  if (out_.waiting()) return Step::kWait;  // the reply rests on records that are not durable yet
  switch (sender_->Advance()) {
    case ValueSender::State::kWaiting: return Step::kWait;
    case ValueSender::State::kReady: {
      if (!sender_header_sent_) {
        sender_header_sent_ = true;
        resp::Encoder(&out_.bytes(), state_.protocol).BulkHeader(sender_->length());
      }
      return writable_ ? SendPieces() : Step::kWait;
    }
    case ValueSender::State::kFailed: {
      const Error error = sender_->error();
      if (sender_header_sent_) {
        // The client was promised a length; only closing tells it that the rest will not come.
        worker_->stats().closed_corrupt.Add();
        if (const int64_t skipped = corrupt_log.Admit(worker_->Now().boot_ms); skipped >= 0) {
          Log(LogLevel::kWarning, "connection {} closed in the middle of a value: {} ({} more like this)", state_.id,
              error.message(), skipped);
        }
        CloseNow();
        return Step::kClosed;
      }
      const size_t start = out_.size();
      resp::Encoder(&out_.bytes(), state_.protocol).Error(error);
      CountReply(nullptr, start);
      break;
    }
    case ValueSender::State::kDone: worker_->stats().values_sent.Add(); break;
  }
  sender_.reset();  // ends the pin
  if (sender_more_ && held_) held_->ready = true;
  return Step::kAgain;
}

// ---- in

// The decoder stands behind the header of a large argument.
void Session::BeginBulk() {
  const std::vector<std::string_view>& args = decoder_.arguments();
  const size_t index = decoder_.bulk_index();
  const uint64_t size = decoder_.bulk_bytes();
  const resp::CommandSpec* spec = args.empty() || index == 0 ? nullptr : resp::FindCommand(args[0]);
  const ValueArgument value = spec == nullptr ? ValueArgument{} : ValueArgumentOf(spec->id, index);
  if (shared_->host != nullptr && value.is_value && value.key < index) {
    receiver_ = std::make_unique<IncomingValue>(worker_, state_.id, index, state_.name_space, args[value.key], size);
    receiver_is_upload_ = receiver_timed_out_ = false;
    receiver_since_ms_ = 0;
    if (shared_->draining.load(std::memory_order_relaxed)) {
      receiver_->Fail(Error(ErrorCode::kShutdown, "the server is ending and takes no more values"));
    }
    return;
  }
  Buffered buffered;
  buffered.argument = index;
  buffered.size = size;
  uint64_t kept = size;
  for (const Buffered& earlier : buffered_) kept += earlier.bytes.size();
  buffered.dropped = kept > std::min<uint64_t>(shared_->limits.query_buffer_limit.load(std::memory_order_relaxed),
                                               kMaxBufferedArguments);
  if (!buffered.dropped) buffered.bytes.reserve(size);
  buffering_ = std::move(buffered);
}

Session::Step Session::AdvanceReceiver() {
  using State = IncomingValue::State;
  switch (receiver_->state()) {
    case State::kReserving: {
      const Times now = worker_->Now();
      MasterHost::Hold hold(shared_->host);
      const auto reason = receiver_->Reserve(hold.master(), {state_.user_id, state_.id}, now,
                                             std::exchange(receiver_timed_out_, false));
      if (!reason) return Step::kAgain;
      const int64_t patience =
          receiver_->patience_ms(hold.master().options(), shared_->limits.put_wait_ms.load(std::memory_order_relaxed));
      if (receiver_since_ms_ == 0) receiver_since_ms_ = now.boot_ms;
      Park(*reason, receiver_since_ms_ + patience);
      return Step::kWait;
    }
    case State::kReceiving:
    case State::kDropping: {
      TakeFromInput();
      if (receiver_->state() != State::kReceiving && receiver_->state() != State::kDropping) return Step::kAgain;
      if (receiver_->remaining() == 0) return Step::kAgain;
      if (receiver_is_upload_) return Step::kWait;  // room comes with the end of a transfer
      if (receiver_->state() == State::kDropping) {
        const std::span<char> room = worker_->shared_input();
        return ReceiveInto(
            std::as_writable_bytes(room.first(std::min<uint64_t>({room.size(), receiver_->remaining(), kPiece}))));
      }
      const std::span<std::byte> room = receiver_->Room();
      if (room.empty()) return receiver_->state() == State::kReceiving ? Step::kWait : Step::kAgain;
      return ReceiveInto(room.first(std::min(room.size(), kPiece)));
    }
    case State::kFlushing: return Step::kWait;
    case State::kSealed: break;
  }
  worker_->stats().values_received.Add();
  incoming_.push_back(std::move(receiver_));
  if (receiver_is_upload_) {
    held_->ready = true;
  } else {
    line_end_pending_ = true;
    starved_ = in_.size() < 2;
  }
  return Step::kAgain;
}

// What of the value came with earlier bytes, or stands in the arguments of a held command.
void Session::TakeFromInput() {
  using State = IncomingValue::State;
  while (receiver_->remaining() > 0) {
    const std::string_view held =
        receiver_is_upload_ ? held_->args[receiver_->argument()].substr(upload_offset_) : std::string_view();
    const std::span<const char> from = receiver_is_upload_ ? std::span<const char>(held) : in_.data();
    size_t n = std::min<uint64_t>(from.size(), receiver_->remaining());
    if (n == 0) return;
    if (receiver_->state() == State::kReceiving) {
      const std::span<std::byte> room = receiver_->Room();
      if (room.empty() && receiver_->state() == State::kReceiving) return;
      n = std::min(n, room.size());
      if (n > 0) std::memcpy(room.data(), from.data(), n);
    }
    if (n == 0) continue;  // it began to drop
    receiver_->Received(n);
    if (receiver_is_upload_) {
      upload_offset_ += n;
    } else {
      in_.Consume(n);
      worker_->stats().value_bytes_received.Add(n);
    }
    if (receiver_->state() != State::kReceiving && receiver_->state() != State::kDropping) return;
  }
}

// Receives straight into the value's place; when its end is near, what follows comes along into the input buffer.
Session::Step Session::ReceiveInto(std::span<std::byte> room) {
  if (eof_) {
    CloseNow();  // half a value is no command
    return Step::kClosed;
  }
  if (!readable_) return Step::kWait;
  const bool dropping = receiver_->state() == IncomingValue::State::kDropping;
  const bool last = !dropping && room.size() == receiver_->remaining();
  const std::span<char> behind = last ? in_.Room() : std::span<char>();
  std::array<iovec, 2> iov{{{room.data(), room.size()}, {behind.data(), behind.size()}}};
  msghdr message{};
  message.msg_iov = iov.data();
  message.msg_iovlen = last && !behind.empty() ? 2 : 1;
  ssize_t n;
  do {
    n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    const auto received = static_cast<size_t>(n);
    const size_t of_value = std::min(received, room.size());
    readable_ = received == room.size() + (message.msg_iovlen == 2 ? behind.size() : 0) || hung_up_;
    last_read_ms_ = worker_->Now().boot_ms;
    turn_bytes_ += received;
    worker_->stats().reads.Add();
    worker_->stats().bytes_in.Add(received);
    worker_->stats().value_bytes_received.Add(of_value);
    if (received > of_value) in_.Received(received - of_value);
    receiver_->Received(of_value);
    return Step::kAgain;
  }
  if (n == 0) {
    eof_ = true;
    CloseNow();
    return Step::kClosed;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    readable_ = false;
    return Step::kWait;
  }
  CloseNow();
  return Step::kClosed;
}

Session::Step Session::AdvanceBuffering() {
  Buffered& argument = *buffering_;
  const size_t n = std::min<uint64_t>(in_.size(), argument.size);
  if (!argument.dropped) argument.bytes.append(in_.data().data(), n);
  in_.Consume(n);
  argument.size -= n;
  if (argument.size > 0) {
    if (!eof_) return Receive();
    CloseNow();
    return Step::kClosed;
  }
  buffered_.push_back(std::move(argument));
  buffering_.reset();
  line_end_pending_ = true;
  starved_ = in_.size() < 2;
  return Step::kAgain;
}

// CRLF behind a large argument; then the decoder goes on with the command.
void Session::EndReceiver() {
  if (in_.size() < 2) {
    starved_ = true;
    return;
  }
  const std::span<const char> end = in_.data();
  if (end[0] != '\r' || end[1] != '\n') {
    ProtocolError("ERR Protocol error: expected CRLF behind a bulk string");
    return;
  }
  in_.Consume(2);
  line_end_pending_ = false;
  decoder_.BulkTaken();
}

IncomingValue* Session::Incoming(size_t argument) {
  for (const auto& value : incoming_) {
    if (value->argument() == argument) return value.get();
  }
  return nullptr;
}

Outcome Session::ParkForUpload(const core::KeyRef& key, size_t argument, uint64_t size) {
  receiver_ = std::make_unique<IncomingValue>(worker_, state_.id, argument, key.name_space, key.key, size);
  receiver_is_upload_ = true;
  receiver_timed_out_ = false;
  receiver_since_ms_ = 0;
  upload_offset_ = 0;
  return Outcome::kPark;
}

// The command is over: what it did not publish is given back.
void Session::SettleIncoming() {
  buffered_.clear();
  if (incoming_.empty()) return;
  bool open = false;
  for (const auto& value : incoming_) open = open || value->put();
  if (open) {
    MasterHost::Hold hold(shared_->host);
    for (const auto& value : incoming_) {
      value->Revoke(shared_->host, hold.master(), {state_.user_id, state_.id}, worker_->Now());
    }
  }
  incoming_.clear();
}

}  // namespace tiercel::net
