#include "tools/tiercel-dump/record_json.h"

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace tiercel::dump {
namespace {

using Json = nlohmann::ordered_json;
using core::Record;
using Kind = Record::Kind;

// As RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (length == 0 || text.size() - i < length) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    const uint8_t second = length > 1 ? static_cast<uint8_t>(text[i + 1]) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

void AddText(const std::string& name, std::string_view text, Json* out) {
  if (IsUtf8(text)) {
    (*out)[name] = text;
    return;
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  (*out)[name + "-hex"] = hex;
}

Json ReplicaJson(const core::ReplicaInfo& replica) {
  Json out;
  out["tier"] = TierName(replica.tier);
  out["store"] = replica.store;
  out["segment"] = replica.place.segment;
  out["epoch"] = replica.place.epoch;
  out["extents"] = Json::array();
  for (const Extent& extent : replica.extents) out["extents"].push_back({extent.offset, extent.length});
  return out;
}

void AddObject(const Record& r, Json* out) {
  (*out)["version"] = r.version.value;
  (*out)["namespace"] = r.name_space;
  AddText("key", r.key, out);
  (*out)["size"] = r.size;
  (*out)["sum"] = FormatHex64(r.sum);
  (*out)["flags"] = r.flags;
  if (r.expire_at_ms != 0) (*out)["expire-at-ms"] = r.expire_at_ms;
  if (r.soft_pin_until_ms != 0) (*out)["soft-pin-until-ms"] = r.soft_pin_until_ms;
  if (r.parent_hash != 0) (*out)["parent-hash"] = FormatHex64(r.parent_hash);
  if (r.number != 0) (*out)["survived-floor"] = r.number;
  (*out)["replicas"] = Json::array();
  for (const core::ReplicaInfo& replica : r.replicas) (*out)["replicas"].push_back(ReplicaJson(replica));
}

void AddStore(const Record& r, Json* out) {
  (*out)["store"] = r.store;
  AddText("name", r.name, out);
  AddText("storage-id", r.storage_id, out);
  AddText("host", r.host, out);
  (*out)["incarnation"] = FormatHex64(r.incarnation.value);
}

void AddSegment(const Record& r, Json* out) {
  (*out)["store"] = r.store;
  (*out)["tier"] = TierName(r.tier);
  (*out)["segment"] = r.place.segment;
  (*out)["epoch"] = r.place.epoch;
  (*out)["size"] = r.size;
  AddText("name", r.name, out);
}

}  // namespace

std::string RecordJson(const Record& record) {
  Json out;
  switch (record.kind) {
    case Kind::kPut:
      out["type"] = "object";
      AddObject(record, &out);
      break;
    case Kind::kStore:
      out["type"] = "store";
      AddStore(record, &out);
      break;
    case Kind::kSegment:
      out["type"] = "segment";
      AddSegment(record, &out);
      break;
    case Kind::kNamespace:
      out["type"] = "namespace";
      out["namespace"] = record.name_space;
      out["floor"] = record.number;
      break;
    case Kind::kGeneration:
      out["type"] = "generation";
      out["generation"] = record.number;
      break;
    case Kind::kDelete: out["type"] = "delete"; break;  // never stored
  }
  return out.dump();
}

}  // namespace tiercel::dump
