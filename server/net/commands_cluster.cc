// STORES, TICKET, TIERS: what there is, and how a client gets to it.
#include <fmt/format.h>

#include <array>

#include "protocol/resp/version.h"
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/replica_reply.h"
#include "server/net/version_refusal.h"

namespace tiercel::net {
namespace {

constexpr size_t kMaxHostBytes = 512;

struct TierBytes {
  bool present = false;
  uint64_t size = 0;
  core::SpaceBytes bytes;
};
using TiersOfStore = std::array<TierBytes, kTierCount>;

void ReplyTiers(resp::Encoder& reply, const TiersOfStore& tiers) {
  size_t count = 0;
  for (const TierBytes& tier : tiers) count += tier.present ? 1 : 0;
  reply.Map(count);
  for (int i = 0; i < kTierCount; ++i) {
    const TierBytes& tier = tiers[static_cast<size_t>(i)];
    if (!tier.present) continue;
    reply.Bulk(TierName(static_cast<Tier>(i)));
    reply.Map(4);
    Field<"size">(reply), reply.Integer(static_cast<int64_t>(tier.size));
    Field<"used">(reply), reply.Integer(static_cast<int64_t>(tier.bytes.reserved + tier.bytes.live));
    Field<"free">(reply), reply.Integer(static_cast<int64_t>(tier.bytes.free));
    Field<"quarantined">(reply), reply.Integer(static_cast<int64_t>(tier.bytes.quarantined()));
  }
}

void ReplyStore(resp::Encoder& reply, const core::StoreInfo& store, const TiersOfStore& tiers) {
  char incarnation[17];
  *fmt::format_to_n(incarnation, 16, "{:016x}", store.incarnation.value).out = '\0';
  const bool shm = !store.data_socket.empty(), tcp = !store.data_address.empty();
  reply.Map(9);
  Field<"name">(reply), reply.Bulk(store.name);
  Field<"incarnation">(reply), reply.Bulk({incarnation, 16});
  Field<"state">(reply), reply.Bulk(StoreStateName(store.state));
  Field<"host">(reply), reply.Bulk(store.host);
  Field<"location">(reply), reply.Bulk(fmt::format("host={}", HostNameOf(store.host)));
  Field<"data-address">(reply), reply.Bulk(store.data_address);
  Field<"data-socket">(reply), reply.Bulk(store.data_socket);
  Field<"transports">(reply);
  reply.Array((shm ? 1 : 0) + (tcp ? 1 : 0));
  if (shm) reply.Bulk("shm");
  if (tcp) reply.Bulk("tcp");
  Field<"tiers">(reply);
  ReplyTiers(reply, tiers);
}

}  // namespace

Outcome DoStores(CommandContext& c) {
  if (c.argc() > 2) return c.FailArity();
  std::vector<core::StoreSlot> slots;
  for (const core::StoreSlot slot : c.master().Stores()) {
    const core::StoreInfo& store = c.master().store(slot);
    if (store.state == core::StoreInfo::State::kGone) continue;
    if (c.argc() == 1 || store.name == c.arg(1)) slots.push_back(slot);
  }
  if (c.argc() == 2 && slots.empty()) {
    return c.Fail(ErrorCode::kNoStore, fmt::format("no store is named '{}'", c.arg(1).substr(0, 64)));
  }
  std::vector<TiersOfStore> tiers(slots.size());
  for (const core::SegmentInfo& segment : c.master().Segments()) {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != segment.store) continue;
      TierBytes& tier = tiers[i][static_cast<size_t>(segment.tier)];
      tier.present = true;
      tier.size += segment.size;
      tier.bytes += segment.bytes;
    }
  }
  c.reply.Array(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) ReplyStore(c.reply, c.master().store(slots[i]), tiers[i]);
  return Outcome::kDone;
}

Outcome DoTicket(CommandContext& c) {
  OptionReader reader(c.args, 1);
  while (reader.Next()) {
    const bool protocol = reader.Is("PROTO");
    if (!protocol && !reader.Is("HOST")) return c.Fail(reader.Unknown());
    const Result<std::string_view> text = reader.Text();
    if (!text.ok()) return c.Fail(text.error());
    if (protocol) {
      const std::optional<resp::ControlVersion> theirs = resp::ParseControlVersion(*text);
      if (!theirs) return c.Fail(ErrorCode::kInvalid, "PROTO: must be MAJOR.MINOR");
      if (theirs->major != resp::kControlVersion.major) {
        return RefuseVersion(
            c, fmt::format("the client speaks control protocol {}, this master {}", resp::ControlVersionText(*theirs),
                           resp::ControlVersionText(resp::kControlVersion)));
      }
      continue;
    }
    const Result<std::string_view> host = ReadName("HOST", *text, kMaxHostBytes);
    if (!host.ok()) return c.Fail(host.error());
    c.state.host_id = *host;
  }
  // A connection is one client to the stores; its number is unique within a run, the generation among runs.
  const uint64_t client = c.master().generation() << kCounterBits | c.state.id;
  c.reply.Bulk(TicketText(c.master().MakeTicket(c.state.user_id, client, c.now)));
  return Outcome::kDone;
}

Outcome DoTiers(CommandContext& c) {
  if (c.argc() > 1) return c.FailSyntax();
  std::array<core::TierFigures, kTierCount> figures;
  size_t count = 0;
  for (int i = 0; i < kTierCount; ++i) {
    core::TierFigures tier = c.master().Figures(static_cast<Tier>(i));
    if (tier.configured != 0 || static_cast<Tier>(i) == Tier::kDram) figures[count++] = tier;
  }
  resp::Encoder& reply = c.reply;
  const auto bytes = [&](uint64_t n) { reply.Integer(static_cast<int64_t>(n)); };
  reply.Array(count);
  for (size_t i = 0; i < count; ++i) {
    const core::TierFigures& tier = figures[i];
    reply.Map(14);
    Field<"tier">(reply), reply.Bulk(TierName(tier.tier));
    Field<"configured">(reply), bytes(tier.configured);
    Field<"usable">(reply), bytes(tier.usable);
    Field<"used">(reply), bytes(tier.bytes.reserved + tier.bytes.live);
    Field<"free">(reply), bytes(tier.bytes.free);
    Field<"leased">(reply), bytes(tier.leased);
    Field<"lease-cap">(reply), bytes(tier.lease_cap);
    Field<"soft-pinned">(reply), bytes(tier.soft_pinned);
    Field<"hard-pinned">(reply), bytes(tier.hard_pinned);
    Field<"hard-pin-budget">(reply), bytes(tier.hard_pin_budget);
    Field<"quarantined">(reply), bytes(tier.bytes.quarantined());
    Field<"objects">(reply), bytes(tier.objects);
    Field<"high-watermark">(reply), bytes(tier.high_watermark);
    Field<"low-watermark">(reply), bytes(tier.low_watermark);
  }
  return Outcome::kDone;
}

}  // namespace tiercel::net
