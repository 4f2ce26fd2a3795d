#include "transfer/shm/shm_rail.h"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "transfer/hashed_copy.h"

namespace tiercel::transfer::shm {
namespace {

// RELEASEs of a read of many slices, or of views, leave together, up to this many bytes of frames.
constexpr size_t kReleaseBytes = 16 * kHeaderBytes;
// The store takes 64 mappings of a connection; beyond this, memory is streamed.
constexpr size_t kMaxMapped = 64;

class ShmPin final : public ViewPin {
 public:
  ShmPin(std::shared_ptr<ShmRail> rail, uint64_t id, std::shared_ptr<const Mapping> mapping,
         std::span<const std::byte> range)
      : rail_(std::move(rail)), id_(id), mapping_(std::move(mapping)) {
    bytes = range;
  }
  ~ShmPin() override { rail_->ReleasePin(id_, lazily_); }
  void LetGoLazily() override { lazily_ = true; }
  bool alive() const override { return rail_->Alive(); }

 private:
  const std::shared_ptr<ShmRail> rail_;
  const uint64_t id_;
  const std::shared_ptr<const Mapping> mapping_;
  bool lazily_ = false;
};

}  // namespace

ShmRail::ShmRail(UniqueFd socket, OpenRequest request, std::string where, std::shared_ptr<PeerSegments> segments,
                 std::function<void()> on_up, RailHost* host)
    : StreamRail(std::move(socket), std::move(request), std::move(where), host),
      segments_(std::move(segments)),
      on_up_(std::move(on_up)) {}

StreamRail::Encoded ShmRail::EncodeLocked(Slice& slice, uint64_t id, FrameBytes* out) {
  if (slice.kind == OpKind::kWrite) {
    const auto* shared = dynamic_cast<const SharedMemory*>(slice.region);
    if (shared == nullptr || unmappable_.contains(shared->id()) ||
        (!mapped_.contains(shared->id()) && mapped_.size() >= kMaxMapped)) {
      return StreamRail::EncodeLocked(slice, id, out);
    }
    Encoded encoded;
    if (mapped_.insert(shared->id()).second) {
      AppendMap(0, {.map = shared->id(), .size = shared->size()}, out);
      encoded.descriptor = shared->file();
    }
    AppendCopy(id, slice.place, slice.offset, slice.length, slice.grant, shared->id(),
               static_cast<uint64_t>(slice.memory - shared->memory.data()), slice.op_offset, out);
    return encoded;
  }
  const PeerSegments::State state = segments_->Find(slice.place).state;
  if (state == PeerSegments::State::kUnshareable && !slice.view) return StreamRail::EncodeLocked(slice, id, out);
  const bool asked =
      std::any_of(attaches_.begin(), attaches_.end(), [&](const auto& a) { return a.second == slice.place; });
  if (state == PeerSegments::State::kUnknown && !asked) {
    const uint64_t attach = NewRequestLocked(nullptr).id;
    attaches_[attach] = slice.place;
    AppendAttach(attach, slice.place, out);
  }
  AppendRequest(FrameType::kAdmit, slice.view ? kAdmitView : 0, id, slice.place, slice.offset, slice.length,
                slice.grant, out);
  return {};
}

bool ShmRail::OnOtherFrame(const FrameHeader& header, std::span<const std::byte> body, UniqueFd* descriptor) {
  switch (header.type) {
    case FrameType::kAttachOk: return OnAttachOk(header, body, descriptor);
    case FrameType::kAdmitOk: return OnAdmitOk(header);
    case FrameType::kCopyOk: return OnCopyOk(header, body);
    default: return false;
  }
}

bool ShmRail::OnAttachOk(const FrameHeader& header, std::span<const std::byte> body, UniqueFd* descriptor) {
  Result<uint64_t> size = DecodeAttachOk(body);
  if (!size.ok() || !*descriptor) return false;
  SegmentRef place;
  {
    std::lock_guard lock(mu_);
    const auto attach = attaches_.find(header.id);
    Request* r = FindLocked(header.id);
    if (attach == attaches_.end() || r == nullptr) return false;
    place = attach->second;
    attaches_.erase(attach);
    ForgetLocked(*r);
  }
  if (Status mapped = segments_->Map(place, std::move(*descriptor), *size); !mapped.ok()) {
    Log(LogLevel::kWarning, "{}: {}; it is read through the socket", request().address.name, mapped.error().message());
  }
  return true;
}

void ShmRail::OnOwnRefused(uint64_t id, const Error& error) {
  SegmentRef place;
  {
    std::lock_guard lock(mu_);
    const auto attach = attaches_.find(id);
    if (attach == attaches_.end()) return;
    place = attach->second;
    attaches_.erase(attach);
  }
  // A segment that is not there is refused to the ADMIT behind it as well, which tells the operation.
  if (error.code() == ErrorCode::kUnknownSegment || error.code() == ErrorCode::kOldEpoch) return;
  segments_->SetUnshareable(place);
}

bool ShmRail::OnAdmitOk(const FrameHeader& header) {
  Slice* slice = nullptr;
  PeerSegments::Found segment;
  bool again = false;
  {
    std::lock_guard lock(mu_);
    Request* r = FindLocked(header.id);
    if (r == nullptr || r->copying || r->sending || (r->slice == nullptr && !r->abandoned)) return false;
    slice = r->slice;
    if (slice != nullptr) {
      if (slice->kind != OpKind::kRead) return false;
      segment = segments_->Find(slice->place);
    }
    const bool usable = segment.mapping != nullptr && slice->offset <= segment.mapping->size() &&
                        slice->length <= segment.mapping->size() - slice->offset;
    if (!usable) {
      AppendBare(FrameType::kRelease, header.id, 0, &control_);
      ForgetLocked(*r);
      again = slice != nullptr && !slice->view && segment.mapping == nullptr;
      if (again) {
        segments_->SetUnshareable(slice->place);
        QueueAgainLocked(slice);
      }
    } else if (slice->view) {
      ForgetLocked(*r);
    } else {
      r->copying = true;
      ++copying_;
      slice->source = segment.mapping->data() + slice->offset;
    }
    if (!usable && !again && slice != nullptr) segment.mapping.reset();
  }
  if (again || slice == nullptr) {
    FlushIfFree();
    return true;
  }
  if (segment.mapping == nullptr) {
    FlushIfFree();
    const Error error(ErrorCode::kNoDevice,
                      fmt::format("segment {} of {} cannot be mapped", slice->place.segment, request().address.name));
    host().OnSliceDone(*slice, SliceEnd::kRefused, &error);
    return true;
  }
  if (!slice->view) {
    host().Defer(*this, *slice);
    return true;
  }
  const std::span<const std::byte> range(segment.mapping->data() + slice->offset, slice->length);
  slice->pin = std::make_unique<ShmPin>(shared_from_this(), header.id, segment.mapping, range);
  host().OnSliceDone(*slice, SliceEnd::kOk, nullptr);
  return true;
}

void ShmRail::Finish(Slice& slice) {
  // The mapping lives as long as this rail, and the rail as long as its slices.
  HashedCopy(
      slice.memory, slice.source, slice.length, slice.op_offset, [] { return true; },
      [&](uint64_t offset, uint64_t length, uint64_t sum) { host().OnHashed(slice, offset, length, sum); });
  bool lost = false;
  bool flush = false;
  {
    std::lock_guard lock(mu_);
    Request* r = FindLocked(slice.wire_id);
    TIERCEL_CHECK(r != nullptr && r->copying && r->slice == &slice);
    lost = phase_ != Phase::kReady;  // and with it the pin: the bytes may have been anything
    --copying_;
    if (!lost) AppendBare(FrameType::kRelease, r->id, 0, &control_);
    ForgetLocked(*r);
    flush = copying_ == 0 || control_.size() >= kReleaseBytes;
  }
  if (lost) {
    const Error error(ErrorCode::kUnreachable, "the connection closed while its segment was read");
    return host().OnSliceDone(slice, SliceEnd::kLost, &error);
  }
  host().OnSliceDone(slice, SliceEnd::kOk, nullptr);
  if (flush) FlushIfFree();
}

void ShmRail::OnAbandonedCopyLocked(Slice& slice) {
  --copying_;
  AppendBare(FrameType::kRelease, slice.wire_id, 0, &control_);
}

bool ShmRail::OnCopyOk(const FrameHeader& header, std::span<const std::byte> body) {
  if (!DecodeCopyOk(body, &sums_).ok()) return false;
  Slice* slice = nullptr;
  {
    std::lock_guard lock(mu_);
    Request* r = FindLocked(header.id);
    if (r == nullptr || r->sending || r->copying) return false;
    slice = r->slice;
    if (slice != nullptr && slice->kind != OpKind::kWrite) return false;
    ForgetLocked(*r);
  }
  if (slice == nullptr) return true;
  uint64_t at = 0;
  for (const uint64_t sum : sums_) {
    if (at >= slice->length) break;
    const uint64_t part = std::min(slice->length - at, kBlockBytes - (slice->op_offset + at) % kBlockBytes);
    host().OnHashed(*slice, at, part, sum);
    at += part;
  }
  if (at == slice->length) {
    host().OnSliceDone(*slice, SliceEnd::kOk, nullptr);
  } else {
    const Error error = PeerError("sums of fewer bytes than were copied");
    host().OnSliceDone(*slice, SliceEnd::kFailed, &error);
  }
  return true;
}

// The store cannot map our memory: then the bytes go through the socket.
bool ShmRail::OnRefused(uint64_t id, Slice& slice, const Error& error) {
  const auto* shared = dynamic_cast<const SharedMemory*>(slice.region);
  if (slice.kind != OpKind::kWrite || shared == nullptr || error.code() != ErrorCode::kNotRegistered) return false;
  {
    std::lock_guard lock(mu_);
    if (!mapped_.contains(shared->id()) || unmappable_.size() > kMaxMapped) return false;
    unmappable_.insert(shared->id());
    ForgetLocked(*FindLocked(id));
    QueueAgainLocked(&slice);
  }
  FlushIfFree();
  return true;
}

bool ShmRail::Alive() {
  std::lock_guard lock(mu_);
  if (phase_ != Phase::kReady) return false;
  pollfd state{.fd = fd(), .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) == 0;
}

void ShmRail::ReleasePin(uint64_t id, bool lazily) {
  {
    std::lock_guard lock(mu_);
    if (phase_ != Phase::kReady) return;  // the pin went with the connection
    AppendBare(FrameType::kRelease, id, 0, &control_);
    if (lazily && control_.size() < kReleaseBytes) return;
  }
  FlushIfFree();
}

void ShmRail::ForgetMemory(uint32_t id) {
  {
    std::lock_guard lock(mu_);
    unmappable_.erase(id);
    if (mapped_.erase(id) == 0 || phase_ != Phase::kReady) return;
    AppendUnmap(id, &control_);
  }
  FlushIfFree();
}

}  // namespace tiercel::transfer::shm
