#include "transfer/frame_input.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tiercel::transfer {

ssize_t ReceiveInto(int socket, std::span<std::byte> memory) {
  ssize_t n = 0;
  do {
    n = recv(socket, memory.data(), memory.size(), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n;
}

bool NothingThere(ssize_t received) { return received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

FrameInput::Got FrameInput::Receive(int socket, size_t* bytes) {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  iovec part{buffer_.data() + end_, buffer_.size() - end_};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (NothingThere(n)) return Got::kNothing;
  if (n <= 0) return n == 0 ? Got::kClosed : Got::kBroken;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      descriptors_.emplace_back(descriptor);
    }
  }
  if (descriptors_.size() > kMaxDescriptors || (message.msg_flags & MSG_CTRUNC) != 0) return Got::kTooManyDescriptors;
  end_ += static_cast<size_t>(n);
  *bytes += static_cast<size_t>(n);
  return static_cast<size_t>(n) == part.iov_len ? Got::kFull : Got::kSome;
}

size_t FrameInput::Take(std::byte* to, uint64_t n) {
  const auto here = static_cast<size_t>(std::min<uint64_t>(end_ - begin_, n));
  if (to != nullptr && here > 0) std::memcpy(to, buffer_.data() + begin_, here);
  begin_ += here;
  return here;
}

FrameInput::Next FrameInput::NextFrame(FrameHeader* header, std::span<const std::byte>* body,
                                       std::optional<Error>* error) {
  const std::span<const std::byte> here = waiting();
  if (here.size() < kHeaderBytes) return Next::kIncomplete;
  Result<FrameHeader> decoded = DecodeHeader(here.first(kHeaderBytes));
  if (!decoded.ok()) {
    *error = std::move(decoded).error();
    return Next::kBad;
  }
  if (here.size() < kHeaderBytes + decoded->body_bytes) return Next::kIncomplete;
  *header = *decoded;
  *body = here.subspan(kHeaderBytes, decoded->body_bytes);
  if (!BodyIsIntact(*header, *body)) {
    *error = Error(ErrorCode::kProtocol, "a frame's body is damaged");
    return Next::kBad;
  }
  begin_ += kHeaderBytes + body->size();
  return Next::kFrame;
}

UniqueFd FrameInput::TakeDescriptor() {
  if (descriptors_.empty()) return {};
  UniqueFd oldest = std::move(descriptors_.front());
  descriptors_.erase(descriptors_.begin());
  return oldest;
}

}  // namespace tiercel::transfer
