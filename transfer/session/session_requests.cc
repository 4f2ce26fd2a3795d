// What the frames of a data connection ask for.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/checksum.h"
#include "base/log.h"
#include "transfer/session/session.h"
#include "transfer/session/stream_server.h"

namespace tiercel::transfer {
namespace {

// A refused WRITE's payload is read and dropped up to this; behind a longer one the connection is closed.
constexpr uint64_t kMaxDroppedBytes = uint64_t{64} << 20;

}  // namespace

void Session::OnFrame(const FrameHeader& header, std::span<const std::byte> body) {
  if (header.type == FrameType::kHello) return OnHello(header, body);
  if (!peer_) {
    return Refuse(Error(ErrorCode::kUnauthenticated, "a connection begins with HELLO and a ticket"));
  }
  // Pins that wait for the queue end as soon as somebody comes by; the client often asks again when it has read all.
  if (!draining_.empty()) ReleaseDrained();
  switch (header.type) {
    case FrameType::kRead: return OnRead(header, body);
    case FrameType::kWrite: return OnWrite(header, body);
    default: break;
  }
  if (!local_) {
    return Refuse(Error(ErrorCode::kProtocol, fmt::format("frame type {} does not belong on this connection",
                                                          static_cast<int>(header.type))));
  }
  OnLocalFrame(header, body);
}

void Session::OnHello(const FrameHeader& header, std::span<const std::byte> body) {
  if (peer_) return Refuse(Error(ErrorCode::kProtocol, "a second HELLO"));
  Result<Hello> hello = DecodeHello(body);
  if (!hello.ok()) return Refuse(hello.error());
  Target& target = loop_.target();
  if (hello->expected && hello->expected != target.incarnation()) {
    return Refuse(Error(ErrorCode::kStaleIncarnation, fmt::format("this is incarnation {:016x}, not {:016x}",
                                                                  target.incarnation().value, hello->expected.value)));
  }
  Result<PeerIdentity> peer = target.Authenticate(hello->ticket, address_);
  if (!peer.ok()) {
    // The target has counted it.
    closing_ = true;
    ReplyPtr reply = NewReply(0);
    AppendError(0, peer.error(), &reply->head);
    reply->last = true;
    return Send(std::move(reply));
  }
  peer_ = std::move(peer).value();
  --loop_.counts->unauthenticated;
  const uint8_t minor = std::min(header.minor, kProtocolMinor);
  if (header.minor != kProtocolMinor) {
    Log(LogLevel::kVerbose, "{} speaks data protocol {}, this side {}: both use {}", address_,
        VersionText(header.major, header.minor), VersionText(kProtocolMajor, kProtocolMinor),
        VersionText(kProtocolMajor, minor));
  }
  ReplyPtr reply = NewReply(0);
  AppendHelloOk(kProtocolMinor,
                {.incarnation = target.incarnation(), .minor = minor, .grant_time_ms = target.GrantTimeMs()},
                &reply->head);
  Send(std::move(reply));
}

void Session::OnRead(const FrameHeader& header, std::span<const std::byte> body) {
  Result<DataRequest> request = DecodeRequest(body);
  if (!request.ok()) return Refuse(request.error());
  Result<UsePtr> use = Admit(AccessRequest::Kind::kRead, *request);
  if (!use.ok()) return SendError(header.id, use.error());
  ReplyPtr reply = NewReply(header.id);
  reply->use = std::move(use).value();
  reply->payload = request->length;
  AppendBare(FrameType::kReadOk, header.id, request->length, &reply->head);
  Send(std::move(reply));
}

void Session::OnWrite(const FrameHeader& header, std::span<const std::byte> body) {
  Result<DataRequest> request = DecodeRequest(body);
  if (!request.ok()) return Refuse(request.error());
  if (request->length != header.payload_bytes || request->length == 0) {
    return Refuse(Error(ErrorCode::kProtocol, fmt::format("a WRITE of {} bytes with a payload of {}", request->length,
                                                          header.payload_bytes)));
  }
  Result<UsePtr> use = Admit(AccessRequest::Kind::kWrite, *request);
  if (!use.ok()) {
    SendError(header.id, use.error());
    if (request->length > kMaxDroppedBytes) {
      closing_ = true;
      replies_.back()->last = true;
      return;
    }
  }
  incoming_.emplace();
  incoming_->id = header.id;
  incoming_->total = request->length;
  if (use.ok()) incoming_->use = std::move(use).value();
}

void Session::IncomingDone() {
  Incoming done = std::move(*incoming_);
  incoming_.reset();
  if (done.use == nullptr) return;  // it was refused, and the peer told
  FreeUse(std::move(done.use));     // before the answer: when the peer knows, the use is over
  SendBare(FrameType::kWriteOk, done.id);
}

void Session::OnLocalFrame(const FrameHeader& header, std::span<const std::byte> body) {
  switch (header.type) {
    case FrameType::kAttach: return OnAttach(header, body);
    case FrameType::kAdmit: return OnAdmit(header, body);
    case FrameType::kRelease: {
      const auto held = held_.find(header.id);
      if (held == held_.end()) return Refuse(Error(ErrorCode::kProtocol, "a RELEASE of what is not held"));
      FreeUse(std::move(held->second));
      held_.erase(held);
      return;
    }
    case FrameType::kMap: return OnMap(body);
    case FrameType::kUnmap: {
      Result<uint32_t> map = DecodeUnmap(body);
      if (!map.ok() || maps_.erase(*map) == 0) {
        return Refuse(Error(ErrorCode::kProtocol, "an UNMAP of what is not mapped"));
      }
      return;
    }
    case FrameType::kCopy: return OnCopy(header, body);
    default: return Refuse(Error(ErrorCode::kProtocol, "a server's frame from a client"));
  }
}

void Session::OnAttach(const FrameHeader& header, std::span<const std::byte> body) {
  Result<SegmentRef> place = DecodeAttach(body);
  if (!place.ok()) return Refuse(place.error());
  Result<Target::Share> share = loop_.target().ShareSegment(*place, *peer_);
  if (!share.ok()) return SendError(header.id, share.error());
  ReplyPtr reply = NewReply(header.id);
  AppendAttachOk(header.id, share->size, &reply->head);
  reply->descriptor = std::move(share->memory);
  Send(std::move(reply));
}

void Session::OnAdmit(const FrameHeader& header, std::span<const std::byte> body) {
  Result<DataRequest> request = DecodeRequest(body);
  if (!request.ok()) return Refuse(request.error());
  if (held_.contains(header.id)) return Refuse(Error(ErrorCode::kProtocol, "an id is used twice"));
  if (held_.size() >= loop_.limits().max_held) {
    return SendError(header.id, Error(ErrorCode::kRetry,
                                      fmt::format("{} ranges are pinned by this connection already", held_.size())));
  }
  const bool view = (header.flags & kAdmitView) != 0;
  Result<UsePtr> use = Admit(view ? AccessRequest::Kind::kView : AccessRequest::Kind::kRead, *request);
  if (!use.ok()) return SendError(header.id, use.error());
  held_.emplace(header.id, std::move(use).value());
  SendBare(FrameType::kAdmitOk, header.id);
}

void Session::OnMap(std::span<const std::byte> body) {
  Result<MapRequest> map = DecodeMap(body);
  if (!map.ok()) return Refuse(map.error());
  if (maps_.contains(map->map)) return Refuse(Error(ErrorCode::kProtocol, "a MAP of what is mapped"));
  const UniqueFd descriptor = in_.TakeDescriptor();
  if (!descriptor) return Refuse(Error(ErrorCode::kProtocol, "a MAP without a descriptor"));
  // One that is refused keeps its number, so that the COPY behind it gets the reason.
  if (maps_.size() >= 2 * size_t{loop_.limits().max_maps}) {
    return Refuse(Error(ErrorCode::kTooBig, fmt::format("{} mappings on one connection", maps_.size())));
  }
  Result<Mapping> mapping = MapPeerMemory(*map, descriptor.get());
  PeerMemory& memory = maps_[map->map];
  if (mapping.ok()) {
    memory.mapping = std::move(mapping).value();
  } else {
    loop_.target().CountRefusal(mapping.error().code());
    memory.refused = Error(ErrorCode::kNotRegistered, mapping.error().message());
  }
}

// Memory of a peer is touched only when it cannot be taken away under us: sealed against shrinking, and at least as
// large as said. (A hole in it reads as zeros. Huge pages could fail on first touch, so they are not taken.)
Result<Mapping> Session::MapPeerMemory(const MapRequest& map, int fd) {
  const SessionLimits& limits = loop_.limits();
  if (maps_.size() >= limits.max_maps || map.size == 0 || map.size > limits.max_map_bytes) {
    return Error(ErrorCode::kTooBig, fmt::format("mapping {} bytes, {} mappings so far", map.size, maps_.size()));
  }
  struct stat file{};
  struct statfs system{};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &file) != 0 || fstatfs(fd, &system) != 0 ||
      system.f_type != TMPFS_MAGIC) {
    return Error(ErrorCode::kInvalid, "memory that can still be shrunk is not mapped");
  }
  if (static_cast<uint64_t>(file.st_size) < map.size) {
    return Error(ErrorCode::kInvalid, fmt::format("{} bytes of memory offered as {}", file.st_size, map.size));
  }
  void* p = mmap(nullptr, map.size, PROT_READ, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return SystemError("map a client's memory", errno);
  return Mapping(p, map.size);
}

