#include "server/index/record_codec.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "server/index/bytes.h"

namespace tiercel::index {
namespace {

using core::Record;
using Kind = Record::Kind;

// First byte of each value: which fields it has. The upper bits are for later layouts and must be 0.
enum ObjectFields : uint8_t { kExpires = 1, kSoftPinned = 2, kHasParent = 4, kSurvivedFloor = 8 };
constexpr uint8_t kObjectFields = kExpires | kSoftPinned | kHasParent | kSurvivedFloor;

constexpr size_t kSumBytes = 4;
constexpr size_t kMaxNameBytes = 256;  // of stores, segments, hosts, storage ids, as the core bounds them
constexpr uint64_t kMaxOffset = uint64_t{1} << 44;

uint32_t SumOf(std::string_view key, std::string_view value) {
  // The key seeds the sum, so that a value found under another key does not pass.
  const uint64_t seed = HashBytes(std::as_bytes(std::span(key)));
  const uint64_t sum = HashBytes(std::as_bytes(std::span(value)));
  return static_cast<uint32_t>((sum ^ seed) ^ ((sum ^ seed) >> 32));
}

// `from` is where the value begins in *out.
void Seal(std::string_view key, size_t from, std::string* out) {
  AppendFixed32(SumOf(key, std::string_view(*out).substr(from)), out);
}

// The value without its sum, or nothing when that is wrong.
std::optional<std::string_view> Unseal(std::string_view key, std::string_view value) {
  if (value.size() < kSumBytes || value.size() > kMaxValueEncodedBytes) return std::nullopt;
  const std::string_view body = value.substr(0, value.size() - kSumBytes);
  if (ByteReader(value.substr(body.size())).Fixed32() != SumOf(key, body)) return std::nullopt;
  return body;
}

// Forgets what another record left, and keeps the memory.
void Reset(Kind kind, Record* record) {
  record->seq = 0;
  record->kind = kind;
  record->version = {};
  record->name_space = 0;
  record->key.clear();
  record->size = record->sum = 0;
  record->flags = 0;
  record->expire_at_ms = record->soft_pin_until_ms = 0;
  record->parent_hash = 0;
  record->replicas.clear();
  record->name.clear();
  record->number = 0;
  record->again = record->gone = false;
  record->store = 0;
  record->tier = Tier::kDram;
  record->place = {};
  record->storage_id.clear();
  record->host.clear();
  record->incarnation = {};
}

// ---- replicas

void AppendReplica(const core::ReplicaInfo& replica, std::string* out) {
  TIERCEL_CHECK(replica.extents.size() <= kMaxExtents);
  out->push_back(static_cast<char>(replica.tier));
  AppendVarint(replica.store, out);
  AppendVarint(replica.place.segment, out);
  AppendVarint(replica.place.epoch, out);
  AppendVarint(replica.extents.size(), out);
  for (const Extent& extent : replica.extents) {
    AppendVarint(extent.offset, out);
    AppendVarint(extent.length, out);
  }
}

void ReadReplica(uint64_t stored_bytes, ByteReader* in, core::ReplicaInfo* replica) {
  const uint8_t tier = in->Byte();
  if (tier >= kTierCount) in->Fail();
  replica->tier = static_cast<Tier>(tier);
  replica->store = static_cast<core::StoreSlot>(in->Varint(UINT32_MAX));
  replica->place.segment = static_cast<uint32_t>(in->Varint(UINT32_MAX));
  replica->place.epoch = static_cast<uint32_t>(in->Varint(UINT32_MAX));
  const uint64_t extents = in->Varint(kMaxExtents);
  uint64_t total = 0;
  for (uint64_t i = 0; i < extents && in->ok(); ++i) {
    const uint64_t offset = in->Varint(kMaxOffset);
    const uint64_t length = in->Varint(kMaxOffset);
    if (length == 0) in->Fail();
    total += length;  // at most 2^8 times 2^44
    replica->extents.push_back({offset, length});
  }
  if (total != stored_bytes) in->Fail();
}

}  // namespace

// ---- objects

void AppendObjectKey(Version version, std::string* out) { AppendBig64(version.value, out); }

std::optional<Version> DecodeObjectKey(std::string_view key) {
  ByteReader in(key);
  const Version version{in.Big64()};
  if (!in.at_end() || !version) return std::nullopt;
  return version;
}

void AppendObjectValue(std::string_view key, const Record& record, std::string* out) {
  TIERCEL_CHECK(!record.key.empty() && record.key.size() <= kMaxKeyBytes);
  TIERCEL_CHECK(record.replicas.size() <= kMaxReplicas);
  const size_t from = out->size();
  const uint8_t fields = (record.expire_at_ms != 0 ? kExpires : 0) | (record.soft_pin_until_ms != 0 ? kSoftPinned : 0) |
                         (record.parent_hash != 0 ? kHasParent : 0) | (record.number != 0 ? kSurvivedFloor : 0);
  out->push_back(static_cast<char>(fields));
  AppendVarint(record.name_space, out);
  AppendBytes(record.key, out);
  AppendVarint(record.size, out);
  AppendFixed64(record.sum, out);
  AppendVarint(record.flags, out);
  if ((fields & kExpires) != 0) AppendVarint(ZigZag(record.expire_at_ms), out);
  if ((fields & kSoftPinned) != 0) AppendVarint(ZigZag(record.soft_pin_until_ms), out);
  if ((fields & kHasParent) != 0) AppendFixed64(record.parent_hash, out);
  if ((fields & kSurvivedFloor) != 0) AppendVarint(record.number, out);
  AppendVarint(record.replicas.size(), out);
  for (const core::ReplicaInfo& replica : record.replicas) AppendReplica(replica, out);
  Seal(key, from, out);
}

DecodeFault DecodeObject(std::string_view key, std::string_view value, Record* record) {
  const std::optional<std::string_view> body = Unseal(key, value);
  if (!body) return DecodeFault::kChecksum;
  const std::optional<Version> version = DecodeObjectKey(key);
  if (!version) return DecodeFault::kMalformed;
  Reset(Kind::kPut, record);
  record->version = *version;
  ByteReader in(*body);
  const uint8_t fields = in.Byte();
  if ((fields & ~kObjectFields) != 0) return DecodeFault::kMalformed;
  record->name_space = static_cast<uint32_t>(in.Varint(UINT32_MAX));
  record->key = in.Bytes(1, kMaxKeyBytes);
  record->size = in.Varint(kMaxValueBytes);
  record->sum = in.Fixed64();
  record->flags = static_cast<uint32_t>(in.Varint(UINT32_MAX));
  // A field that is there is not 0.
  bool zero = false;
  if ((fields & kExpires) != 0) zero |= (record->expire_at_ms = UnZigZag(in.Varint())) == 0;
  if ((fields & kSoftPinned) != 0) zero |= (record->soft_pin_until_ms = UnZigZag(in.Varint())) == 0;
  if ((fields & kHasParent) != 0) zero |= (record->parent_hash = in.Fixed64()) == 0;
  if ((fields & kSurvivedFloor) != 0) zero |= (record->number = in.Varint()) == 0;
  const uint64_t replicas = in.Varint(kMaxReplicas);
  for (uint64_t i = 0; i < replicas && in.ok(); ++i) {
    ReadReplica(StoredBytes(record->size), &in, &record->replicas.emplace_back());
  }
  return in.at_end() && !zero ? DecodeFault::kNone : DecodeFault::kMalformed;
}

// ---- the rest

void AppendMetaKey(const Record& record, std::string* out) {
  const auto type = [out](MetaType t) { out->push_back(static_cast<char>(t)); };
  switch (record.kind) {
    case Kind::kStore:
      type(MetaType::kStore);
      AppendBig32(record.store, out);
      return;
    case Kind::kSegment:
      type(MetaType::kSegment);
      AppendBig32(record.store, out);
      AppendBig32(record.place.segment, out);
      return;
    case Kind::kNamespace:
      type(MetaType::kNamespace);
      AppendBig32(record.name_space, out);
      return;
    case Kind::kGeneration: type(MetaType::kGeneration); return;
    case Kind::kPut:
    case Kind::kDelete: break;
  }
  TIERCEL_CHECK(false, "objects have a column family of their own");
}

void AppendMetaValue(std::string_view key, const Record& record, std::string* out) {
  const size_t from = out->size();
  out->push_back(0);
  if (record.kind == Kind::kStore) {
    for (const std::string* text : {&record.name, &record.storage_id, &record.host}) {
      TIERCEL_CHECK(text->size() <= kMaxNameBytes);
      AppendBytes(*text, out);
    }
    AppendFixed64(record.incarnation.value, out);
  } else if (record.kind == Kind::kSegment) {
    TIERCEL_CHECK(record.name.size() <= kMaxNameBytes);
    out->push_back(static_cast<char>(record.tier));
    AppendVarint(record.place.epoch, out);
    AppendVarint(record.size, out);
    AppendBytes(record.name, out);
  } else {
    AppendVarint(record.number, out);
  }
  Seal(key, from, out);
}

namespace {

bool ReadMetaKey(std::string_view key, Record* record) {
  ByteReader in(key);
  switch (static_cast<MetaType>(in.Byte())) {
    case MetaType::kStore:
      Reset(Kind::kStore, record);
      record->store = in.Big32();
      break;
    case MetaType::kSegment:
      Reset(Kind::kSegment, record);
      record->store = in.Big32();
      record->place.segment = in.Big32();
      break;
    case MetaType::kNamespace:
      Reset(Kind::kNamespace, record);
      record->name_space = in.Big32();
      break;
    case MetaType::kGeneration: Reset(Kind::kGeneration, record); break;
    case MetaType::kFormat:
    default: return false;
  }
  return in.at_end();
}

}  // namespace

DecodeFault DecodeMeta(std::string_view key, std::string_view value, Record* record) {
  const std::optional<std::string_view> body = Unseal(key, value);
  if (!body) return DecodeFault::kChecksum;
  if (!ReadMetaKey(key, record)) return DecodeFault::kMalformed;
  ByteReader in(*body);
  if (in.Byte() != 0) return DecodeFault::kMalformed;
  if (record->kind == Kind::kStore) {
    record->name = in.Bytes(1, kMaxNameBytes);
    record->storage_id = in.Bytes(0, kMaxNameBytes);
    record->host = in.Bytes(0, kMaxNameBytes);
    record->incarnation = {in.Fixed64()};
  } else if (record->kind == Kind::kSegment) {
    const uint8_t tier = in.Byte();
    if (tier >= kTierCount) return DecodeFault::kMalformed;
    record->tier = static_cast<Tier>(tier);
    record->place.epoch = static_cast<uint32_t>(in.Varint(UINT32_MAX));
    record->size = in.Varint(kMaxOffset);
    record->name = in.Bytes(1, kMaxNameBytes);
  } else {
    record->number = in.Varint();
  }
  return in.at_end() ? DecodeFault::kNone : DecodeFault::kMalformed;
}

// ---- the format

std::string FormatKey() { return std::string(1, static_cast<char>(MetaType::kFormat)); }

std::string FormatValue(uint32_t format) {
  std::string value;
  AppendVarint(format, &value);
  Seal(FormatKey(), 0, &value);
  return value;
}

std::optional<uint32_t> DecodeFormat(std::string_view value) {
  const std::optional<std::string_view> body = Unseal(FormatKey(), value);
  if (!body) return std::nullopt;
  ByteReader in(*body);
  const auto format = static_cast<uint32_t>(in.Varint(UINT32_MAX));
  if (!in.at_end()) return std::nullopt;
  return format;
}

}  // namespace tiercel::index
