// The words of the control conversation, and the outbox that tells.
#include "server/node/control_wire.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/node/outbox.h"

namespace tiercel::node {
namespace {

using resp::Reply;

Reply Bulk(std::string text) {
  Reply reply;
  reply.kind = Reply::Kind::kBulk;
  reply.text = std::move(text);
  return reply;
}
Reply Integer(int64_t value) {
  Reply reply;
  reply.kind = Reply::Kind::kInteger;
  reply.integer = value;
  return reply;
}
Reply List(std::vector<Reply> items, Reply::Kind kind = Reply::Kind::kArray) {
  Reply reply;
  reply.kind = kind;
  reply.items = std::move(items);
  return reply;
}
Reply Strings(const std::vector<std::string>& words) {
  std::vector<Reply> items;
  for (const auto& word : words) items.push_back(Bulk(word));
  return List(std::move(items));
}
const char* const kKey = "7:000102030405060708090a0b0c0d0e0f";

std::vector<Reply> JoinFields() {
  return {Bulk("slot"),    Integer(3),          Bulk("generation"), Integer(2),    Bulk("keys"),
          Strings({kKey}), Bulk("ticket-keys"), Strings({kKey}),    Bulk("floor"), Integer(5),
          Bulk("time-ms"), Integer(99),         Bulk("ping-ms"),    Integer(1000)};
}
Reply WorkOf(std::vector<Reply> items, Reply::Kind kind = Reply::Kind::kMap) {
  return List({Bulk("floor"), Integer(5), Bulk("time-ms"), Integer(99), Bulk("items"), List(std::move(items))}, kind);
}

TEST(ControlWireTest, Commands) {
  JoinRequest request{.name = "s1",
                      .incarnation = Incarnation{0xAB},
                      .storage_id = "disk1",
                      .host = "h1",
                      .data_address = "[fd00::1]:7380",
                      .data_socket = "",
                      .generation_seen = 4,
                      .proto_min = 1,
                      .proto_max = 2};
  EXPECT_EQ(JoinCommand(request),
            (Command{"STORE", "JOIN", "s1", "00000000000000ab", "disk1", "h1", "[fd00::1]:7380", "-", "4", "1", "2"}));
  request.data_socket = "/run/t.sock";
  EXPECT_EQ(JoinCommand(request)[7], "/run/t.sock");
  EXPECT_EQ(AttachCommand("s1", Incarnation{0xAB}), (Command{"STORE", "ATTACH", "s1", "00000000000000ab"}));
  EXPECT_EQ(SegmentCommand({Tier::kDram, {2, 41}, "seg-2", 4096}),
            (Command{"STORE", "SEGMENT", "dram", "2", "seg-2", "41", "4096"}));
  EXPECT_EQ(ReadyCommand(Version{8}), (Command{"STORE", "READY", "CLOSEDBELOW", "8"}));
  EXPECT_EQ(WorkCommand(10, 500), (Command{"STORE", "WORK", "10", "500"}));
}

TEST(ControlWireTest, JoinReplyAsMapAndAsFlatArray) {
  for (auto kind : {Reply::Kind::kMap, Reply::Kind::kArray}) {
    const auto join = ParseJoinReply(List(JoinFields(), kind));
    ASSERT_TRUE(join.ok()) << join.error().message();
    EXPECT_EQ(join->slot, 3u);
    EXPECT_EQ(join->generation, 2u);
    EXPECT_EQ(join->floor, Version{5});
    EXPECT_EQ(join->time_ms, 99);
    EXPECT_EQ(join->ping_ms, 1000);
    ASSERT_EQ(join->keys.size(), 1u);
    EXPECT_EQ(join->keys[0].id, 7u);
    EXPECT_EQ(join->keys[0].key[15], std::byte{0x0f});
    EXPECT_EQ(KeyText(join->keys[0]), kKey);
  }
}

TEST(ControlWireTest, JoinReplyThatIsWrongAnywhereIsNotTaken) {
  const auto fields = JoinFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    auto broken = fields;
    broken[i] = Bulk("x");
    const auto join = ParseJoinReply(List(broken, Reply::Kind::kMap));
    ASSERT_FALSE(join.ok()) << i;
    EXPECT_EQ(join.error().code(), ErrorCode::kPeerProtocol) << i;
  }
  auto three = fields;
  three[5] = Strings({kKey, kKey, kKey});
  EXPECT_FALSE(ParseJoinReply(List(three, Reply::Kind::kMap)).ok());
  auto negative = fields;
  negative[9] = Integer(-1);
  EXPECT_FALSE(ParseJoinReply(List(negative, Reply::Kind::kMap)).ok());
  auto generation = fields;
  generation[3] = Integer(int64_t{1} << 23);
  EXPECT_FALSE(ParseJoinReply(List(generation, Reply::Kind::kMap)).ok());
}

TEST(ControlWireTest, Keys) {
  EXPECT_TRUE(ParseKey(kKey).ok());
  for (const char* bad : {"", "7", "7:", ":000102030405060708090a0b0c0d0e0f", "x:000102030405060708090a0b0c0d0e0f",
                          "7:000102030405060708090a0b0c0d0e", "7:000102030405060708090a0b0c0d0e0g",
                          "4294967296:000102030405060708090a0b0c0d0e0f"}) {
    const auto key = ParseKey(bad);
    ASSERT_FALSE(key.ok()) << bad;
    EXPECT_EQ(key.error().message().find("0001"), std::string::npos) << "a secret in an error";
  }
}

TEST(ControlWireTest, WorkOfEveryKind) {
  const auto work = ParseWorkReply(WorkOf({
      Strings({"0", "CLOSE", "11", "12"}),
      Strings({"4", "VERIFY", "13", "1", std::string("a\0b", 3), "100", "00000000000000ff", "2.41", "64+128"}),
      Strings({"5", "DROP", "2.41"}),
      Strings({"0", "KEYS", "1", kKey, "2", kKey, kKey}),
      Strings({"6", "DEFRAGMENT", "x"}),
      Strings({"7", "DROP", "nonsense"}),
  }));
  ASSERT_TRUE(work.ok()) << work.error().message();
  EXPECT_FALSE(work->empty);
  EXPECT_EQ(work->floor, Version{5});
  ASSERT_EQ(work->orders.size(), 6u);
  EXPECT_EQ(work->orders[0].item.puts, (std::vector<Version>{Version{11}, Version{12}}));
  const auto& verify = work->orders[1].item;
  EXPECT_EQ(verify.id, 4u);
  EXPECT_EQ(verify.version, Version{13});
  EXPECT_EQ(verify.name_space, 1u);
  EXPECT_EQ(verify.key, std::string("a\0b", 3));
  EXPECT_EQ(verify.sum, 0xffu);
  EXPECT_EQ(verify.source.place, (SegmentRef{2, 41}));
  EXPECT_EQ(verify.source.extents, ExtentList(Extent{64, 128}));
  EXPECT_EQ(work->orders[2].item.segment, (SegmentRef{2, 41}));
  EXPECT_EQ(work->orders[3].item.keys.size(), 1u);
  EXPECT_EQ(work->orders[3].item.ticket_keys.size(), 2u);
  EXPECT_FALSE(work->orders[4].understood);
  EXPECT_EQ(work->orders[4].bad, ErrorCode::kUnknownCommand);
  EXPECT_FALSE(work->orders[5].understood);
  EXPECT_EQ(work->orders[5].bad, ErrorCode::kSyntax);
}

TEST(ControlWireTest, NoWorkIsNoNews) {
  const auto work = ParseWorkReply(Reply{});
  ASSERT_TRUE(work.ok());
  EXPECT_TRUE(work->empty);
}

TEST(ControlWireTest, OrdersWithoutIdAreNotPassedOver) {
  for (const auto& item : {Strings({"0", "CLOSE", "x"}), Strings({"0", "CLOSE", "0"}), Strings({"0", "WHAT"}),
                           Strings({"0", "KEYS", "3", kKey, kKey, kKey, "0"}), Strings({"0", "KEYS", "1", kKey}),
                           Strings({"0"}), Strings({"x", "CLOSE", "1"}), Bulk("0")}) {
    const auto work = ParseWorkReply(WorkOf({item}));
    ASSERT_FALSE(work.ok());
    EXPECT_EQ(work.error().code(), ErrorCode::kPeerProtocol);
  }
}

TEST(ControlWireTest, ItemsCutShortOrChangedNeverCrash) {
  const std::vector<std::vector<std::string>> items = {
      {"4", "VERIFY", "13", "1", "key", "100", "00000000000000ff", "2.41", "64+128,256+64"},
      {"5", "DROP", "2.41"},
      {"9", "KEYS", "1", kKey, "1", kKey}};
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Random random(seed);
    auto words = items[random.Below(items.size())];
    if (random.OneIn(2)) words.resize(2 + random.Below(words.size() - 1));
    std::string& word = words[2 + random.Below(words.size() - 1) >= words.size() ? 0 : words.size() - 1];
    if (!word.empty()) word[random.Below(word.size())] = static_cast<char>(random.Below(256));
    (void)ParseWorkReply(WorkOf({Strings(words)})).ok();
  }
}

