// PUTSTART, PUTRENEW, PUTEND, PUTREVOKE: the life of a put whose bytes the client moves by itself.
#include <fmt/format.h>

#include <array>

#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/placement.h"
#include "server/net/replica_reply.h"
#include "server/net/server_shared.h"

namespace tiercel::net {
namespace {

constexpr size_t kMaxGroupBytes = 256;
constexpr int64_t kMaxPriority = 100;
constexpr size_t kMaxStoreNameBytes = 255;

Status ReadPutOption(OptionReader& reader, Times now, core::PutOptions* options) {
  if (reader.Is("REPLACE")) {
    options->replace = true;
  } else if (reader.Is("REPLICAS")) {
    TIERCEL_ASSIGN(const int64_t replicas, reader.Integer(1, kMaxReplicas));
    options->replicas = static_cast<uint32_t>(replicas);
  } else if (reader.Is("STRICT")) {
    options->strict = true;
  } else if (reader.Is("TIER")) {
    TIERCEL_ASSIGN(options->tier, reader.TierName());
  } else if (reader.Is("ACK")) {
    TIERCEL_ASSIGN(const Tier tier, reader.TierName());
    if (tier != Tier::kDram) {
      return Error(ErrorCode::kInvalid,
                   fmt::format("ACK is {}, allowed is dram: no other tier is served", TierName(tier)));
    }
  } else if (reader.Is("PREFER")) {
    TIERCEL_ASSIGN(const std::string_view store, reader.Text());
    TIERCEL_ASSIGN(options->prefer, ReadName("PREFER", store, kMaxStoreNameBytes));
  } else if (reader.Is("EXCLUDE")) {
    TIERCEL_ASSIGN(const std::string_view store, reader.Text());
    TIERCEL_ASSIGN(options->exclude, ReadName("EXCLUDE", store, kMaxStoreNameBytes));
  } else if (reader.Is("PARENT")) {
    TIERCEL_ASSIGN(const std::string_view parent, reader.Text());
    TIERCEL_TRY(CheckKey("PARENT", parent));
    options->parent = parent;
  } else if (reader.Is("GROUP")) {
    TIERCEL_ASSIGN(const std::string_view group, reader.Text());
    TIERCEL_ASSIGN(options->group, ReadName("GROUP", group, kMaxGroupBytes));
  } else if (reader.Is("PX")) {
    TIERCEL_ASSIGN(const int64_t ms, reader.Integer(1, INT64_MAX - now.wall_ms));
    options->expire_at_ms = now.wall_ms + ms;
  } else if (reader.Is("SOFTPIN")) {
    TIERCEL_ASSIGN(options->soft_pin_ms, reader.Integer(0, INT64_MAX));
  } else if (reader.Is("HARDPIN")) {
    options->hard_pin = true;
  } else if (reader.Is("PRIORITY")) {
    TIERCEL_ASSIGN(const int64_t priority, reader.Integer(-kMaxPriority, kMaxPriority));
    options->priority = static_cast<int>(priority);
  } else {
    return reader.Unknown();
  }
  return Ok();
}

// Under `allocation-strategy local-first` a caller that told where it is prefers a store of its own host.
std::string_view StoreNear(const CommandContext& c) {
  if (c.master().options().allocation_strategy != core::AllocationStrategy::kLocalFirst) return {};
  if (c.state.host_id.empty()) return {};
  for (const core::StoreSlot slot : c.master().Stores()) {
    const core::StoreInfo& store = c.master().store(slot);
    if (store.state == core::StoreInfo::State::kServing && SameHost(c.state.host_id, store.host)) return store.name;
  }
  return {};
}

void ReplyPlan(CommandContext& c, const core::PutPlan& plan) {
  resp::Encoder& reply = c.reply;
  switch (plan.outcome) {
    case core::PutOutcome::kCreated:
      reply.Map(5);
      Field<"outcome">(reply), reply.Bulk("created");
      Field<"put">(reply), reply.Integer(static_cast<int64_t>(plan.put.value));
      Field<"deadline-ms">(reply), reply.Integer(plan.deadline_ms);
      Field<"block">(reply), reply.Integer(static_cast<int64_t>(kBlockBytes));
      Field<"replicas">(reply);
      ReplyReplicas(c, plan.replicas, plan.put, Right::kWrite);
      return;
    case core::PutOutcome::kExists:
      reply.Map(4);
      Field<"outcome">(reply), reply.Bulk("exists");
      Field<"version">(reply), reply.Integer(static_cast<int64_t>(plan.put.value));
      Field<"size">(reply), reply.Integer(static_cast<int64_t>(plan.size));
      Field<"sum">(reply), ReplySum(reply, plan.sum);
      return;
    case core::PutOutcome::kBusy:
      reply.Map(3);
      Field<"outcome">(reply), reply.Bulk("busy");
      Field<"put">(reply), reply.Integer(static_cast<int64_t>(plan.put.value));
      Field<"age-ms">(reply), reply.Integer(plan.age_ms);
      return;
  }
}

// The reason that a writer gives is a cause's own name, or the word of its group.
Result<ErrorCode> ReadReason(std::string_view text) {
  ErrorCode code = ErrorFromName(text);
  if (code == ErrorCode::kInternal) code = ErrorFromWord(text);
  if (code == ErrorCode::kInternal && text != InfoOf(ErrorCode::kInternal).name) {
    return Error(ErrorCode::kInvalid, "reason is no cause's name, such as UNREACHABLE or CHECKSUM");
  }
  return code;
}

struct Failures {
  std::array<core::ReplicaFailure, kMaxReplicas> all;
  size_t count = 0;
};
Status ReadFailures(OptionReader& reader, Failures* failures) {
  while (reader.Next()) {
    if (!reader.Is("FAILED")) return reader.Unknown();
    if (failures->count == failures->all.size()) {
      return Error(ErrorCode::kTooBig, fmt::format("FAILED is given more than {} times", kMaxReplicas));
    }
    core::ReplicaFailure& failure = failures->all[failures->count++];
    TIERCEL_ASSIGN(const int64_t index, reader.Integer(0, kMaxReplicas - 1));
    failure.index = static_cast<uint32_t>(index);
    TIERCEL_ASSIGN(const std::string_view reason, reader.Text());
    TIERCEL_ASSIGN(failure.reason, ReadReason(reason));
  }
  return Ok();
}

}  // namespace

Outcome DoPutStart(CommandContext& c) {
  if (const Status key = CheckKey("key", c.arg(1)); !key.ok()) return c.Fail(key.error());
  const Result<uint64_t> size = ReadValueSize(c.arg(2));
  if (!size.ok()) return c.Fail(size.error());
  core::PutOptions options;
  OptionReader reader(c.args, 3);
  while (reader.Next()) {
    if (const Status read = ReadPutOption(reader, c.now, &options); !read.ok()) return c.Fail(read.error());
  }
  if (options.prefer.empty()) options.prefer = StoreNear(c);

  const Result<core::PutPlan> plan = c.master().PutStart(c.caller(), c.Key(1), *size, options, c.now);
  if (plan.ok()) {
    ReplyPlan(c, *plan);
    return Outcome::kDone;
  }
  // Eviction, or a store that closes a put, may make room soon; but not more than there is in all.
  const int64_t wait_ms = c.server.limits.put_wait_ms.load(std::memory_order_relaxed);
  if (plan.error().code() == ErrorCode::kNoSpace && !c.progress().timed_out && wait_ms > 0 &&
      RoomMayCome(c.master(), options.tier, *size)) {
    return c.ParkForSpace(wait_ms);
  }
  return c.Fail(plan.error());
}

Outcome DoPutRenew(CommandContext& c) {
  const Result<Version> put = ReadVersion("put", c.arg(1));
  if (!put.ok()) return c.Fail(put.error());
  const Result<core::PutPlan> plan = c.master().PutRenew(c.caller(), *put, c.now);
  if (!plan.ok()) return c.Fail(plan.error());
  c.reply.Map(2);
  Field<"deadline-ms">(c.reply), c.reply.Integer(plan->deadline_ms);
  Field<"replicas">(c.reply);
  ReplyReplicas(c, plan->replicas, *put, Right::kWrite);
  return Outcome::kDone;
}

Outcome DoPutEnd(CommandContext& c) {
  const Result<Version> put = ReadVersion("put", c.arg(1));
  if (!put.ok()) return c.Fail(put.error());
  const Result<uint64_t> sum = ReadSum(c.arg(2));
  if (!sum.ok()) return c.Fail(sum.error());
  Failures failures;
  OptionReader reader(c.args, 3);
  if (const Status read = ReadFailures(reader, &failures); !read.ok()) return c.Fail(read.error());
  const Result<uint32_t> published =
      c.master().PutEnd(c.caller(), *put, *sum, std::span(failures.all).first(failures.count), c.now);
  if (!published.ok()) return c.Fail(published.error());
  c.reply.Integer(*published);
  return Outcome::kDone;
}

Outcome DoPutRevoke(CommandContext& c) {
  const Result<Version> put = ReadVersion("put", c.arg(1));
  if (!put.ok()) return c.Fail(put.error());
  const Result<bool> revoked = c.master().PutRevoke(c.caller(), *put, c.now);
  if (!revoked.ok()) return c.Fail(revoked.error());
  c.reply.Integer(*revoked ? 1 : 0);
  return Outcome::kDone;
}

}  // namespace tiercel::net
