#include "tests/client/fake_master.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/units.h"
#include "protocol/resp/descriptor.h"

namespace tiercel::test {

using resp::Reply;

Reply IntegerReply(int64_t value) {
  Reply reply;
  reply.kind = Reply::Kind::kInteger;
  reply.integer = value;
  return reply;
}
Reply BulkReply(std::string text) {
  Reply reply;
  reply.kind = Reply::Kind::kBulk;
  reply.text = std::move(text);
  return reply;
}
Reply ErrorReply(std::string line) {
  Reply reply;
  reply.kind = Reply::Kind::kError;
  reply.text = std::move(line);
  return reply;
}
Reply NullReply() { return {}; }

namespace {

Reply SimpleReply(std::string text) {
  Reply reply = BulkReply(std::move(text));
  reply.kind = Reply::Kind::kSimple;
  return reply;
}
Reply ArrayReply(std::vector<Reply> items) {
  Reply reply;
  reply.kind = Reply::Kind::kArray;
  reply.items = std::move(items);
  return reply;
}
Reply MapReply(bool resp3, std::vector<std::pair<std::string, Reply>> fields) {
  Reply reply;
  reply.kind = resp3 ? Reply::Kind::kMap : Reply::Kind::kArray;
  for (auto& [name, value] : fields) {
    reply.items.push_back(BulkReply(name));
    reply.items.push_back(std::move(value));
  }
  return reply;
}

class FakeConnection final : public resp::Connection {
 public:
  explicit FakeConnection(FakeMaster* master) : master_(master) {}

  Result<Reply> Call(std::span<const std::string_view> arguments, int64_t) override {
    if (closed_) return Error(ErrorCode::kShutdown, "closed");
    FakeMaster::Args args(arguments.begin(), arguments.end());
    std::lock_guard lock(master_->mutex);
    master_->log.push_back(args);
    if (master_->intercept) {
      if (auto reply = master_->intercept(args)) return std::move(*reply);
    }
    return master_->Answer(args);
  }
  Result<std::vector<Reply>> Pipeline(std::span<const std::vector<std::string_view>> commands, int64_t ms) override {
    std::vector<Reply> replies;
    for (const auto& command : commands) {
      TIERCEL_ASSIGN(Reply reply, Call(command, ms));
      replies.push_back(std::move(reply));
    }
    return replies;
  }
  void CallAsync(std::span<const std::string_view> arguments, int64_t ms,
                 std::function<void(Result<Reply>)> done) override {
    done(Call(arguments, ms));
  }
  void Drive(int64_t) override {}
  uint64_t pending() const override { return 0; }
  bool connected() const override { return !closed_; }
  uint64_t epoch() const override { return master_->epoch; }
  void Close() override { closed_ = true; }

