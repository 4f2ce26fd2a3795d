// PIN, REPORT, VERIFY, OBJECT PLACES, OBJECT CHAIN: what is known about one object, and what may be asked of it.
#include <fmt/format.h>

#include "protocol/resp/descriptor.h"
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/replica_reply.h"

namespace tiercel::net {
namespace {

// One replica for people; without a grant, so that nobody reads bytes by looking.
void ReplyPlace(CommandContext& c, const core::ReplicaInfo& replica) {
  const core::StoreInfo& store = c.master().store(replica.store);
  resp::Encoder& reply = c.reply;
  std::string line;
  resp::AppendReplica(replica.tier, store.name, store.incarnation, replica.place, replica.extents, nullptr, &line);
  reply.Map(6);
  Field<"tier">(reply), reply.Bulk(TierName(replica.tier));
  Field<"store">(reply), reply.Bulk(store.name);
  Field<"store-state">(reply), reply.Bulk(StoreStateName(store.state));
  Field<"suspect">(reply), reply.Integer(replica.suspect ? 1 : 0);
  Field<"extents">(reply), reply.Integer(replica.extents.size());
  Field<"place">(reply), reply.Bulk(line);
}

}  // namespace

Outcome DoPin(CommandContext& c) {
  if (c.KeyTooLong(1) || c.IndexReadOnly()) return Outcome::kDone;
  OptionReader reader(c.args, 2);
  reader.Next();
  if (reader.Is("SOFT")) {
    const Result<int64_t> ms = reader.Integer(0, INT64_MAX);
    if (!ms.ok()) return c.Fail(ms.error());
    if (reader.Next()) return c.Fail(reader.Unknown());
    return c.Finish(c.master().PinSoft(c.Key(1), *ms, c.now));
  }
  const bool hard = reader.Is("HARD");
  if (!hard && !reader.Is("NONE")) return c.Fail(reader.Unknown());
  if (reader.Next()) return c.Fail(reader.Unknown());
  return c.Finish(hard ? c.master().PinHard(c.Key(1), c.now) : c.master().Unpin(c.Key(1), c.now));
}

Outcome DoReport(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const Result<Version> version = ReadVersion("version", c.arg(2));
  if (!version.ok()) return c.Fail(version.error());
  const auto store = resp::ParseStoreRef(c.arg(3));
  if (!store.ok()) return c.Fail(ErrorCode::kInvalid, store.error().message());
  const auto place = resp::ParseSegmentRef(c.arg(4));
  if (!place.ok()) return c.Fail(ErrorCode::kInvalid, place.error().message());
  OptionReader reader(c.args, 5);
  reader.Next();
  ErrorCode what = ErrorCode::kChecksum;
  if (reader.Is("UNREACHABLE")) {
    what = ErrorCode::kUnreachable;
  } else if (reader.Is("EXPIRED")) {
    what = ErrorCode::kLeaseExpired;
  } else if (!reader.Is("CORRUPT")) {
    return c.Fail(reader.Unknown());
  }
  return c.Finish(c.master().Report(c.Key(1), *version, store->second, *place, what, c.now));
}

Outcome DoVerify(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const Result<uint32_t> ordered = c.master().Verify(c.Key(1), c.now);
  if (!ordered.ok()) return c.Fail(ordered.error());
  c.reply.Map(1);
  Field<"ordered">(c.reply), c.reply.Integer(*ordered);
  return Outcome::kDone;
}

Outcome DoObjectPlaces(CommandContext& c) {
  if (c.KeyTooLong(2)) return Outcome::kDone;
  core::ObjectDetail object;
  resp::Encoder& reply = c.reply;
  if (!c.master().Describe(c.Key(2), c.now, &object)) {
    reply.Null();
    return Outcome::kDone;
  }
  SortForCaller(c, &object.info);
  reply.Map(13);
  Field<"state">(reply), reply.Bulk(object.state);
  Field<"version">(reply), reply.Integer(static_cast<int64_t>(object.info.version.value));
  Field<"size">(reply), reply.Integer(static_cast<int64_t>(object.info.size));
  Field<"sum">(reply), ReplySum(reply, object.info.sum);
  Field<"age-ms">(reply), reply.Integer(object.age_ms);
  Field<"idle-ms">(reply), reply.Integer(object.idle_ms);
  Field<"lease-ms">(reply), reply.Integer(object.lease_left_ms);
  Field<"ttl-ms">(reply);
  reply.Integer(object.info.expire_at_ms == 0 ? -1 : std::max<int64_t>(object.info.expire_at_ms - c.now.wall_ms, 0));
  Field<"soft-pin-ms">(reply), reply.Integer(object.soft_pin_left_ms);
  Field<"hard-pin">(reply), reply.Integer(object.hard_pin ? 1 : 0);
  Field<"group">(reply), reply.Bulk(object.group);
  Field<"depth">(reply), reply.Integer(object.depth);
  Field<"replicas">(reply);
  reply.Array(object.info.replicas.size());
  for (const core::ReplicaInfo& replica : object.info.replicas) ReplyPlace(c, replica);
  return Outcome::kDone;
}

Outcome DoObjectChain(CommandContext& c) {
  if (c.KeyTooLong(2)) return Outcome::kDone;
  core::ObjectDetail object;
  resp::Encoder& reply = c.reply;
  if (!c.master().Describe(c.Key(2), c.now, &object)) {
    reply.Null();
    return Outcome::kDone;
  }
  reply.Map(3);
  Field<"depth">(reply), reply.Integer(object.depth);
  Field<"children">(reply), reply.Integer(object.children);
  Field<"objects">(reply);
  reply.Array(1);
  reply.Map(4);
  Field<"key">(reply), reply.Bulk(c.arg(2));
  Field<"state">(reply), reply.Bulk(object.state);
  Field<"version">(reply), reply.Integer(static_cast<int64_t>(object.info.version.value));
  Field<"size">(reply), reply.Integer(static_cast<int64_t>(object.info.size));
  return Outcome::kDone;
}

}  // namespace tiercel::net
