// One writer and one reader of little-endian fields; everything else is the order of fields, which is the layout
// of docs/data-protocol.md read aloud.
#include "transfer/frames.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel::transfer {
namespace {

static_assert(std::endian::native == std::endian::little, "fields are copied as they lie in memory");

constexpr size_t kSumOffset = 40;  // of the header's own sum, which covers all before it
constexpr size_t kHelloBytes = 56;
constexpr size_t kHelloOkBytes10 = 16;
constexpr size_t kHelloOkBytes = 24;
constexpr size_t kGrantFixedBytes = 64;
constexpr size_t kRequestFixedBytes = 24 + kGrantFixedBytes;
constexpr size_t kCopyExtraBytes = 24;
constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxNameBytes = 64;

static_assert(kRequestFixedBytes + kCopyExtraBytes + kMaxExtents * sizeof(Extent) <= kMaxBodyBytes);
static_assert(8 + kMaxSums * 8 <= kMaxBodyBytes);
static_assert(sizeof(Extent) == 16);

class Writer {
 public:
  explicit Writer(FrameBytes* out) : out_(*out) {}
  template <typename T>
  void Put(T value) {
    static_assert(std::is_integral_v<T>);
    Bytes(&value, sizeof(value));
  }
  void Bytes(const void* data, size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), bytes, bytes + n);
  }

 private:
  FrameBytes& out_;
};

// Reads fields in order. The caller has checked the length; a read past the end is a bug here, so it stops.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <typename T>
  T Get() {
    T value;
    Bytes(&value, sizeof(value));
    return value;
  }
  void Bytes(void* data, size_t n) {
    TIERCEL_CHECK(n <= in_.size());
    std::memcpy(data, in_.data(), n);
    in_ = in_.subspan(n);
  }
  size_t left() const { return in_.size(); }

 private:
  std::span<const std::byte> in_;
};

// Reserves the header's place; Finish fills it in when the body stands behind it.
class Frame {
 public:
  Frame(FrameType type, uint64_t id, FrameBytes* out) : out_(out), start_(out->size()) {
    header_.type = type;
    header_.id = id;
    out->resize(start_ + kHeaderBytes);
  }
  FrameHeader& header() { return header_; }
  void Finish() {
    std::byte* at = out_->data() + start_;
    const std::span<const std::byte> body(at + kHeaderBytes, out_->size() - start_ - kHeaderBytes);
    TIERCEL_CHECK(body.size() <= kMaxBodyBytes);
    const uint32_t magic = kFrameMagic;
    const auto body_bytes = static_cast<uint32_t>(body.size());
    const uint64_t body_sum = body.empty() ? 0 : HashBytes(body);
    std::memset(at, 0, kHeaderBytes);
    std::memcpy(at, &magic, 4);
    at[4] = std::byte{header_.major};
    at[5] = std::byte{header_.minor};
    at[6] = std::byte{static_cast<uint8_t>(header_.type)};
    at[7] = std::byte{header_.flags};
    std::memcpy(at + 8, &header_.id, 8);
    std::memcpy(at + 16, &body_bytes, 4);
    std::memcpy(at + 24, &header_.payload_bytes, 8);
    std::memcpy(at + 32, &body_sum, 8);
    const uint64_t sum = HashBytes({at, kSumOffset});
    std::memcpy(at + kSumOffset, &sum, 8);
  }

 private:
  FrameBytes* out_;
  const size_t start_;
  FrameHeader header_;
};

void PutRequest(const SegmentRef& place, uint64_t offset, uint64_t length, const Grant* grant, Writer* w) {
  static const Grant kNone;
  const Grant& g = grant != nullptr ? *grant : kNone;
  const uint32_t extents = std::min<uint32_t>(g.extents.size(), kMaxExtents);
  w->Put(place.segment);
  w->Put(place.epoch);
  w->Put(offset);
  w->Put(length);
  w->Put(g.key_id);
  w->Put(static_cast<uint8_t>(g.right));
  w->Put(uint8_t{0});
  w->Put(static_cast<uint16_t>(extents));
  w->Put(g.user);
  w->Put(g.version.value);
  w->Put(g.store.value);
  w->Put(g.place.segment);
  w->Put(g.place.epoch);
  w->Put(g.expiry_ms);
  w->Bytes(g.mac.data(), g.mac.size());
  w->Bytes(g.extents.begin(), extents * sizeof(Extent));
}

