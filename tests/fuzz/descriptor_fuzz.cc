// Replicas and grants as text: what can be read is written the same way again, and read as the same.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/grant.h"
#include "protocol/resp/descriptor.h"

namespace tiercel::resp {
namespace {

std::string Line(const ReplicaDescriptor& replica) {
  std::string line;
  AppendReplica(replica.tier, replica.store, replica.incarnation, replica.place, replica.extents,
                replica.has_grant ? &replica.grant : nullptr, &line);
  return line;
}

void CheckReplica(std::string_view text) {
  const auto replica = ParseReplica(text);
  if (!replica.ok()) {
    TIERCEL_CHECK(replica.error().code() == ErrorCode::kPeerProtocol);
    TIERCEL_CHECK(replica.error().message().find_first_of("\r\n") == std::string::npos);
    return;
  }
  TIERCEL_CHECK(replica->extents.size() <= kMaxExtents);
  TIERCEL_CHECK(replica->extents.bytes() >= replica->extents.size());
  const std::string line = Line(*replica);
  const auto again = ParseReplica(line);
  TIERCEL_CHECK(again.ok());
  TIERCEL_CHECK(Line(*again) == line);
  TIERCEL_CHECK(again->extents == replica->extents);
}

void CheckParts(std::string_view text) {
  if (const auto store = ParseStoreRef(text); store.ok()) TIERCEL_CHECK(!store->first.empty());
  if (const auto extents = ParseExtents(text); extents.ok()) TIERCEL_CHECK(extents->size() <= kMaxExtents);
  (void)ParseSegmentRef(text).ok();
  if (const auto grant = ParseGrantText(text)) {
    std::string written;
    AppendGrantText(*grant, &written);
    const auto again = ParseGrantText(written);
    TIERCEL_CHECK(again.has_value());
    TIERCEL_CHECK(again->mac == grant->mac);
    TIERCEL_CHECK(again->version == grant->version);
    TIERCEL_CHECK(again->expiry_ms == grant->expiry_ms);
  }
  if (const auto ticket = ParseTicketText(text)) TIERCEL_CHECK(ParseTicketText(TicketText(*ticket)).has_value());
}

}  // namespace
}  // namespace tiercel::resp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tiercel::resp::CheckReplica(text);
  tiercel::resp::CheckParts(text);
  return 0;
}