TEST(OutboxTest, ClausesInOrder) {
  Outbox outbox;
  outbox.AddItem({4, "VERIFY", std::nullopt, 100});
  outbox.AddItem({5, "DROP", ErrorCode::kOldEpoch, 0});
  outbox.closed()->assign({Version{11}, Version{12}});
  outbox.SetClosedBelow(Version{9});
  outbox.unpinned()->push_back({{2, 41}, {64, 128}});
  auto batch = outbox.Take();
  batch.alive = {Version{20}};
  EXPECT_TRUE(outbox.empty());
  std::vector<Outbox::Clause> clauses;
  EXPECT_EQ(Outbox::ToCommand(batch, &clauses),
            (Command{"STORE",       "DONE", "ITEM",      "4", "VERIFY", "OK",       "100",  "ITEM",
                     "5",           "DROP", "OLD_EPOCH", "0", "CLOSED", "2",        "11",   "12",
                     "CLOSEDBELOW", "9",    "ALIVE",     "1", "20",     "UNPINNED", "2.41", "64+128"}));
  EXPECT_EQ(clauses.size(), 6u);
  EXPECT_EQ(Outbox::ToCommand({}, &clauses), (Command{"STORE", "DONE"}));
  EXPECT_TRUE(clauses.empty());
}

TEST(OutboxTest, WhatWasNotTakenComesAgainFirst) {
  Outbox outbox;
  outbox.closed()->assign({Version{1}, Version{2}});
  outbox.SetClosedBelow(Version{1});
  auto batch = outbox.Take();
  outbox.closed()->push_back(Version{3});
  outbox.SetClosedBelow(Version{2});
  outbox.PutBack(std::move(batch));
  batch = outbox.Take();
  EXPECT_EQ(batch.closed, (std::vector<Version>{Version{1}, Version{2}, Version{3}}));
  EXPECT_EQ(batch.closed_below, Version{2});
}

TEST(OutboxTest, UnpinnedWaitsForEveryClosed) {
  Outbox outbox;
  for (uint64_t i = 0; i < Outbox::kPutsPerBatch + 1; ++i) outbox.closed()->push_back(Version{i + 1});
  outbox.unpinned()->push_back({{2, 41}, {64, 128}});
  auto first = outbox.Take();
  EXPECT_EQ(first.closed.size(), Outbox::kPutsPerBatch);
  EXPECT_TRUE(first.unpinned.empty());
  auto second = outbox.Take();
  EXPECT_EQ(second.closed.size(), 1u);
  EXPECT_EQ(second.unpinned.size(), 1u);
}

}  // namespace
}  // namespace tiercel::node
