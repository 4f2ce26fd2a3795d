// STORE: a store's life as its master hears of it. JOIN binds the connection to the store; the connection that
// joined fetches work and its end makes the store suspect. ATTACH binds a further one, for reports.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "protocol/resp/version.h"
#include "server/net/data_address.h"
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/replica_reply.h"
#include "server/net/server_shared.h"
#include "server/net/store_commands.h"
#include "server/net/version_refusal.h"

namespace tiercel::net {
namespace {

constexpr size_t kMaxStoreNameBytes = 255, kMaxStorageIdBytes = 128;
constexpr size_t kMaxHostBytes = 512, kMaxAddressBytes = 300, kMaxSocketBytes = 107;  // of sockaddr_un
constexpr int64_t kDialTimeoutMs = 1000;
constexpr int64_t kMaxGraceMs = 24 * 3600'000;
// What this master speaks with stores.
constexpr uint32_t kStoreProtocol = resp::kControlVersion.major;

Status ReadJoin(const CommandContext& c, core::StoreJoinRequest* request) {
  core::StoreInfo& store = request->store;
  TIERCEL_ASSIGN(store.name, ReadName("name", c.arg(2), kMaxStoreNameBytes));
  TIERCEL_ASSIGN(store.incarnation, ReadIncarnation(c.arg(3)));
  TIERCEL_ASSIGN(store.storage_id, ReadName("storage-id", c.arg(4), kMaxStorageIdBytes));
  TIERCEL_ASSIGN(store.host, ReadName("host", c.arg(5), kMaxHostBytes));
  TIERCEL_ASSIGN(store.data_address, ReadName("data-address", c.arg(6), kMaxAddressBytes));
  TIERCEL_ASSIGN(const std::string_view socket, ReadName("data-socket", c.arg(7), kMaxSocketBytes));
  if (socket != "-") store.data_socket = socket;
  TIERCEL_ASSIGN(const int64_t generation, ReadInteger("generation-seen", c.arg(8), 0, kMaxGeneration));
  request->generation_seen = static_cast<uint64_t>(generation);
  TIERCEL_ASSIGN(const int64_t least, ReadInteger("proto-min", c.arg(9), 1, UINT32_MAX));
  TIERCEL_ASSIGN(const int64_t most, ReadInteger("proto-max", c.arg(10), least, UINT32_MAX));
  store.proto_min = static_cast<uint32_t>(least);
  store.proto_max = static_cast<uint32_t>(most);
  if (least > kStoreProtocol || most < kStoreProtocol) {
    return Error(ErrorCode::kNoProto,
                 fmt::format("store {} speaks control protocols {} to {}, this master {}", store.name, least, most,
                             resp::ControlVersionText(resp::kControlVersion)));
  }
  store.in_process = c.state.in_process;
  store.user = c.state.user_id;
  store.connection = c.state.id;
  request->connection = c.state.id;
  return Ok();
}

// A store that has seen a later generation, or this one from another life of the master, makes the core go above it.
// That number is kept first: told and then forgotten by a restart, it would be given out a second time. (It may be kept
// for nothing when the join is refused after all; a number left out harms nobody.)
Status KeepGeneration(CommandContext& c, const core::StoreJoinRequest& request) {
  GenerationPort* const port = c.server.ports.generation;
  const uint64_t seen = request.generation_seen, own = c.master().generation();
  if (port == nullptr || seen < own || seen >= kMaxGeneration) return Ok();  // the core refuses what is out of range
  const std::optional<core::StoreSlot> slot = c.master().FindStore(request.store.name);
  if (seen == own && slot && c.master().store(*slot).incarnation == request.store.incarnation) return Ok();
  Status kept;
  c.Unlocked([&] { kept = port->KeepAtLeast(seen + 1); });
  return kept;
}

void ReplyKeys(resp::Encoder& reply, const std::vector<GrantKey>& keys) {
  reply.Array(keys.size());
  for (const GrantKey& key : keys) reply.Bulk(GrantKeyText(key));
}

void ReplyJoin(resp::Encoder& reply, const core::StoreJoinReply& join) {
  reply.Map(7);
  Field<"slot">(reply), reply.Integer(join.slot);
  Field<"generation">(reply), reply.Integer(static_cast<int64_t>(join.generation));
  Field<"keys">(reply), ReplyKeys(reply, join.keys);
  Field<"ticket-keys">(reply), ReplyKeys(reply, join.ticket_keys);
  Field<"floor">(reply), reply.Integer(static_cast<int64_t>(join.floor.value));
  Field<"time-ms">(reply), reply.Integer(join.time_ms);
  Field<"ping-ms">(reply), reply.Integer(join.ping_ms);
}

// The store's life on this connection ends with the connection, unless it has joined again elsewhere since.
std::function<void(core::Master&, Times)> WhenClosed(core::StoreSlot slot, Incarnation incarnation,
                                                     core::ConnectionId connection) {
  return [=](core::Master& master, Times now) {
    const core::StoreInfo& store = master.store(slot);
    if (store.incarnation != incarnation || store.connection != connection) return;
    master.StoreWorkLost(slot, incarnation, now);
    master.StoreDisconnected(slot, incarnation, now);
  };
}

}  // namespace

Outcome FailNotJoined(CommandContext& c) {
  return c.Fail(ErrorCode::kInvalid, "no store has joined on this connection");
}

std::string GrantKeyText(const GrantKey& key) {
  std::string text = fmt::format("{}:", key.id);
  for (const std::byte b : key.key) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

Outcome DoStoreJoin(CommandContext& c) {
  core::StoreJoinRequest request;
  if (const Status read = ReadJoin(c, &request); !read.ok()) {
    if (read.error().code() == ErrorCode::kNoProto) return RefuseVersion(c, read.error().message());
    return c.Fail(read.error());
  }
  // A store of this process needs no address to be reached by its own front end, and is not dialled before it serves.
  if (!c.state.in_process) {
    const Status good = CheckDataAddress(request.store.data_address, c.state.peer_ip, c.state.local_address);
    if (!good.ok()) return c.Fail(good.error());
    if (!c.progress().dialed.has_value()) return c.ParkForDialBack(request.store.data_address, kDialTimeoutMs);
    if (!c.progress().dialed->ok()) {
      return c.Fail(ErrorCode::kUnreachable,
                    fmt::format("cannot reach the store's data address {}: {}", request.store.data_address,
                                c.progress().dialed->error().message()));
    }
  }
  if (const Status kept = KeepGeneration(c, request); !kept.ok()) return c.Fail(kept.error());
  const Result<core::StoreJoinReply> join = c.master().StoreJoin(request, c.now);
  if (!join.ok()) return c.Fail(join.error());
  if (c.state.on_close &&
      (c.state.store->slot != join->slot || c.state.store->incarnation != request.store.incarnation)) {
    c.state.on_close(c.master(), c.now);  // another store spoke here before
  }
  c.state.store = StoreBinding{.slot = join->slot, .incarnation = request.store.incarnation, .joined_here = true};
  c.state.on_close = WhenClosed(join->slot, request.store.incarnation, c.state.id);
  ReplyJoin(c.reply, *join);
  return Outcome::kDone;
}

Outcome DoStoreAttach(CommandContext& c) {
  const Result<Incarnation> incarnation = ReadIncarnation(c.arg(3));
  if (!incarnation.ok()) return c.Fail(incarnation.error());
  const std::optional<core::StoreSlot> slot = c.master().FindStore(c.arg(2));
  if (!slot) return c.Fail(ErrorCode::kNoStore, fmt::format("no store is named '{}'", c.arg(2).substr(0, 64)));
  const core::StoreInfo& store = c.master().store(*slot);
  if (store.incarnation != *incarnation) {
    return c.Fail(ErrorCode::kStaleIncarnation, fmt::format("store {} has joined as {:016x}, not {:016x}", store.name,
                                                            store.incarnation.value, incarnation->value));
  }
  if (store.user != c.state.user_id) {
    return c.Fail(ErrorCode::kNotOwner, fmt::format("store {} has joined as another user", store.name));
  }
  if (c.state.on_close) {
    return c.Fail(ErrorCode::kInvalid, "a store has joined on this connection: attach on another one");
  }
  c.state.store = StoreBinding{.slot = *slot, .incarnation = *incarnation, .joined_here = false};
  return c.Finish(Ok());
}

Outcome DoStoreLeave(CommandContext& c) {
  size_t first = 2;
  std::string_view name, segment;
  if (c.argc() > first && !SameWord(c.arg(first), "SEGMENT") && !SameWord(c.arg(first), "GRACE") &&
      !SameWord(c.arg(first), "KEPT")) {
    name = c.arg(first++);
  }
  int64_t grace_ms = 0;
  bool kept = false;
  OptionReader reader(c.args, first);
  while (reader.Next()) {
    if (reader.Is("SEGMENT")) {
      const Result<std::string_view> text = reader.Text();
      if (!text.ok()) return c.Fail(text.error());
      segment = *text;
    } else if (reader.Is("GRACE")) {
      const Result<int64_t> ms = reader.Integer(0, kMaxGraceMs);
      if (!ms.ok()) return c.Fail(ms.error());
      grace_ms = *ms;
    } else if (reader.Is("KEPT")) {
      kept = true;
    } else {
      return c.Fail(reader.Unknown());
    }
  }
  if (name.empty()) {
    if (!c.state.store) return FailNotJoined(c);
    name = c.master().store(c.state.store->slot).name;
  }
  if (kept) {
    if (!segment.empty() || grace_ms != 0) return c.FailSyntax();
    return c.Finish(c.master().StorePause(name, c.now));
  }
  return c.Finish(c.master().StoreLeave(name, segment, grace_ms, c.now));
}

Outcome DoStorePing(CommandContext& c) {
  if (!c.state.store) return FailNotJoined(c);
  return c.Finish(c.master().StorePing(c.state.store->slot, c.state.store->incarnation, c.now));
}

}  // namespace tiercel::net