void Session::OnCopy(const FrameHeader& header, std::span<const std::byte> body) {
  Result<CopyRequest> copy = DecodeCopy(body);
  if (!copy.ok()) return Refuse(copy.error());
  const auto map = maps_.find(copy->map);
  if (map == maps_.end()) {
    return SendError(header.id, Error(ErrorCode::kNotRegistered, fmt::format("mapping {} is not there", copy->map)));
  }
  if (map->second.refused) return SendError(header.id, *map->second.refused);
  const uint64_t size = map->second.mapping.size();
  const uint64_t length = copy->data.length;
  if (length == 0 || copy->map_offset > size || length > size - copy->map_offset) {
    loop_.target().CountRefusal(ErrorCode::kOutOfRange);
    return SendError(header.id, Error(ErrorCode::kOutOfRange,
                                      fmt::format("{} + {} in memory of {} bytes", copy->map_offset, length, size)));
  }
  if (length > uint64_t{kMaxSums - 1} * kBlockBytes) {
    return SendError(header.id, Error(ErrorCode::kTooBig, fmt::format("a COPY of {} bytes", length)));
  }
  Result<UsePtr> use = Admit(AccessRequest::Kind::kWrite, copy->data);
  if (!use.ok()) return SendError(header.id, use.error());
  copying_.emplace();
  copying_->id = header.id;
  copying_->use = std::move(use).value();
  copying_->source = map->second.mapping.data() + copy->map_offset;
  copying_->operation_offset = copy->operation_offset;
  copying_->total = length;
  ScheduleCopy();
}

// One block a turn, so that other connections of the loop wait no longer than for that. No frame is taken meanwhile,
// so the mapping stays.
void Session::ScheduleCopy() {
  loop_.loop().Post([self = shared_from_this(), serial = copying_->use->serial] {
    if (!self->cut_ && self->copying_ && self->copying_->use->serial == serial) self->CopyMore();
  });
}

void Session::CopyMore() {
  Copying& c = *copying_;
  const uint64_t in_block = (c.operation_offset + c.done) % kBlockBytes;
  const uint64_t n = std::min(c.total - c.done, kBlockBytes - in_block);
  c.sums.push_back(CopyAndHash(c.use->access->memory.data() + c.done, c.source + c.done, n));
  c.done += n;
  Progress();
  if (c.done < c.total) return ScheduleCopy();
  ReplyPtr reply = NewReply(c.id);
  AppendCopyOk(c.id, c.sums, &reply->head);
  FreeUse(std::move(c.use));
  copying_.reset();
  Send(std::move(reply));
  Resume();
}

}  // namespace tiercel::transfer
