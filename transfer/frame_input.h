// What arrives on a data connection, at either end: bytes of the socket become frames. The beginning of a payload may
// come in with the frame before it; the rest goes from the socket straight into place and never passes through here.
//
// Bounds: one frame of the largest size, and kMaxDescriptors that wait for their frame. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "tiercel/result.h"
#include "transfer/frames.h"

namespace tiercel::transfer {

class FrameInput {
 public:
  static constexpr size_t kMaxDescriptors = 4;

  FrameInput() : buffer_(kMaxFrameBytes) {}

  enum class Got : uint8_t {
    kFull,     // as much as there was room for: more may be there
    kSome,     // all that was there
    kNothing,  // nothing is there now
    kClosed,
    kBroken,              // errno says why
    kTooManyDescriptors,  // more than frames that carry one
  };
  // One read of the socket; adds to *bytes what came. REQUIRES: less than a frame waits.
  Got Receive(int socket, size_t* bytes);

  std::span<const std::byte> waiting() const { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  // Moves up to `n` waiting bytes to `to`, or drops them when it is null; returns how many.
  size_t Take(std::byte* to, uint64_t n);

  enum class Next : uint8_t { kFrame, kIncomplete, kBad };
  // The body stays in place until the next Receive. kBad: *error says why, and nothing is taken.
  Next NextFrame(FrameHeader* header, std::span<const std::byte>* body, std::optional<Error>* error);

  // The oldest descriptor that came along; none when there is none.
  UniqueFd TakeDescriptor();
  void DropDescriptors() { descriptors_.clear(); }

 private:
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  std::vector<UniqueFd> descriptors_;  // oldest first
};

// recv without waiting, again when a signal interrupts it.
ssize_t ReceiveInto(int socket, std::span<std::byte> memory);
// What that returned says that nothing is there now.
bool NothingThere(ssize_t received);

}  // namespace tiercel::transfer
