#include "server/node/control_wire.h"

#include <fmt/core.h>

#include <array>
#include <optional>

#include "base/units.h"
#include "protocol/resp/descriptor.h"

namespace tiercel::node {

namespace {

using resp::Reply;

Error Nonsense(std::string_view what) {
  return {ErrorCode::kPeerProtocol, fmt::format("the master's answer is not understood: {}", what)};
}

// Integers come as integers or as text.
std::optional<int64_t> IntegerOf(const Reply* reply) {
  if (reply == nullptr) return std::nullopt;
  if (reply->kind == Reply::Kind::kInteger) return reply->integer;
  if (reply->kind == Reply::Kind::kBulk || reply->kind == Reply::Kind::kSimple) return ParseInt64(reply->text);
  return std::nullopt;
}

Result<uint64_t> NonNegative(const Reply& map, std::string_view name) {
  const std::optional<int64_t> value = IntegerOf(map.Field(name));
  if (!value || *value < 0) return Nonsense(name);
  return static_cast<uint64_t>(*value);
}

std::optional<Version> ParseVersion(std::string_view text) {
  const auto value = ParseInt64(text);
  if (!value || *value <= 0) return std::nullopt;
  return Version{static_cast<uint64_t>(*value)};
}

std::optional<uint32_t> ParseUint32(std::string_view text) {
  const auto value = ParseUint64(text);
  if (!value || *value > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

Result<std::vector<GrantKey>> KeysOf(const Reply& map, std::string_view name) {
  const Reply* list = map.Field(name);
  if (list == nullptr || list->kind != Reply::Kind::kArray || list->items.size() > Keys::kMaxLive) {
    return Nonsense(name);
  }
  std::vector<GrantKey> keys;
  for (const Reply& item : list->items) {
    TIERCEL_ASSIGN(GrantKey key, ParseKey(item.text));
    keys.push_back(key);
  }
  return keys;
}

// Reads one item's words behind its id and kind.
class Words {
 public:
  explicit Words(std::span<const Reply> words) : words_(words) {}
  bool done() const { return at_ == words_.size(); }
  size_t left() const { return words_.size() - at_; }
  std::string_view Next() { return done() ? std::string_view{} : std::string_view(words_[at_++].text); }

 private:
  std::span<const Reply> words_;
  size_t at_ = 0;
};

bool ReadClose(Words words, core::WorkItem* item) {
  item->kind = core::WorkItem::Kind::kClose;
  item->puts.reserve(words.left());
  while (!words.done()) {
    const auto put = ParseVersion(words.Next());
    if (!put) return false;
    item->puts.push_back(*put);
  }
  return true;
}

bool ReadVerify(Words words, core::WorkItem* item) {
  item->kind = core::WorkItem::Kind::kVerify;
  if (words.left() != 7) return false;
  const auto version = ParseVersion(words.Next());
  const auto name_space = ParseUint32(words.Next());
  item->key = std::string(words.Next());
  const auto size = ParseUint64(words.Next());
  const auto sum = ParseHex64(words.Next());
  const auto place = resp::ParseSegmentRef(words.Next());
  auto extents = resp::ParseExtents(words.Next());
  if (!version || !name_space || !size || !sum || !place.ok() || !extents.ok()) return false;
  item->version = *version;
  item->name_space = *name_space;
  item->size = *size;
  item->sum = *sum;
  item->source.place = *place;
  item->source.extents = std::move(extents).value();
  return true;
}

bool ReadDrop(Words words, core::WorkItem* item) {
  item->kind = core::WorkItem::Kind::kDrop;
  const auto place = resp::ParseSegmentRef(words.Next());
  if (!place.ok() || !words.done()) return false;
  item->segment = *place;
  return true;
}

bool ReadKeyList(Words* words, std::vector<GrantKey>* keys) {
  const auto count = ParseUint64(words->Next());
  if (!count || *count > Keys::kMaxLive || *count > words->left()) return false;
  for (uint64_t i = 0; i < *count; ++i) {
    const auto key = ParseKey(words->Next());
    if (!key.ok()) return false;
    keys->push_back(*key);
  }
  return true;
}

bool ReadKeys(Words words, core::WorkItem* item) {
  item->kind = core::WorkItem::Kind::kKeys;
  return ReadKeyList(&words, &item->keys) && ReadKeyList(&words, &item->ticket_keys) && words.done();
}

Result<Order> ReadOrder(const Reply& reply) {
  if (reply.kind != Reply::Kind::kArray || reply.items.size() < 2) return Nonsense("an item of work");
  const auto id = ParseUint64(reply.items[0].text);
  if (!id) return Nonsense("the id of an item of work");
  Order order;
  order.item.id = *id;
  order.kind = reply.items[1].text;
  const Words words(std::span(reply.items).subspan(2));
  order.bad = ErrorCode::kSyntax;
  if (order.kind == "CLOSE") {
    order.understood = ReadClose(words, &order.item);
  } else if (order.kind == "VERIFY") {
    order.understood = ReadVerify(words, &order.item);
  } else if (order.kind == "DROP") {
    order.understood = ReadDrop(words, &order.item);
  } else if (order.kind == "KEYS") {
    order.understood = ReadKeys(words, &order.item);
  } else {
    order.understood = false;
    order.bad = ErrorCode::kUnknownCommand;
  }
  // Nobody waits for the answer of an item without an id, so it must not be passed over in silence.
  if (!order.understood && order.item.id == 0) return Nonsense(fmt::format("an order {}", order.kind));
  return order;
}

std::optional<uint8_t> HexDigit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> Views(const Command& command) { return {command.begin(), command.end()}; }

Command JoinCommand(const JoinRequest& r) {
  return {"STORE",
          "JOIN",
          r.name,
          FormatHex64(r.incarnation.value),
          r.storage_id,
          r.host,
          r.data_address,
          r.data_socket.empty() ? "-" : r.data_socket,
          std::to_string(r.generation_seen),
          std::to_string(r.proto_min),
          std::to_string(r.proto_max)};
}

Command AttachCommand(const std::string& name, Incarnation incarnation) {
  return {"STORE", "ATTACH", name, FormatHex64(incarnation.value)};
}

Command SegmentCommand(const StoreTarget::SegmentOffer& s) {
  Command command{"STORE",
                  "SEGMENT",
                  std::string(TierName(s.tier)),
                  std::to_string(s.place.segment),
                  s.name,
                  std::to_string(s.place.epoch),
                  std::to_string(s.size)};
  if (s.kept) command.push_back("KEPT");
  return command;
}

Command ReadyCommand(Version closed_below) {
  return {"STORE", "READY", "CLOSEDBELOW", std::to_string(closed_below.value)};
}

Command WorkCommand(uint32_t max, int64_t block_ms) {
  return {"STORE", "WORK", std::to_string(max), std::to_string(block_ms)};
}

Command LeaveCommand(const Leaving& how) {
  if (how.kept) return {"STORE", "LEAVE", "KEPT"};
  if (how.grace_ms == 0) return {"STORE", "LEAVE"};
  return {"STORE", "LEAVE", "GRACE", std::to_string(how.grace_ms)};
}

Result<core::StoreJoinReply> ParseJoinReply(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  core::StoreJoinReply join;
  TIERCEL_ASSIGN(const uint64_t slot, NonNegative(reply, "slot"));
  if (slot > UINT32_MAX) return Nonsense("slot");
  join.slot = static_cast<core::StoreSlot>(slot);
  TIERCEL_ASSIGN(join.generation, NonNegative(reply, "generation"));
  if (join.generation == 0 || join.generation > kMaxGeneration) return Nonsense("generation");
  TIERCEL_ASSIGN(join.floor.value, NonNegative(reply, "floor"));
  TIERCEL_ASSIGN(const uint64_t time_ms, NonNegative(reply, "time-ms"));
  join.time_ms = static_cast<int64_t>(time_ms);
  TIERCEL_ASSIGN(const uint64_t ping_ms, NonNegative(reply, "ping-ms"));
  if (ping_ms == 0) return Nonsense("ping-ms");
  join.ping_ms = static_cast<int64_t>(ping_ms);
  TIERCEL_ASSIGN(join.keys, KeysOf(reply, "keys"));
  TIERCEL_ASSIGN(join.ticket_keys, KeysOf(reply, "ticket-keys"));
  return join;
}

Result<WorkReply> ParseWorkReply(const Reply& reply) {
  if (reply.is_error()) return reply.ToError();
  WorkReply work;
  if (reply.is_null()) return work;
  work.empty = false;
  TIERCEL_ASSIGN(work.floor.value, NonNegative(reply, "floor"));
  TIERCEL_ASSIGN(const uint64_t time_ms, NonNegative(reply, "time-ms"));
  work.time_ms = static_cast<int64_t>(time_ms);
  const Reply* items = reply.Field("items");
  if (items == nullptr || items->kind != Reply::Kind::kArray) return Nonsense("items");
  work.orders.reserve(items->items.size());
  for (const Reply& item : items->items) {
    TIERCEL_ASSIGN(Order order, ReadOrder(item));
    work.orders.push_back(std::move(order));
  }
  return work;
}

// Never repeats the text in its error: it is a secret.
Result<GrantKey> ParseKey(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Nonsense("a key");
  const auto id = ParseUint32(text.substr(0, colon));
  const std::string_view digits = text.substr(colon + 1);
  GrantKey key;
  if (!id || digits.size() != 2 * key.key.size()) return Nonsense("a key");
  key.id = *id;
  for (size_t i = 0; i < key.key.size(); ++i) {
    const auto high = HexDigit(digits[2 * i]);
    const auto low = HexDigit(digits[2 * i + 1]);
    if (!high || !low) return Nonsense("a key");
    key.key[i] = static_cast<std::byte>(*high << 4 | *low);
  }
  return key;
}

std::string KeyText(const GrantKey& key) {
  std::string text = fmt::format("{}:", key.id);
  for (std::byte b : key.key) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

}  // namespace tiercel::node
