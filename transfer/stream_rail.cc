// Life of a data connection: posting, withdrawing, abandoning, closing. Sending and receiving have files of their own.
#include "transfer/stream_rail.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include "base/check.h"

namespace tiercel::transfer {
namespace {

// A request's id is its place in the table and a count that never repeats.
constexpr int kIndexBits = 16;
constexpr uint64_t kIndexMask = (uint64_t{1} << kIndexBits) - 1;
// Requests that were given up and that the peer has not answered. Beyond this it is not going to.
constexpr uint32_t kMaxAbandoned = 64;

}  // namespace

StreamRail::StreamRail(UniqueFd socket, OpenRequest request, std::string where, RailHost* host)
    : fd_(std::move(socket)), request_(std::move(request)), where_(std::move(where)), host_(host) {
  out_.reserve(2 * kMaxFrameBytes);
}

StreamRail::~StreamRail() { TIERCEL_CHECK(phase_ == Phase::kClosed || !fd_, "a rail is closed before it is freed"); }

Error StreamRail::PeerError(std::string_view what) const {
  return Error(ErrorCode::kPeerProtocol, fmt::format("{} ({}): {}", request_.address.name, where_, what));
}

void StreamRail::Fail(Error error) {
  if (!failure_) failure_ = std::move(error);
}

StreamRail::Request* StreamRail::FindLocked(uint64_t id) {
  const uint64_t index = id & kIndexMask;
  if (index >= requests_.size()) return nullptr;
  Request& r = requests_[index];
  return r.used && r.id == id ? &r : nullptr;
}

StreamRail::Request& StreamRail::NewRequestLocked(Slice* slice) {
  size_t index = 0;
  while (index < requests_.size() && requests_[index].used) ++index;
  TIERCEL_CHECK(index <= kIndexMask);
  if (index == requests_.size()) requests_.emplace_back();
  Request& r = requests_[index];
  r = Request{};
  r.used = true;
  r.id = (next_id_++ << kIndexBits) | index;
  r.slice = slice;
  r.heard_before = heard_.load(std::memory_order_relaxed);
  if (slice != nullptr) slice->wire_id = r.id;
  return r;
}

void StreamRail::ForgetLocked(Request& request) {
  if (request.abandoned) --abandoned_;
  request.used = false;
  request.slice = nullptr;
  request.refusal.reset();
}

void StreamRail::QueueAgainLocked(Slice* slice) {
  slice->rail_next = nullptr;
  (queue_tail_ != nullptr ? queue_tail_->rail_next : queue_head_) = slice;
  queue_tail_ = slice;
}

void StreamRail::Post(std::span<Slice* const> slices) {
  std::optional<Error> down;
  {
    std::lock_guard lock(mu_);
    if (broken_) {
      down = send_error_ ? *send_error_ : Error(ErrorCode::kUnreachable, "the connection is closed");
    } else {
      for (Slice* slice : slices) QueueAgainLocked(slice);
    }
  }
  if (down) {
    for (Slice* slice : slices) host_->OnSliceDone(*slice, SliceEnd::kLost, &*down);
    return;
  }
  FlushIfFree();
}

bool StreamRail::Withdraw(const Slice* slice, uint64_t serial) {
  Slice* found = nullptr;
  {
    std::lock_guard lock(mu_);
    Slice* before = nullptr;
    for (Slice* s = queue_head_; s != nullptr; before = s, s = s->rail_next) {
      if (s != slice || s->serial != serial) continue;
      (before != nullptr ? before->rail_next : queue_head_) = s->rail_next;
      if (queue_tail_ == s) queue_tail_ = before;
      found = s;
      break;
    }
  }
  if (found == nullptr) return false;
  host_->OnSliceDone(*found, SliceEnd::kWithdrawn, nullptr);
  return true;
}

void StreamRail::OnEvents(bool readable, bool writable) {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kConnecting) {
    if (readable || writable) FinishConnecting();
  } else {
    if (readable) Receive();
    if (writable && !failure_) {
      std::unique_lock lock(mu_);
      const bool mine = want_write_ && !sending_ && !broken_;
      if (mine) sending_ = true;
      lock.unlock();
      if (mine) SendAll();
    }
  }
  {
    std::lock_guard lock(mu_);
    if (broken_ && !failure_) failure_ = send_error_;
  }
  if (failure_) Close(Error(*failure_));
}

void StreamRail::Abandon(const Slice* slice, uint64_t serial, const Error& why) {
  Slice* given_up = nullptr;
  bool close = false;
  {
    std::lock_guard lock(mu_);
    for (Request& r : requests_) {
      if (!r.used || r.slice != slice || slice == nullptr || r.slice->serial != serial) continue;
      if (r.copying) {
        given_up = r.slice;
        OnAbandonedCopyLocked(*given_up);
        ForgetLocked(r);
        break;
      }
      // Bytes on their way out or in stop only with the connection. One that has said nothing since this request
      // is not worth keeping either.
      close = r.sending || receiving_slice_ == slice || r.heard_before == heard_.load(std::memory_order_relaxed) ||
              abandoned_ >= kMaxAbandoned;
      if (close) break;
      given_up = r.slice;
      r.slice = nullptr;
      r.abandoned = true;
      ++abandoned_;
      break;
    }
  }
  if (given_up != nullptr) host_->OnSliceDone(*given_up, SliceEnd::kWithdrawn, nullptr);
  FlushIfFree();  // what a derived class may have left
  if (close) Close(Error(ErrorCode::kUnreachable, fmt::format("the connection was closed: {}", why.message())));
}

void StreamRail::Close(const Error& error) {
  std::vector<Slice*> lost;
  {
    std::unique_lock lock(mu_);
    if (phase_ == Phase::kClosed) return;
    broken_ = true;
    shutdown(fd_.get(), SHUT_RDWR);  // makes the sender leave soon
    sender_left_.wait(lock, [&] { return !sending_; });
    phase_ = Phase::kClosed;
    for (Slice* s = queue_head_; s != nullptr; s = s->rail_next) lost.push_back(s);
    queue_head_ = queue_tail_ = nullptr;
    for (Request& r : requests_) {
      if (!r.used || r.copying) continue;  // Finish gives those back
      if (r.slice != nullptr) lost.push_back(r.slice);
      ForgetLocked(r);
    }
    fd_.Reset();
  }
  in_.DropDescriptors();
  receiving_slice_ = nullptr;
  for (Slice* slice : lost) host_->OnSliceDone(*slice, SliceEnd::kLost, &error);
  host_->OnRailDown(*this, error);
}

StreamRail::Encoded StreamRail::EncodeLocked(Slice& slice, uint64_t id, FrameBytes* out) {
  const bool write = slice.kind == OpKind::kWrite;
  AppendRequest(write ? FrameType::kWrite : FrameType::kRead, 0, id, slice.place, slice.offset, slice.length,
                slice.grant, out);
  return {.streams_payload = write};
}

bool StreamRail::OnOtherFrame(const FrameHeader&, std::span<const std::byte>, UniqueFd*) { return false; }
void StreamRail::OnOwnRefused(uint64_t, const Error&) {}
bool StreamRail::OnRefused(uint64_t, Slice&, const Error&) { return false; }

}  // namespace tiercel::transfer
