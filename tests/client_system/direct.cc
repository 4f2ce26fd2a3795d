#include "tests/client_system/direct.h"

#include <cstring>

#include "base/checksum.h"

namespace tiercel::test {

Direct::Direct(const ClientOptions& options, TransportChoice wire)
    : mask_(transfer::MaskOf(wire == TransportChoice::kShm ? transfer::TransportKind::kShm
                                                           : transfer::TransportKind::kTcp)) {
  client::Ingredients parts = client::MakeIngredients(options);
  connection_ = std::move(parts.connection);
  auto engine = parts.make_engine([this]() -> Result<Ticket> {
    auto ticket = ParseTicketText(Call({"TICKET"}).text);
    if (!ticket) return Error(ErrorCode::kInternal, "no ticket");
    return *ticket;
  });
  EXPECT_TRUE(engine.ok()) << engine.error().ToString();
  engine_ = std::move(engine).value();
}

Direct::~Direct() { engine_.reset(); }

resp::Reply Direct::Call(const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  auto reply = connection_->Call(views, HangGuardMs(20'000));
  EXPECT_TRUE(reply.ok()) << words[0] << ": " << reply.error().ToString();
  return reply.ok() ? std::move(*reply) : resp::Reply{};
}

Direct::Found Direct::Parse(const resp::Reply& map) {
  Found found;
  const auto number = [&](std::string_view field) {
    const resp::Reply* value = map.Field(field);
    return value == nullptr ? int64_t{0} : value->integer;
  };
  const resp::Reply* put = map.Field("put");
  found.version.value = static_cast<uint64_t>(put != nullptr ? put->integer : number("version"));
  found.size = static_cast<uint64_t>(number("size"));
  found.lease_ms = number("lease-ms");
  if (const resp::Reply* sum = map.Field("sum")) found.sum = std::stoull(sum->text, nullptr, 16);
  if (const resp::Reply* replicas = map.Field("replicas")) {
    for (const resp::Reply& line : replicas->items) {
      auto replica = resp::ParseReplica(line.text);
      EXPECT_TRUE(replica.ok()) << line.text;
      if (replica.ok()) found.replicas.push_back(std::move(*replica));
    }
  }
  return found;
}

std::optional<Direct::Found> Direct::Look(const std::string& key, int64_t lease_ms) {
  const resp::Reply reply = Call({"GETREPLICAS", key, "LEASE", std::to_string(lease_ms)});
  EXPECT_FALSE(reply.is_error()) << reply.text;
  if (reply.is_null()) return std::nullopt;
  return Parse(reply);
}

Direct::Found Direct::Start(const std::vector<std::string>& put_start) {
  const resp::Reply reply = Call(put_start);
  const resp::Reply* outcome = reply.Field("outcome");
  EXPECT_TRUE(outcome != nullptr && outcome->text == "created") << reply.text;
  return Parse(reply);
}

transfer::PeerHandle Direct::Peer(const resp::ReplicaDescriptor& replica) {
  const resp::Reply stores = Call({"STORES", replica.store});
  EXPECT_EQ(stores.items.size(), 1u);
  if (stores.items.size() != 1) return {};
  return engine_->AddPeer({.name = replica.store,
                           .incarnation = replica.incarnation,
                           .data_address = stores.items[0].Field("data-address")->text,
                           .data_socket = stores.items[0].Field("data-socket")->text});
}

transfer::OpResult Direct::Move(transfer::OpKind kind, const resp::ReplicaDescriptor& replica, uint64_t at,
                                std::span<std::byte> memory) {
  EXPECT_TRUE(replica.has_grant);
  std::vector<transfer::Operation> operations;
  const transfer::PeerHandle peer = Peer(replica);
  uint64_t skip = at;
  size_t done = 0;
  for (const Extent& extent : replica.extents) {
    if (skip >= extent.length) {
      skip -= extent.length;
      continue;
    }
    const size_t length = std::min<size_t>(extent.length - skip, memory.size() - done);
    if (length == 0) break;
    operations.push_back({.kind = kind,
                          .peer = peer,
                          .place = replica.place,
                          .offset = extent.offset + skip,
                          .memory = memory.subspan(done, length),
                          .grant = std::make_shared<Grant>(replica.grant),
                          .registered = false});
    done += length;
    skip = 0;
  }
  EXPECT_EQ(done, memory.size());
  transfer::SubmitOptions options{.timeout_ms = HangGuardMs(20'000), .transports = mask_};
  auto batch = engine_->Submit(std::move(operations), options);
  EXPECT_TRUE(batch.ok()) << batch.error().ToString();
  if (!batch.ok()) return {};
  EXPECT_TRUE((*batch)->Wait(HangGuardMs(30'000)).ok());
  for (size_t i = 0; i < (*batch)->size(); ++i) {
    if ((*batch)->result(i).state != transfer::OpResult::State::kOk) return (*batch)->result(i);
  }
  return (*batch)->result(0);
}

transfer::OpResult Direct::Read(const resp::ReplicaDescriptor& replica, std::span<std::byte> memory) {
  return Move(transfer::OpKind::kRead, replica, 0, memory);
}

transfer::OpResult Direct::Write(const resp::ReplicaDescriptor& replica, uint64_t at,
                                 std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  return Move(transfer::OpKind::kWrite, replica, at, copy);
}

std::vector<std::byte> StoredForm(std::span<const std::byte> value) {
  std::vector<std::byte> stored(value.begin(), value.end());
  if (value.size() <= kBlockBytes) return stored;
  for (size_t at = 0; at < value.size(); at += kBlockBytes) {
    const uint64_t sum = HashBytes(value.subspan(at, std::min<size_t>(kBlockBytes, value.size() - at)));
    const auto* bytes = reinterpret_cast<const std::byte*>(&sum);
    stored.insert(stored.end(), bytes, bytes + 8);
  }
  return stored;
}

}  // namespace tiercel::test