 private:
  FakeMaster* const master_;
  std::atomic<bool> closed_{false};
};

}  // namespace

std::unique_ptr<resp::Connection> FakeMaster::Connect() { return std::make_unique<FakeConnection>(this); }

size_t FakeMaster::AddStore(const std::string& name, size_t bytes, const std::string& host, const std::string& socket) {
  Store store{.name = name, .host = host, .socket = socket, .incarnation = {stores.size() + 0x1001}};
  engine_->AddSegment(store.incarnation, store.place, bytes);
  stores.push_back(store);
  return stores.size() - 1;
}

size_t FakeMaster::CountOf(std::string_view command) const {
  return static_cast<size_t>(std::ranges::count_if(log, [&](const Args& args) { return args[0] == command; }));
}

std::span<std::byte> FakeMaster::BytesOf(const Object& object, size_t replica) {
  const Place& place = object.places[replica];
  const Store& store = stores[place.store];
  return engine_->Segment(store.incarnation, store.place).subspan(place.extents[0].offset, object.size);
}

bool FakeMaster::Allocate(size_t index, uint64_t bytes, ExtentList* out) {
  Store& store = stores[index];
  const uint64_t capacity = engine_->Segment(store.incarnation, store.place).size();
  while (bytes > 0) {
    const uint64_t length = extent_bytes == 0 ? bytes : std::min(bytes, extent_bytes);
    if (store.used + length > capacity) return false;
    out->push_back({store.used, length});
    store.used += (length + 63) / 64 * 64;
    if (extent_bytes != 0) store.used += 64;  // no two extents touch
    bytes -= length;
  }
  return true;
}

std::string FakeMaster::Line(const Place& place, Version version, Right right) const {
  const Store& store = stores[place.store];
  Grant grant;
  grant.right = right;
  grant.version = version;
  grant.store = store.incarnation;
  grant.place = store.place;
  grant.extents = place.extents;
  grant.expiry_ms = clock_->Now().boot_ms + 60'000;
  std::string line;
  resp::AppendReplica(Tier::kDram, store.name, store.incarnation, store.place, place.extents, &grant, &line);
  return line;
}

Reply FakeMaster::PutStart(const Args& args) {
  const std::string& key = args[1];
  Put put{.key = key, .size = *ParseUint64(args[2]), .places = {}};
  size_t replicas = 1;
  std::string exclude;
  for (size_t i = 3; i < args.size(); ++i) {
    if (args[i] == "REPLACE") put.replace = true;
    if (args[i] == "REPLICAS") replicas = *ParseUint64(args[i + 1]);
    if (args[i] == "EXCLUDE") exclude = args[i + 1];
  }
  for (const auto& [id, open] : puts) {
    if (open.key != key) continue;
    return MapReply(
        resp3,
        {{"outcome", BulkReply("busy")}, {"put", IntegerReply(static_cast<int64_t>(id))}, {"age-ms", IntegerReply(5)}});
  }
  if (auto found = objects.find(key); found != objects.end() && !put.replace) {
    return MapReply(resp3, {{"outcome", BulkReply("exists")},
                            {"version", IntegerReply(static_cast<int64_t>(found->second.version.value))},
                            {"size", IntegerReply(static_cast<int64_t>(found->second.size))},
                            {"sum", BulkReply(FormatHex64(found->second.sum))}});
  }
  for (size_t i = 0; i < stores.size() && put.places.size() < replicas; ++i) {
    Place place{.store = i, .extents = {}};
    if (stores[i].name == exclude || !stores[i].known) continue;
    if (Allocate(i, StoredBytes(put.size), &place.extents)) put.places.push_back(place);
  }
  if (put.places.empty()) return ErrorReply("OOM no room");
  const Version id{next_version++};
  std::vector<Reply> lines;
  for (const Place& place : put.places) lines.push_back(BulkReply(Line(place, id, Right::kWrite)));
  puts[id.value] = put;
  return MapReply(resp3, {{"outcome", BulkReply("created")},
                          {"put", IntegerReply(static_cast<int64_t>(id.value))},
                          {"deadline-ms", IntegerReply(put_deadline_ms)},
                          {"block", IntegerReply(kBlockBytes)},
                          {"replicas", ArrayReply(std::move(lines))}});
}

Reply FakeMaster::PutRenew(const Args& args) {
  auto put = puts.find(*ParseUint64(args[1]));
  if (put == puts.end()) return ErrorReply("NOPUT no such put");
  std::vector<Reply> lines;
  for (const Place& place : put->second.places) lines.push_back(BulkReply(Line(place, {put->first}, Right::kWrite)));
  return MapReply(resp3, {{"deadline-ms", IntegerReply(put_deadline_ms)}, {"replicas", ArrayReply(std::move(lines))}});
}

Reply FakeMaster::PutEnd(const Args& args) {
  auto put = puts.find(*ParseUint64(args[1]));
  if (put == puts.end()) return ErrorReply("NOPUT no such put");
  Object object{.version = {put->first}, .size = put->second.size, .sum = *ParseHex64(args[2]), .places = {}};
  for (size_t i = 0; i < put->second.places.size(); ++i) {
    bool failed = false;
    for (size_t a = 3; a + 1 < args.size(); a += 3) failed = failed || *ParseUint64(args[a + 1]) == i;
    if (!failed) object.places.push_back(put->second.places[i]);
  }
  const std::string key = put->second.key;
  puts.erase(put);
  if (object.places.empty()) return ErrorReply("NOREPLICA all failed");
  const auto published = static_cast<int64_t>(object.places.size());
  objects[key] = std::move(object);
  return IntegerReply(published);
}

Reply FakeMaster::LookUp(const std::string& key, bool lease) {
  auto found = objects.find(key);
  if (found == objects.end()) return NullReply();
  const Object& object = found->second;
  std::vector<Reply> lines;
  for (const Place& place : object.places) lines.push_back(BulkReply(Line(place, object.version, Right::kRead)));
  return MapReply(resp3, {{"version", IntegerReply(static_cast<int64_t>(object.version.value))},
                          {"size", IntegerReply(static_cast<int64_t>(object.size))},
                          {"sum", BulkReply(FormatHex64(object.sum))},
                          {"lease-ms", IntegerReply(lease ? lease_ms : 0)},
                          {"replicas", ArrayReply(std::move(lines))}});
}

Reply FakeMaster::StoresReply() const {
  std::vector<Reply> all;
  for (const Store& store : stores) {
    if (!store.known) continue;
    all.push_back(MapReply(resp3, {{"name", BulkReply(store.name)},
                                   {"incarnation", BulkReply(FormatHex64(store.incarnation.value))},
                                   {"state", BulkReply("serving")},
                                   {"host", BulkReply(store.host)},
                                   {"data-address", BulkReply(store.address)},
                                   {"data-socket", BulkReply(store.socket)}}));
  }
  return ArrayReply(std::move(all));
}

Reply FakeMaster::Answer(const Args& args) {
  const std::string& command = args[0];
  const bool lease = std::ranges::find(args, "NOLEASE") == args.end();
  if (command == "PING") return SimpleReply("PONG");
  if (command == "STORES") return StoresReply();
  if (command == "PUTSTART") return PutStart(args);
  if (command == "PUTRENEW") return PutRenew(args);
  if (command == "PUTEND") return PutEnd(args);
  if (command == "PUTREVOKE") return IntegerReply(static_cast<int64_t>(puts.erase(*ParseUint64(args[1]))));
  if (command == "GETREPLICAS") return LookUp(args[1], lease);
  if (command == "MGETREPLICAS") {
    std::vector<Reply> all;
    for (uint64_t i = 0; i < *ParseUint64(args[1]); ++i) all.push_back(LookUp(args[2 + i], lease));
    return ArrayReply(std::move(all));
  }
  if (command == "EXISTS") return IntegerReply(static_cast<int64_t>(objects.count(args[1])));
  if (command == "DEL") return IntegerReply(static_cast<int64_t>(objects.erase(args[1])));
  if (command == "PREFIXMATCH") {
    int64_t matched = 0;
    while (matched < static_cast<int64_t>(args.size()) - 2 && objects.contains(args[2 + matched])) ++matched;
    return ArrayReply({IntegerReply(matched), IntegerReply(matched), IntegerReply(lease_ms)});
  }
  if (command == "REPORT") {
    reports.push_back(args);
    return SimpleReply("OK");
  }
  return ErrorReply("ERR unknown command '" + command + "'");
}

}  // namespace tiercel::test
