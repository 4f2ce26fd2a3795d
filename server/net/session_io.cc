// Bytes in and out of a session: one receive and one send a turn where that is enough.
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

// One sendmsg carries at most so many pieces of a value.
constexpr size_t kMaxPieces = 64;
// A query buffer of its own up to this size needs no share of the server-wide budget.
constexpr uint64_t kFreeQueryBytes = uint64_t{1} << 20;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Session::Step Session::Receive() {
  if (eof_) {
    // Everything that was read is answered; half a command never will be.
    BeginClosing();
    return Step::kAgain;
  }
  if (!readable_) return Step::kWait;
  if (!GrowQuery()) {
    ProtocolError("ERR Protocol error: query buffer limit exceeded");
    return Step::kAgain;
  }
  const std::span<char> room = in_.Room();
  const size_t wanted = std::min(room.size(), Worker::kInputBytes);
  ssize_t n;
  do {
    n = ::recv(socket_.get(), room.data(), wanted, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n > 0) {
    in_.Received(static_cast<size_t>(n));
    // Less than asked for: the socket is empty, unless its end is behind what was read.
    readable_ = static_cast<size_t>(n) == wanted || hung_up_;
    starved_ = false;
    worker_->stats().reads.Add();
    worker_->stats().bytes_in.Add(static_cast<uint64_t>(n));
    return Step::kAgain;
  }
  if (n == 0) {
    eof_ = true;
    readable_ = false;
    BeginClosing();
    return Step::kAgain;
  }
  if (WouldBlock(errno)) {
    readable_ = false;
    return Step::kWait;
  }
  CloseNow();  // reset by the peer: nobody is left to tell
  return Step::kClosed;
}

// Room for the next bytes, within the limit of one command and the server's budget. False: the limit is reached.
bool Session::GrowQuery() {
  in_.MakeRoom();
  if (in_.size() > shared_->limits.query_buffer_limit.load(std::memory_order_relaxed)) return false;
  const uint64_t own = in_.own_bytes();
  if (own <= kFreeQueryBytes || own <= query_reserved_) return true;
  const uint64_t more = own - query_reserved_;
  const uint64_t before = shared_->query_buffer_bytes.fetch_add(more, std::memory_order_relaxed);
  query_reserved_ += more;
  return before + more <= shared_->limits.query_buffers_total.load(std::memory_order_relaxed);
}

void Session::ReleaseQuery() {
  if (query_reserved_ == 0 || in_.own_bytes() > kFreeQueryBytes) return;
  shared_->query_buffer_bytes.fetch_sub(std::exchange(query_reserved_, 0), std::memory_order_relaxed);
}

void Session::Progressed(size_t sent) {
  worker_->stats().writes.Add();
  worker_->stats().bytes_out.Add(sent);
  wrote_ = true;
}

// Sends what may leave. False: the connection is gone.
bool Session::Flush() {
  if (closed_) return false;
  while (writable_) {
    const std::string_view bytes = out_.Sendable();
    if (bytes.empty()) return true;
    // A value follows at once: let it share the first packet.
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), flags);
    if (n >= 0) {
      out_.Sent(static_cast<size_t>(n));
      Progressed(static_cast<size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (WouldBlock(errno)) {
      writable_ = false;
      return true;
    }
    CloseNow();
    return false;
  }
  return true;
}

// One sendmsg: what is encoded, then verified pieces of the value.
Session::Step Session::SendPieces() {
  iov_.clear();
  const std::string_view head = out_.Sendable();
  if (!head.empty()) iov_.push_back({const_cast<char*>(head.data()), head.size()});
  sender_->Pieces(&iov_, kMaxPieces);
  msghdr message{};
  message.msg_iov = iov_.data();
  message.msg_iovlen = iov_.size();
  while (true) {
    const ssize_t n = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      const size_t of_head = std::min(static_cast<size_t>(n), head.size());
      const size_t of_value = static_cast<size_t>(n) - of_head;
      if (of_head > 0) out_.Sent(of_head);
      sender_->Sent(of_value);
      turn_bytes_ += of_value;
      worker_->stats().value_bytes_sent.Add(of_value);
      Progressed(static_cast<size_t>(n));
      return Step::kAgain;
    }
    if (errno == EINTR) continue;
    if (WouldBlock(errno)) {
      writable_ = false;
      return Step::kWait;
    }
    CloseNow();
    return Step::kClosed;
  }
}

}  // namespace tiercel::net
