// Entries of the index on any bytes. The first byte picks the family and whether the value's sum is made right first,
// so that what lies behind the sum is reached too; the second is the key's length. What decodes encodes to the same
// bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/checksum.h"
#include "server/index/bytes.h"
#include "server/index/record_codec.h"

namespace {

using namespace tiercel;         // NOLINT
using namespace tiercel::index;  // NOLINT

void Reseal(std::string_view key, std::string* value) {
  const uint64_t sum = HashBytes(std::as_bytes(std::span(*value))) ^ HashBytes(std::as_bytes(std::span(key)));
  AppendFixed32(static_cast<uint32_t>(sum ^ (sum >> 32)), value);
}

void Object(std::string_view key, std::string_view value) {
  core::Record record;
  if (DecodeObject(key, value, &record) != DecodeFault::kNone) return;
  TIERCEL_CHECK(record.key.size() <= kMaxKeyBytes && record.replicas.size() <= kMaxReplicas);
  for (const core::ReplicaInfo& replica : record.replicas) {
    TIERCEL_CHECK(replica.extents.bytes() == StoredBytes(record.size));
  }
  std::string again_key, again;
  AppendObjectKey(record.version, &again_key);
  AppendObjectValue(again_key, record, &again);
  TIERCEL_CHECK(again_key == key && again == value);
}

void Meta(std::string_view key, std::string_view value) {
  core::Record record;
  if (DecodeMeta(key, value, &record) != DecodeFault::kNone) return;
  std::string again_key, again;
  AppendMetaKey(record, &again_key);
  AppendMetaValue(again_key, record, &again);
  TIERCEL_CHECK(again_key == key && again == value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t key_bytes = data[1] < rest.size() ? data[1] : rest.size();
  const std::string_view key = rest.substr(0, key_bytes);
  std::string value(rest.substr(key_bytes));
  if ((data[0] & 2) != 0) Reseal(key, &value);
  if ((data[0] & 1) != 0) {
    Meta(key, value);
  } else {
    Object(key, value);
  }
  return 0;
}
