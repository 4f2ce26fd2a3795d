#include "server/net/answer_value.h"

#include "server/net/local_value.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

// The first replica in this process whose bytes are right; bad ones are reported on the way.
const core::ReplicaInfo* FindRightReplica(CommandContext& c, const core::KeyRef& key, const core::ObjectInfo& info,
                                          const core::LocalSegment** segment) {
  for (const core::ReplicaInfo& replica : info.replicas) {
    const Incarnation store = c.master().store(replica.store).incarnation;
    *segment = c.server.ports.payload->FindLocal(store, replica.place);
    if (*segment == nullptr) continue;
    const uint64_t sum = LocalValue(*segment, &replica.extents).Hash(0, info.size, &c.session().worker().hasher());
    if (ObjectSum(key.hash, info.size, {&sum, info.size > 0 ? size_t{1} : 0}) == info.sum) return &replica;
    static_cast<void>(c.master().Report(key, info.version, store, replica.place, ErrorCode::kChecksum, c.now).ok());
  }
  return nullptr;
}

void AppendRange(const core::LocalSegment* segment, const core::ReplicaInfo& replica, uint64_t from, uint64_t length,
                 std::string* out) {
  LocalValue(segment, &replica.extents).ForEach(from, length, [&](std::span<std::byte> piece) {
    out->append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
}

}  // namespace

core::LookupOptions PlainRead(const CommandContext& c) {
  core::LookupOptions options;
  options.lease = false;
  options.touch = !c.state.no_touch;
  return options;
}

Outcome AnswerValue(CommandContext& c, const core::KeyRef& key, const core::ObjectInfo& info, uint64_t from,
                    uint64_t length, bool more) {
  const Outcome answered = more ? Outcome::kMore : Outcome::kDone;
  if (length == 0) {
    c.reply.Bulk({});
    return answered;
  }
  if (info.size <= kInlineValueBytes) {
    const core::LocalSegment* segment = nullptr;
    if (const core::ReplicaInfo* replica = FindRightReplica(c, key, info, &segment)) {
      c.reply.BulkHeader(length);
      AppendRange(segment, *replica, from, length, c.reply.out());
      c.reply.Raw("\r\n");
      return answered;
    }
  }
  core::ObjectInfo& pinned = c.session().worker().object_scratch();
  if (!c.master().BeginRead(key, c.now, &pinned)) {
    // Its last replica was dropped as bad by the report above.
    c.Fail(ErrorCode::kChecksum, "the value's bytes do not match its checksum");
    return answered;
  }
  return c.session().Send(c.master(), key, pinned, from, length, c.now, more);
}

bool ReadSmall(CommandContext& c, const core::KeyRef& key, const core::ObjectInfo& info, std::string* out) {
  if (info.size > kInlineValueBytes) return false;
  const core::LocalSegment* segment = nullptr;
  const core::ReplicaInfo* replica = FindRightReplica(c, key, info, &segment);
  if (replica == nullptr) return false;
  AppendRange(segment, *replica, 0, info.size, out);
  return true;
}

}  // namespace tiercel::net
