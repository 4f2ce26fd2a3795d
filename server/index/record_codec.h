// How records lie in the database: keys and values of its two column families, byte by byte as docs/index-format.md
// says. Pure; no value is trusted: each carries a checksum over its key and itself, and decoding checks every bound
// before it allocates.
//
// Encoding is canonical: what decodes encodes to the same bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/core/record.h"

namespace tiercel::index {

// Of the layout of keys and values. Raise it with every change that an older program would misread, and add a
// migration (migrate.h).
inline constexpr uint32_t kIndexFormat = 1;

// More than this is no value of ours: a key, 16 replicas of 256 extents, and a few numbers.
inline constexpr size_t kMaxValueEncodedBytes = 256 * 1024;

// ---- column family "objects": version, 8 bytes big-endian -> object

void AppendObjectKey(Version version, std::string* out);
std::optional<Version> DecodeObjectKey(std::string_view key);
// REQUIRES: a key of 1 to kMaxKeyBytes, at most kMaxReplicas replicas of at most kMaxExtents extents.
void AppendObjectValue(std::string_view key, const core::Record& record, std::string* out);

// ---- column family "default": one byte of type, then what identifies it

enum class MetaType : uint8_t {
  kFormat = 0x01,
  kGeneration = 0x02,
  kStore = 0x10,     // slot, 4 bytes big-endian
  kSegment = 0x20,   // slot, segment, each 4 bytes big-endian
  kNamespace = 0x30  // namespace, 4 bytes big-endian
};

// Key of a kSegment, kStore, kGeneration or kNamespace record.
void AppendMetaKey(const core::Record& record, std::string* out);
void AppendMetaValue(std::string_view key, const core::Record& record, std::string* out);

std::string FormatKey();
std::string FormatValue(uint32_t format);
std::optional<uint32_t> DecodeFormat(std::string_view value);

// ---- reading

enum class DecodeFault : uint8_t {
  kNone,
  kChecksum,   // the value is not the one that was written under this key
  kMalformed,  // intact, but nothing that this program writes
};

// Fills *record from an entry of "objects" or "default" (not the format). `record` is reused: strings and lists keep
// their memory.
DecodeFault DecodeObject(std::string_view key, std::string_view value, core::Record* record);
DecodeFault DecodeMeta(std::string_view key, std::string_view value, core::Record* record);

}  // namespace tiercel::index