// Reads what PutRequest wrote. The number of extents must be exactly what the body has room for, less `behind`.
Status GetRequest(Reader* r, size_t behind, DataRequest* out) {
  out->place.segment = r->Get<uint32_t>();
  out->place.epoch = r->Get<uint32_t>();
  out->offset = r->Get<uint64_t>();
  out->length = r->Get<uint64_t>();
  Grant& g = out->grant;
  g.key_id = r->Get<uint32_t>();
  g.right = static_cast<Right>(r->Get<uint8_t>());  // any byte: the MAC covers it, the store judges it
  const auto reserved = r->Get<uint8_t>();
  const auto extents = r->Get<uint16_t>();
  g.user = r->Get<uint64_t>();
  g.version.value = r->Get<uint64_t>();
  g.store.value = r->Get<uint64_t>();
  g.place.segment = r->Get<uint32_t>();
  g.place.epoch = r->Get<uint32_t>();
  g.expiry_ms = r->Get<int64_t>();
  r->Bytes(g.mac.data(), g.mac.size());
  if (reserved != 0) return Error(ErrorCode::kProtocol, "reserved byte of a grant is not zero");
  if (extents > kMaxExtents) return Error(ErrorCode::kTooBig, fmt::format("{} extents in a grant", extents));
  if (r->left() != extents * sizeof(Extent) + behind) {
    return Error(ErrorCode::kProtocol, "length of a request does not fit its extents");
  }
  for (uint32_t i = 0; i < extents; ++i) {
    Extent e;
    e.offset = r->Get<uint64_t>();
    e.length = r->Get<uint64_t>();
    g.extents.push_back(e);
  }
  return Ok();
}

Error WrongLength(std::string_view what, size_t bytes) {
  return Error(ErrorCode::kProtocol, fmt::format("{} of {} bytes", what, bytes));
}

bool TypeIsKnown(FrameType type) { return type >= FrameType::kHello && type <= FrameType::kCopyOk; }
bool MayCarryPayload(FrameType type) { return type == FrameType::kWrite || type == FrameType::kReadOk; }

}  // namespace

void AppendHello(uint8_t minor, const Hello& hello, FrameBytes* out) {
  Frame frame(FrameType::kHello, 0, out);
  frame.header().minor = minor;
  Writer w(out);
  w.Put(hello.ticket.key_id);
  w.Put(uint32_t{0});
  w.Put(hello.ticket.user);
  w.Put(hello.ticket.client);
  w.Put(hello.ticket.expiry_ms);
  w.Bytes(hello.ticket.mac.data(), hello.ticket.mac.size());
  w.Put(hello.expected.value);
  frame.Finish();
}

void AppendHelloOk(uint8_t claimed_minor, const HelloOk& reply, FrameBytes* out) {
  Frame frame(FrameType::kHelloOk, 0, out);
  frame.header().minor = claimed_minor;
  Writer w(out);
  w.Put(reply.incarnation.value);
  w.Put(uint64_t{reply.minor});
  if (reply.minor >= kMinorGrantClock) w.Put(reply.grant_time_ms);
  frame.Finish();
}

void AppendRequest(FrameType type, uint8_t flags, uint64_t id, const SegmentRef& place, uint64_t offset,
                   uint64_t length, const Grant* grant, FrameBytes* out) {
  Frame frame(type, id, out);
  frame.header().flags = flags;
  frame.header().payload_bytes = type == FrameType::kWrite ? length : 0;
  Writer w(out);
  PutRequest(place, offset, length, grant, &w);
  frame.Finish();
}

void AppendCopy(uint64_t id, const SegmentRef& place, uint64_t offset, uint64_t length, const Grant* grant,
                uint32_t map, uint64_t map_offset, uint64_t operation_offset, FrameBytes* out) {
  Frame frame(FrameType::kCopy, id, out);
  Writer w(out);
  PutRequest(place, offset, length, grant, &w);
  w.Put(map);
  w.Put(uint32_t{0});
  w.Put(map_offset);
  w.Put(operation_offset);
  frame.Finish();
}

void AppendAttach(uint64_t id, SegmentRef place, FrameBytes* out) {
  Frame frame(FrameType::kAttach, id, out);
  Writer w(out);
  w.Put(place.segment);
  w.Put(place.epoch);
  frame.Finish();
}

void AppendAttachOk(uint64_t id, uint64_t size, FrameBytes* out) {
  Frame frame(FrameType::kAttachOk, id, out);
  Writer(out).Put(size);
  frame.Finish();
}

