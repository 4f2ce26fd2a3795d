#include "server/net/replica_reply.h"

#include <algorithm>
#include <utility>

#include "protocol/resp/descriptor.h"

namespace tiercel::net {
namespace {

std::string_view BootIdOf(std::string_view host) {
  const size_t slash = host.find('/');
  return slash == std::string_view::npos ? std::string_view() : host.substr(0, slash);
}

}  // namespace

void ReplySum(resp::Encoder& reply, uint64_t sum) {
  char text[16];
  for (int i = 15; i >= 0; --i, sum >>= 4) text[i] = "0123456789abcdef"[sum & 15];
  reply.Bulk({text, sizeof(text)});
}

void ReplyReplicas(CommandContext& c, std::span<const core::ReplicaInfo> replicas, Version version, Right right) {
  thread_local std::string line;  // its length must be known before it
  c.reply.Array(replicas.size());
  for (const core::ReplicaInfo& replica : replicas) {
    const core::StoreInfo& store = c.master().store(replica.store);
    const Grant grant = c.master().MakeGrant(replica, version, right, c.state.user_id, c.now);
    line.clear();
    resp::AppendReplica(replica.tier, store.name, store.incarnation, replica.place, replica.extents, &grant, &line);
    c.reply.Bulk(line);
  }
}

void ReplyObject(CommandContext& c, core::ObjectInfo* object) {
  SortForCaller(c, object);
  c.reply.Map(5);
  Field<"version">(c.reply);
  c.reply.Integer(static_cast<int64_t>(object->version.value));
  Field<"size">(c.reply);
  c.reply.Integer(static_cast<int64_t>(object->size));
  Field<"sum">(c.reply);
  ReplySum(c.reply, object->sum);
  Field<"lease-ms">(c.reply);
  c.reply.Integer(object->lease_ms);
  Field<"replicas">(c.reply);
  ReplyReplicas(c, object->replicas, object->version, Right::kRead);
}

std::string_view HostNameOf(std::string_view host) {
  const size_t slash = host.find('/');
  return slash == std::string_view::npos ? host : host.substr(slash + 1);
}

bool SameHost(std::string_view a, std::string_view b) {
  const std::string_view boot_a = BootIdOf(a), boot_b = BootIdOf(b);
  if (!boot_a.empty() && !boot_b.empty()) return boot_a == boot_b;
  return !HostNameOf(a).empty() && HostNameOf(a) == HostNameOf(b);
}

void SortForCaller(const CommandContext& c, core::ObjectInfo* object) {
  std::vector<core::ReplicaInfo>& replicas = object->replicas;
  if (replicas.size() < 2) return;
  const auto rank = [&](const core::ReplicaInfo& replica) {
    return (replica.suspect ? 2 : 0) + (SameHost(c.state.host_id, c.master().store(replica.store).host) ? 0 : 1);
  };
  // A handful: insertion keeps equals in order and allocates nothing.
  for (size_t i = 1; i < replicas.size(); ++i) {
    for (size_t j = i; j > 0 && rank(replicas[j]) < rank(replicas[j - 1]); --j) std::swap(replicas[j], replicas[j - 1]);
  }
  // Different callers and objects begin with different ones of the best.
  const auto best_end = std::find_if(replicas.begin(), replicas.end(),
                                     [&, best = rank(replicas[0])](const auto& r) { return rank(r) != best; });
  const auto count = static_cast<uint64_t>(best_end - replicas.begin());
  const uint64_t turn = (object->version.value + c.state.id) % count;
  std::rotate(replicas.begin(), replicas.begin() + static_cast<ptrdiff_t>(turn), best_end);
}

std::string_view StoreStateName(core::StoreInfo::State state) {
  switch (state) {
    case core::StoreInfo::State::kJoining: return "joining";
    case core::StoreInfo::State::kServing: return "serving";
    case core::StoreInfo::State::kSuspect: return "suspect";
    case core::StoreInfo::State::kAway: return "away";
    case core::StoreInfo::State::kLeaving: return "leaving";
    case core::StoreInfo::State::kGone: return "gone";
  }
  return "?";
}

core::ObjectInfo& ScratchObject() {
  thread_local core::ObjectInfo object;
  return object;
}

}  // namespace tiercel::net
