// Runs handlers against a real core, without sessions or sockets.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "protocol/resp/descriptor.h"
#include "protocol/resp/reply.h"
#include "server/core/master.h"
#include "server/net/command_context.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"

namespace tiercel::net {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;

class CommandFixture : public testing::Test {
 protected:
  explicit CommandFixture(core::Options options = {})
      : master(options, {.generation = 3, .random = 1, .grant_master_key = {}}), host(&master, &clock) {
    shared.host = &host;
    shared.clock = &clock;
    shared.limits.put_wait_ms = 0;
    client = NewSession("alice");
  }

  SessionState NewSession(std::string_view user) {
    SessionState state;
    state.id = next_id_++;
    state.user = user;
    state.user_id = UserId(user);
    state.authenticated = true;
    state.protocol = 3;
    return state;
  }

  using Words = std::vector<std::string>;
  // The reply's bytes as they would be sent.
  std::string RunRaw(SessionState& state, Handler handler, const Words& words) {
    const std::vector<std::string_view> args(words.begin(), words.end());
    std::string out;
    MasterHost::Hold hold(&host);
    master.BeginCommand();
    CommandContext context(nullptr, &state, &shared, &hold, clock.Now(), &out);
    context.args = args;
    EXPECT_EQ(handler(context), Outcome::kDone);
    return out;
  }
  resp::Reply Run(SessionState& state, Handler handler, const Words& words) {
    const std::string bytes = RunRaw(state, handler, words);
    resp::ReplyParser parser;
    parser.Feed(bytes);
    Result<std::optional<resp::Reply>> reply = parser.Next();
    EXPECT_TRUE(reply.ok() && reply->has_value()) << bytes;
    EXPECT_EQ(parser.buffered(), 0u) << "more than one reply: " << bytes;
    if (!reply.ok() || !reply->has_value()) return {};
    return **reply;
  }
  resp::Reply Run(Handler handler, const Words& words) { return Run(client, handler, words); }

  // A store of another process whose data address was dialled already.
  struct JoinedStore {
    SessionState session;
    std::string name;
    Incarnation incarnation;
    std::vector<GrantKey> keys, ticket_keys;
  };
  Words JoinWords(const std::string& name, uint64_t incarnation, const std::string& location) {
    return {"STORE", "JOIN", name, Hex(incarnation), "disk-" + name, location, "10.1.0.1:7380", "/run/" + name,
            "0",     "1",    "1"};
  }
  JoinedStore Join(const std::string& name, uint64_t incarnation, const std::string& location) {
    JoinedStore store{
        .session = NewSession("store"), .name = name, .incarnation = {incarnation}, .keys = {}, .ticket_keys = {}};
    store.session.store_right = true;
    store.session.progress.dialed = Ok();
    const resp::Reply reply = Run(store.session, DoStoreJoin, JoinWords(name, incarnation, location));
    EXPECT_FALSE(reply.is_error()) << reply.text;
    store.keys = Keys(reply, "keys");
    store.ticket_keys = Keys(reply, "ticket-keys");
    return store;
  }
  // Joined, with one DRAM segment, serving.
  JoinedStore Serve(const std::string& name, uint64_t incarnation, const std::string& location,
                    uint64_t size = 16 * kMiB) {
    JoinedStore store = Join(name, incarnation, location);
    ExpectOk(Run(store.session, DoStoreSegment,
                 {"STORE", "SEGMENT", "dram", "0", name + "-dram", "1", std::to_string(size)}));
    ExpectOk(Run(store.session, DoStoreReady, {"STORE", "READY", "CLOSEDBELOW", std::to_string(uint64_t{3} << 40)}));
    return store;
  }

  // A readable object with that many replicas.
  Version Put(const std::string& key, uint64_t size, uint32_t replicas = 1) {
    const resp::Reply plan =
        Run(DoPutStart, {"PUTSTART", key, std::to_string(size), "REPLICAS", std::to_string(replicas)});
    EXPECT_EQ(Text(plan, "outcome"), "created");
    const int64_t put = Integer(plan, "put");
    EXPECT_EQ(Run(DoPutEnd, {"PUTEND", std::to_string(put), "00000000000000ab"}).integer, replicas);
    return {static_cast<uint64_t>(put)};
  }

  static void ExpectOk(const resp::Reply& reply) {
    EXPECT_EQ(reply.kind, resp::Reply::Kind::kSimple) << reply.text;
    EXPECT_EQ(reply.text, "OK");
  }
  // An error with this word, whose sentence holds each of the parts.
  static void ExpectError(const resp::Reply& reply, std::string_view word,
                          std::initializer_list<std::string_view> parts = {}) {
    ASSERT_TRUE(reply.is_error()) << "kind " << static_cast<int>(reply.kind) << " " << reply.text;
    EXPECT_EQ(reply.text.substr(0, reply.text.find(' ')), word) << reply.text;
    for (const std::string_view part : parts) EXPECT_NE(reply.text.find(part), std::string::npos) << reply.text;
  }
  static std::string Text(const resp::Reply& map, std::string_view field) {
    const resp::Reply* value = map.Field(field);
    return value == nullptr ? "(no " + std::string(field) + ") " + map.text : value->text;
  }
  static int64_t Integer(const resp::Reply& map, std::string_view field) {
    const resp::Reply* value = map.Field(field);
    return value == nullptr || value->kind != resp::Reply::Kind::kInteger ? -999 : value->integer;
  }
  static std::vector<resp::ReplicaDescriptor> Replicas(const resp::Reply& map) {
    std::vector<resp::ReplicaDescriptor> replicas;
    const resp::Reply* list = map.Field("replicas");
    EXPECT_NE(list, nullptr);
    if (list == nullptr) return replicas;
    for (const resp::Reply& line : list->items) {
      Result<resp::ReplicaDescriptor> replica = resp::ParseReplica(line.text);
      EXPECT_TRUE(replica.ok()) << line.text;
      if (replica.ok()) replicas.push_back(std::move(replica).value());
    }
    return replicas;
  }
  static std::string Hex(uint64_t value) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016lx", value);
    return text;
  }
  static std::vector<GrantKey> Keys(const resp::Reply& reply, std::string_view field) {
    std::vector<GrantKey> keys;
    const resp::Reply* list = reply.Field(field);
    if (list == nullptr) return keys;
    for (const resp::Reply& item : list->items) {
      GrantKey key;
      const size_t colon = item.text.find(':');
      key.id = static_cast<uint32_t>(std::stoul(item.text.substr(0, colon)));
      for (size_t i = 0; i < key.key.size(); ++i) {
        key.key[i] = static_cast<std::byte>(std::stoul(item.text.substr(colon + 1 + 2 * i, 2), nullptr, 16));
      }
      keys.push_back(key);
    }
    return keys;
  }

  ManualClock clock;
  core::Master master;
  MasterHost host;
  ServerShared shared;
  SessionState client;

 private:
  core::ConnectionId next_id_ = 1;
};

}  // namespace tiercel::net