void AppendMap(uint64_t id, const MapRequest& map, FrameBytes* out) {
  Frame frame(FrameType::kMap, id, out);
  Writer w(out);
  w.Put(map.map);
  w.Put(uint32_t{0});
  w.Put(map.size);
  frame.Finish();
}

void AppendUnmap(uint32_t map, FrameBytes* out) {
  Frame frame(FrameType::kUnmap, 0, out);
  Writer w(out);
  w.Put(map);
  w.Put(uint32_t{0});
  frame.Finish();
}

void AppendCopyOk(uint64_t id, std::span<const uint64_t> sums, FrameBytes* out) {
  TIERCEL_CHECK(sums.size() <= kMaxSums);
  Frame frame(FrameType::kCopyOk, id, out);
  Writer w(out);
  w.Put(static_cast<uint64_t>(sums.size()));
  w.Bytes(sums.data(), sums.size_bytes());
  frame.Finish();
}

void AppendBare(FrameType type, uint64_t id, uint64_t payload_bytes, FrameBytes* out) {
  Frame frame(type, id, out);
  frame.header().payload_bytes = payload_bytes;
  frame.Finish();
}

void AppendError(uint64_t id, const Error& error, FrameBytes* out) {
  Frame frame(FrameType::kError, id, out);
  Writer w(out);
  const std::string_view name = error.name();
  const std::string_view message = std::string_view(error.message()).substr(0, kMaxMessageBytes);
  w.Put(static_cast<uint16_t>(name.size()));
  w.Put(static_cast<uint16_t>(message.size()));
  w.Bytes(name.data(), name.size());
  w.Bytes(message.data(), message.size());
  frame.Finish();
}

Result<FrameHeader> DecodeHeader(std::span<const std::byte> header) {
  TIERCEL_CHECK(header.size() == kHeaderBytes);
  Reader r(header);
  if (r.Get<uint32_t>() != kFrameMagic) return Error(ErrorCode::kProtocol, "not a frame of the data protocol");
  FrameHeader h;
  h.major = r.Get<uint8_t>();
  h.minor = r.Get<uint8_t>();
  if (h.major != kProtocolMajor) {
    return Error(ErrorCode::kPeerProtocol,
                 fmt::format("the peer speaks data protocol {}, this side {}", VersionText(h.major, h.minor),
                             VersionText(kProtocolMajor, kProtocolMinor)));
  }
  h.type = static_cast<FrameType>(r.Get<uint8_t>());
  h.flags = r.Get<uint8_t>();
  h.id = r.Get<uint64_t>();
  h.body_bytes = r.Get<uint32_t>();
  const auto reserved = r.Get<uint32_t>();
  h.payload_bytes = r.Get<uint64_t>();
  h.body_sum = r.Get<uint64_t>();
  if (r.Get<uint64_t>() != HashBytes(header.first(kSumOffset))) {
    return Error(ErrorCode::kProtocol, "a frame's header is damaged");
  }
  if (!TypeIsKnown(h.type)) {
    return Error(ErrorCode::kProtocol, fmt::format("unknown frame type {}", static_cast<int>(h.type)));
  }
  if (reserved != 0) return Error(ErrorCode::kProtocol, "reserved field of a frame is not zero");
  if (h.body_bytes > kMaxBodyBytes) {
    return Error(ErrorCode::kTooBig,
                 fmt::format("a frame's body of {} bytes, at most {}", h.body_bytes, kMaxBodyBytes));
  }
  if (h.payload_bytes != 0 && !MayCarryPayload(h.type)) {
    return Error(ErrorCode::kTooBig, fmt::format("a payload of {} bytes where none belongs", h.payload_bytes));
  }
  return h;
}

bool BodyIsIntact(const FrameHeader& header, std::span<const std::byte> body) {
  return header.body_sum == (body.empty() ? 0 : HashBytes(body));
}

Result<Hello> DecodeHello(std::span<const std::byte> body) {
  // A later minor may say more behind what we know.
  if (body.size() < kHelloBytes) return WrongLength("HELLO", body.size());
  Reader r(body);
  Hello hello;
  hello.ticket.key_id = r.Get<uint32_t>();
  (void)r.Get<uint32_t>();
  hello.ticket.user = r.Get<uint64_t>();
  hello.ticket.client = r.Get<uint64_t>();
  hello.ticket.expiry_ms = r.Get<int64_t>();
  r.Bytes(hello.ticket.mac.data(), hello.ticket.mac.size());
  hello.expected.value = r.Get<uint64_t>();
  return hello;
}

