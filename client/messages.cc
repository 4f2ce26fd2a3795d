#include "client/messages.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/units.h"

namespace tiercel::client {
namespace {

using resp::Reply;

constexpr size_t kMaxStores = 65'536;

Error Odd(std::string_view what) {
  return Error(ErrorCode::kPeerProtocol, fmt::format("the master's reply has no usable {}", what));
}

// An unsigned field: an integer, or text with one (a simple or bulk string).
Result<uint64_t> Number(const Reply& map, std::string_view name) {
  const Reply* field = map.Field(name);
  if (field == nullptr) return Odd(name);
  if (field->kind == Reply::Kind::kInteger && field->integer >= 0) return static_cast<uint64_t>(field->integer);
  if (field->kind == Reply::Kind::kBulk || field->kind == Reply::Kind::kSimple) {
    if (auto number = ParseUint64(field->text)) return *number;
  }
  return Odd(name);
}

Result<uint64_t> Sum(const Reply& map) {
  const Reply* field = map.Field("sum");
  if (field == nullptr) return Odd("sum");
  auto sum = ParseHex64(field->text);
  if (!sum) return Odd("sum");
  return *sum;
}

std::string Text(const Reply& map, std::string_view name) {
  const Reply* field = map.Field(name);
  return field == nullptr ? std::string() : field->text;
}

// `skip`: replicas that this client does not understand (a newer master's) are left out, unless none is left.
Result<std::vector<resp::ReplicaDescriptor>> Replicas(const Reply& map, uint64_t size, bool skip) {
  const Reply* list = map.Field("replicas");
  if (list == nullptr || list->kind != Reply::Kind::kArray || list->items.size() > 4096) return Odd("replicas");
  std::vector<resp::ReplicaDescriptor> replicas;
  replicas.reserve(list->items.size());
  for (const Reply& line : list->items) {
    auto replica = resp::ParseReplica(line.text);
    if (replica.ok() && replica->extents.bytes() == StoredBytes(size)) {
      replicas.push_back(std::move(replica).value());
    } else if (!skip) {
      return Odd("place for a replica");
    }
  }
  if (replicas.empty()) return Odd("replica");
  return replicas;
}

}  // namespace

Words PutStartWords(std::string_view key, uint64_t size, const PutOptions& options, std::string_view exclude) {
  Words words{"PUTSTART", key};
  words.AddNumber(static_cast<int64_t>(size));
  if (options.replace) words.Add("REPLACE");
  if (options.replicas != 1 || options.strict_replicas) words.Add("REPLICAS").AddNumber(options.replicas);
  if (options.strict_replicas) words.Add("STRICT");
  if (!options.preferred_store.empty()) words.Add("PREFER").Add(options.preferred_store);
  if (!exclude.empty()) words.Add("EXCLUDE").Add(exclude);
  if (!options.parent.empty()) words.Add("PARENT").Add(options.parent);
  if (options.ttl_ms) words.Add("PX").AddNumber(*options.ttl_ms);
  if (options.soft_pin_ms) words.Add("SOFTPIN").AddNumber(*options.soft_pin_ms);
  if (options.hard_pin) words.Add("HARDPIN");
  return words;
}

Words LookUpWords(std::string_view key, const std::optional<int64_t>& lease_ms, bool lease) {
  Words words{"GETREPLICAS", key};
  AddLeaseWords(lease_ms, lease, &words);
  return words;
}

void AddLeaseWords(const std::optional<int64_t>& lease_ms, bool lease, Words* words) {
  if (!lease) {
    words->Add("NOLEASE");
  } else if (lease_ms) {
    words->Add("LEASE").AddNumber(*lease_ms);
  }
}

Result<std::optional<Found>> ParseFound(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  if (reply.is_null()) return std::optional<Found>();
  Found found;
  TIERCEL_ASSIGN(found.version.value, Number(reply, "version"));
  TIERCEL_ASSIGN(found.size, Number(reply, "size"));
  if (found.size > kMaxValueBytes) return Odd("size");
  TIERCEL_ASSIGN(found.sum, Sum(reply));
  TIERCEL_ASSIGN(uint64_t lease_ms, Number(reply, "lease-ms"));
  found.lease_ms = static_cast<int64_t>(std::min<uint64_t>(lease_ms, INT64_MAX / 4));
  TIERCEL_ASSIGN(found.replicas, Replicas(reply, found.size, true));
  return std::optional<Found>(std::move(found));
}

Result<Plan> ParseRenewed(const Reply& reply, uint64_t size) {
  if (reply.is_error()) return reply.ToError();
  Plan plan;
  TIERCEL_ASSIGN(uint64_t deadline_ms, Number(reply, "deadline-ms"));
  plan.deadline_ms = static_cast<int64_t>(std::min<uint64_t>(deadline_ms, INT64_MAX / 4));
  TIERCEL_ASSIGN(plan.replicas, Replicas(reply, size, false));
  return plan;
}

Result<Plan> ParsePlan(const Reply& reply, uint64_t size) {
  if (reply.is_error()) return reply.ToError();
  Plan plan;
  std::string outcome = Text(reply, "outcome");
  if (outcome == "created") {
    TIERCEL_ASSIGN(plan, ParseRenewed(reply, size));
    TIERCEL_ASSIGN(plan.put.value, Number(reply, "put"));
  } else if (outcome == "exists") {
    plan.outcome = Plan::Outcome::kExists;
    TIERCEL_ASSIGN(plan.put.value, Number(reply, "version"));
    TIERCEL_ASSIGN(plan.size, Number(reply, "size"));
    TIERCEL_ASSIGN(plan.sum, Sum(reply));
  } else if (outcome == "busy") {
    plan.outcome = Plan::Outcome::kBusy;
    TIERCEL_ASSIGN(plan.put.value, Number(reply, "put"));
    TIERCEL_ASSIGN(uint64_t age_ms, Number(reply, "age-ms"));
    plan.age_ms = static_cast<int64_t>(std::min<uint64_t>(age_ms, INT64_MAX));
  } else {
    return Odd("outcome");
  }
  return plan;
}

static void ParseTiers(const Reply& tiers, StoreStat* stat) {
  // A map from a tier's name to its bytes.
  for (size_t i = 0; i + 1 < tiers.items.size(); i += 2) {
    const Reply& bytes = tiers.items[i + 1];
    StoreStat::Space space{.tier = tiers.items[i].text,
                           .size = Number(bytes, "size").value_or(0),
                           .used = Number(bytes, "used").value_or(0),
                           .free = Number(bytes, "free").value_or(0),
                           .quarantined = Number(bytes, "quarantined").value_or(0)};
    stat->capacity_bytes += space.size;
    stat->used_bytes += space.used;
    stat->free_bytes += space.free;
    stat->tiers.push_back(std::move(space));
  }
}

Result<std::vector<StoreStat>> ParseStores(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  if (reply.kind != Reply::Kind::kArray || reply.items.size() > kMaxStores) return UnexpectedReply("STORES", reply);
  std::vector<StoreStat> stores;
  for (const Reply& map : reply.items) {
    StoreStat stat;
    stat.name = Text(map, "name");
    if (stat.name.empty()) return Odd("name");
    auto incarnation = ParseHex64(Text(map, "incarnation"));
    if (!incarnation) return Odd("incarnation");
    stat.incarnation.value = *incarnation;
    stat.state = Text(map, "state");
    stat.host = Text(map, "host");
    stat.address = Text(map, "data-address");
    stat.socket = Text(map, "data-socket");
    if (const Reply* list = map.Field("transports")) {
      for (const Reply& word : list->items) stat.transports.push_back(word.text);
    }
    if (const Reply* tiers = map.Field("tiers")) ParseTiers(*tiers, &stat);
    stores.push_back(std::move(stat));
  }
  return stores;
}

Result<int64_t> ParseInteger(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  if (reply.kind != Reply::Kind::kInteger) return UnexpectedReply("the command", reply);
  return reply.integer;
}

Status ParseOk(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  if (reply.kind != Reply::Kind::kSimple) return UnexpectedReply("the command", reply);
  return Ok();
}

Error UnexpectedReply(std::string_view command, const Reply& reply) {
  return Error(ErrorCode::kPeerProtocol,
               fmt::format("the master answered {} with a reply of kind {}", command, static_cast<int>(reply.kind)));
}

Status CheckKey(std::string_view key) {
  if (key.empty()) return Error(ErrorCode::kInvalid, "the key is empty; a key has 1 to 16384 bytes");
  if (key.size() > kMaxKeyBytes) {
    return Error(ErrorCode::kTooBig, fmt::format("the key has {} bytes, the limit is {}", key.size(), kMaxKeyBytes));
  }
  return Ok();
}

Status CheckValueSize(uint64_t size) {
  if (size > kMaxValueBytes) {
    return Error(ErrorCode::kTooBig, fmt::format("the value has {} bytes, the limit is {}", size, kMaxValueBytes));
  }
  return Ok();
}

}  // namespace tiercel::client