Result<HelloOk> DecodeHelloOk(std::span<const std::byte> body) {
  if (body.size() < kHelloOkBytes10) return WrongLength("HELLO_OK", body.size());
  Reader r(body);
  HelloOk reply;
  reply.incarnation.value = r.Get<uint64_t>();
  const auto minor = r.Get<uint64_t>();
  if (minor > kProtocolMinor) {
    return Error(ErrorCode::kPeerProtocol,
                 fmt::format("the peer wants to use data protocol {}, this side speaks {}",
                             VersionText(kProtocolMajor, static_cast<int>(std::min<uint64_t>(minor, 255))),
                             VersionText(kProtocolMajor, kProtocolMinor)));
  }
  reply.minor = static_cast<uint8_t>(minor);
  if (reply.minor >= kMinorGrantClock) {
    if (body.size() < kHelloOkBytes) return WrongLength("HELLO_OK", body.size());
    reply.grant_time_ms = r.Get<int64_t>();
  }
  return reply;
}

Result<DataRequest> DecodeRequest(std::span<const std::byte> body) {
  if (body.size() < kRequestFixedBytes) return WrongLength("a request", body.size());
  Reader r(body);
  DataRequest request;
  TIERCEL_TRY(GetRequest(&r, 0, &request));
  return request;
}

Result<CopyRequest> DecodeCopy(std::span<const std::byte> body) {
  if (body.size() < kRequestFixedBytes + kCopyExtraBytes) return WrongLength("COPY", body.size());
  Reader r(body);
  CopyRequest copy;
  TIERCEL_TRY(GetRequest(&r, kCopyExtraBytes, &copy.data));
  copy.map = r.Get<uint32_t>();
  (void)r.Get<uint32_t>();
  copy.map_offset = r.Get<uint64_t>();
  copy.operation_offset = r.Get<uint64_t>();
  return copy;
}

Result<SegmentRef> DecodeAttach(std::span<const std::byte> body) {
  if (body.size() != 8) return WrongLength("ATTACH", body.size());
  Reader r(body);
  SegmentRef place;
  place.segment = r.Get<uint32_t>();
  place.epoch = r.Get<uint32_t>();
  return place;
}

Result<uint64_t> DecodeAttachOk(std::span<const std::byte> body) {
  if (body.size() != 8) return WrongLength("ATTACH_OK", body.size());
  return Reader(body).Get<uint64_t>();
}

Result<MapRequest> DecodeMap(std::span<const std::byte> body) {
  if (body.size() != 16) return WrongLength("MAP", body.size());
  Reader r(body);
  MapRequest map;
  map.map = r.Get<uint32_t>();
  (void)r.Get<uint32_t>();
  map.size = r.Get<uint64_t>();
  return map;
}

Result<uint32_t> DecodeUnmap(std::span<const std::byte> body) {
  if (body.size() != 8) return WrongLength("UNMAP", body.size());
  return Reader(body).Get<uint32_t>();
}

Status DecodeCopyOk(std::span<const std::byte> body, std::vector<uint64_t>* sums) {
  sums->clear();
  if (body.size() < 8) return WrongLength("COPY_OK", body.size());
  Reader r(body);
  const auto count = r.Get<uint64_t>();
  if (count > kMaxSums || r.left() != count * 8) return WrongLength("COPY_OK", body.size());
  for (uint64_t i = 0; i < count; ++i) sums->push_back(r.Get<uint64_t>());
  return Ok();
}

Error DecodeError(std::span<const std::byte> body, bool* well_formed) {
  *well_formed = false;
  if (body.size() < 4) return WrongLength("ERROR", body.size());
  Reader r(body);
  const auto name_bytes = r.Get<uint16_t>();
  const auto message_bytes = r.Get<uint16_t>();
  if (name_bytes > kMaxNameBytes || message_bytes > kMaxMessageBytes ||
      r.left() != size_t{name_bytes} + message_bytes) {
    return WrongLength("ERROR", body.size());
  }
  std::string name(name_bytes, '\0');
  std::string message(message_bytes, '\0');
  r.Bytes(name.data(), name.size());
  r.Bytes(message.data(), message.size());
  // The sentence may end up in a RESP reply or a log line, where a line break would start a new one.
  std::replace_if(message.begin(), message.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  *well_formed = true;
  return Error(ErrorFromName(name), std::move(message));
}

std::string VersionText(int major, int minor) { return fmt::format("{}.{}", major, minor); }

}  // namespace tiercel::transfer
