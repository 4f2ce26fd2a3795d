// Stores and their segments: joining, silence, leaving; what comes back from them.
#include <algorithm>
#include <set>

#include "base/random.h"
#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

using State = StoreInfo::State;
std::string K(int i) { return "k" + std::to_string(i); }

TEST(Store, O31_JoiningAndLeavingAreIdempotentAndQuick) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  const SpaceBytes before = h.Bytes(store);
  ASSERT_TRUE(h.Join(&store).ok());
  EXPECT_EQ(h.Bytes(store).live, before.live);
  EXPECT_EQ(h.master->Size(0), 1000u);
  EXPECT_EQ(h.master->counters().stores_joined, 1u);
  EXPECT_EQ(h.master->StoreLeave("nobody", "", 0, h.now()).error().code(), ErrorCode::kNoStore);
  ASSERT_TRUE(h.master->StoreLeave("a", "", 0, h.now()).ok());
  EXPECT_EQ(h.master->Size(0), 0u);
  EXPECT_FALSE(h.Present(K(0)));
  ASSERT_TRUE(h.master->StoreLeave("a", "", 0, h.now()).ok());
  EXPECT_EQ(h.master->counters().stores_gone, 1u);
  EXPECT_EQ(h.master->StorePing(store.slot, store.info.incarnation, h.now()).error().code(),
            ErrorCode::kStaleIncarnation);
  EXPECT_EQ(h.Join(&store).error().code(), ErrorCode::kOldEpoch) << "that epoch was given up";
  store.segments[0].epoch = 2;
  ASSERT_TRUE(h.Join(&store).ok());
  ASSERT_TRUE(h.Put("new", kKiB).ok());
  h.Tick();
  EXPECT_EQ(h.master->counters().lost_objects, 1000u);
  EXPECT_EQ(h.master->Size(0), 1u);
  EXPECT_EQ(h.Look("new", false)->replicas[0].place.epoch, 2u);
}

TEST(Store, O32_ALeftSegmentIsInvisibleBeforeItIsSwept) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k1", kKiB).ok());
  h.AddStore("b", 16 * kMiB);
  ASSERT_TRUE(h.Put("k2", kKiB, {.exclude = "a"}).ok());
  ASSERT_TRUE(h.master->StoreLeave("a", "seg-a", 0, h.now()).ok());
  EXPECT_FALSE(h.master->Exists(h.Key("k1"), h.now()));
  EXPECT_TRUE(h.master->Exists(h.Key("k2"), h.now()));
  EXPECT_FALSE(h.Look("k1").has_value());
  EXPECT_EQ(h.master->Size(0), 1u);
  std::vector<std::string> keys;
  uint64_t cursor = 0;
  do {
    cursor = h.master->Scan(0, cursor, 10, h.now(),
                            [&](std::string_view key, const ObjectInfo&) { keys.emplace_back(key); });
  } while (cursor != 0);
  EXPECT_EQ(keys, std::vector<std::string>{"k2"});
  EXPECT_EQ(h.master->RandomKey(0, h.now()), "k2");
  const KeyRef both[] = {h.Key("k1"), h.Key("k2")};
  EXPECT_EQ(h.master->PrefixMatch(both, {}, h.now()).matched, 0u);
  const auto plan = h.Start("k1", kKiB);
  ASSERT_EQ(plan->outcome, PutOutcome::kCreated);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  h.Tick();
  EXPECT_EQ(h.Look("k1", false)->version, plan->put);
  // The store is told to drop the segment, and may forget about it.
  const auto items = h.Work(a);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].kind, WorkItem::Kind::kDrop);
  EXPECT_EQ(items[0].segment, (SegmentRef{1, 1}));
  EXPECT_TRUE(
      h.master->StoreDone(a.slot, a.info.incarnation, items[0].id, WorkItem::Kind::kDrop, true, 0, h.now()).ok());
}

TEST(Store, O33_OneOfTwoReplicasLost) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  auto& b = h.AddStore("b", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kKiB, {.replicas = 2}).ok());
  EXPECT_EQ(h.Look("k")->replicas.size(), 2u);
  ASSERT_TRUE(h.master->StoreLeave("a", "", 0, h.now()).ok());
  auto info = h.Look("k");
  ASSERT_EQ(info->replicas.size(), 1u);
  EXPECT_EQ(info->replicas[0].store, b.slot);
  h.Tick();
  info = h.Look("k");
  ASSERT_EQ(info->replicas.size(), 1u);
  EXPECT_EQ(info->replicas[0].store, b.slot);
  EXPECT_EQ(h.master->Size(0), 1u);
}

TEST(Store, O34_LeavingWithNotice) {
  Harness h;
  auto store = h.MakeStore("a", 16 * kMiB);
  store.segments.push_back(store.segments[0]);
  store.segments[1].id = 2;
  store.segments[1].name = "other";
  ASSERT_TRUE(h.Join(&store).ok());
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  auto& b = h.AddStore("b", 16 * kMiB);
  ASSERT_TRUE(h.master->StoreLeave("a", "seg-a", 50, h.now()).ok());
  h.Advance(10);
  ASSERT_TRUE(h.master->StoreLeave("a", "seg-a", 50, h.now()).ok()) << "a repeat";
  ASSERT_TRUE(h.master->StoreLeave("a", "other", 20, h.now()).ok());
  EXPECT_EQ(h.master->Size(0), 8u) << "readable during the grace";
  for (int i = 0; i < 10; ++i) EXPECT_EQ(h.Start("n" + K(i), 10)->replicas[0].store, b.slot);
  const auto segment_there = [&](std::string_view name) {
    const auto all = h.master->Segments();
    return std::any_of(all.begin(), all.end(), [&](const SegmentInfo& s) { return s.name == name; });
  };
  h.Advance(20);
  h.Tick();
  EXPECT_TRUE(segment_there("seg-a"));
  EXPECT_FALSE(segment_there("other")) << "the shorter grace ends first";
  h.Advance(20);
  h.Tick();
  EXPECT_FALSE(segment_there("seg-a"));
  EXPECT_EQ(h.master->Size(0), 0u);
  SegmentJoin again = store.segments[0];
  again.epoch = 2;
  ASSERT_TRUE(h.master->StoreSegments(store.slot, store.info.incarnation, {&again, 1}, h.now()).ok());
  ASSERT_TRUE(h.master->StoreReady(store.slot, store.info.incarnation, Version{3ull << kCounterBits}, h.now()).ok());
  h.Advance(1000);
  h.Tick();
  EXPECT_TRUE(segment_there("seg-a")) << "the old order does not touch the new segment";
}

TEST(Store, O35_AStoreThatGoesSilentAndComesBack) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k1", kKiB).ok());
  ASSERT_TRUE(h.Put("k2", kKiB).ok());
  h.Advance(2000);
  h.Tick();
  EXPECT_FALSE(h.Look("k1", false)->replicas[0].suspect);
  h.Advance(1000);
  h.Tick();
  EXPECT_EQ(h.master->store(store.slot).state, State::kSuspect);
  EXPECT_TRUE(h.Look("k1", false)->replicas[0].suspect);
  EXPECT_FALSE(h.Start("new", 10).ok()) << "nothing is placed on a suspect store";
  h.Advance(8000);
  h.Tick();
  EXPECT_EQ(h.master->store(store.slot).state, State::kAway);
  EXPECT_FALSE(h.Present("k1"));
  EXPECT_EQ(h.master->Size(0), 0u);
  auto& other = h.AddStore("b", 16 * kMiB);
  const auto anew = h.Put("k1", kKiB);
  ASSERT_TRUE(anew.ok());
  EXPECT_EQ(h.Bytes(store).dying, kKiB) << "nothing becomes free on a store that does not speak";
  store.info.data_address = "10.0.0.9:1";
  ASSERT_TRUE(h.Join(&store).ok());
  h.Tick();
  EXPECT_EQ(h.master->store(store.slot).data_address, "10.0.0.9:1");
  EXPECT_EQ(h.Bytes(store).dying, 0u);
  EXPECT_EQ(h.Look("k1", false)->version, *anew) << "the older version was dropped";
  EXPECT_EQ(h.Look("k1", false)->replicas[0].store, other.slot);
  EXPECT_TRUE(h.Present("k2"));
  h.Advance(24ll * 3600'000);
  (void)h.master->StorePing(other.slot, other.info.incarnation, h.now());
  h.Tick();
  EXPECT_EQ(h.master->store(store.slot).state, State::kGone);
  EXPECT_EQ(h.master->Size(0), 1u);
}

TEST(Store, DisconnectedIsSuspectAtOnce) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kKiB).ok());
  h.master->StoreDisconnected(store.slot, store.info.incarnation, h.now());
  EXPECT_EQ(h.master->store(store.slot).state, State::kSuspect);
  EXPECT_TRUE(h.Look("k")->replicas[0].suspect);
  ASSERT_TRUE(h.Join(&store).ok());
  EXPECT_EQ(h.master->store(store.slot).state, State::kServing);
}

TEST(Store, O36_ASegmentHasOneOwner) {
  Harness h;
  auto& a = h.AddStore("a", 64 * kMiB);
  ASSERT_TRUE(h.Put("k", kKiB).ok());
  auto b = h.MakeStore("b", 64 * kMiB);
  b.segments[0].name = "seg-a";
  Status refused = h.Join(&b);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNameInUse);
  EXPECT_NE(refused.error().message().find(a.info.data_address), std::string::npos);
  EXPECT_FALSE(h.master->StoreReady(b.slot, b.info.incarnation, Version{3ull << kCounterBits}, h.now()).ok());

  auto resized = a;
  resized.segments[0].size = 32 * kMiB;
  refused = h.Join(&resized);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);

  auto c = h.MakeStore("c", 64 * kMiB);
  c.segments[0].name = "seg-7";
  c.segments.push_back(c.segments[0]);
  c.segments[1].id = 2;
  c.segments[1].name = "seg-a";
  StoreJoinRequest request;
  request.store = c.info;
  c.slot = h.master->StoreJoin(request, h.now())->slot;
  const auto announce = [&](size_t i) {
    return h.master->StoreSegments(c.slot, c.info.incarnation, {&c.segments[i], 1}, h.now());
  };
  ASSERT_TRUE(announce(0).ok());
  ASSERT_FALSE(announce(1).ok());
  refused = h.master->StoreReady(c.slot, c.info.incarnation, Version{3ull << kCounterBits}, h.now());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNameInUse);
  EXPECT_EQ(h.master->Segments().size(), 1u) << "seg-7 is not published either";
  c.segments.pop_back();
  EXPECT_TRUE(h.Join(&c).ok());
  EXPECT_TRUE(h.Present("k"));
}

TEST(Store, P03_TwoStoresOneName) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  auto b = h.MakeStore("a", 16 * kMiB);
  const Status refused = h.Join(&b);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kNameInUse);
  EXPECT_NE(refused.error().message().find(a.info.data_address), std::string::npos);
  EXPECT_EQ(h.master->Size(0), 100u);
  h.master->StoreDisconnected(a.slot, a.info.incarnation, h.now());
  ASSERT_TRUE(h.Join(&b).ok()) << "at once";
  EXPECT_EQ(h.master->Size(0), 0u);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(h.Present(K(i)));
  EXPECT_EQ(h.master->StorePing(a.slot, a.info.incarnation, h.now()).error().code(), ErrorCode::kStaleIncarnation);
  h.stores.clear();
  h.Tick();
  EXPECT_EQ(h.master->counters().lost_objects, 100u);
}

TEST(Store, APutInFlightWhenItsStoreDies) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", kKiB);
  h.master->StoreDisconnected(a.slot, a.info.incarnation, h.now());
  auto again = h.MakeStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Join(&again).ok());
  EXPECT_EQ(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).error().code(), ErrorCode::kPutFailed);
  EXPECT_FALSE(h.Present("k"));
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
  h.stores.clear();
  h.Tick();
}

TEST(Store, AnotherMasterBeforeClosesFirst) {
  Harness h;
  auto store = h.MakeStore("a", 16 * kMiB);
  StoreJoinRequest request;
  request.store = store.info;
  request.generation_seen = 9;  // of a master that had raised its generation further than ours
  const auto reply = h.master->StoreJoin(request, h.now());
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->generation, 10u);
  EXPECT_EQ(h.master->generation(), 10u);
  store.slot = reply->slot;
  ASSERT_TRUE(h.master->StoreSegments(store.slot, store.info.incarnation, store.segments, h.now()).ok());
  ASSERT_TRUE(h.master->StoreReady(store.slot, store.info.incarnation, Version{5ull << kCounterBits}, h.now()).ok());
  EXPECT_FALSE(h.Start("k", 10).ok()) << "puts of the former master may still arrive";
  ASSERT_TRUE(
      h.master->StoreClosedBelow(store.slot, store.info.incarnation, Version{10ull << kCounterBits}, h.now()).ok());
  const auto plan = h.Start("k", 10);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->put.generation(), 10u);
}

TEST(Space, ClosingsAreSentAgainAfterARejoin) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", kMiB);
  ASSERT_TRUE(h.master->PutRevoke(h.caller(), plan->put, h.now()).value());
  h.Work(store, false);
  ASSERT_EQ(h.held_closes, std::vector<Version>{plan->put});
  EXPECT_EQ(h.Bytes(store).fencing, kMiB);
  h.Work(store, false);
  EXPECT_EQ(h.held_closes.size(), 1u) << "not sent twice on one connection";
  h.master->StoreDisconnected(store.slot, store.info.incarnation, h.now());
  ASSERT_TRUE(h.Join(&store).ok());
  EXPECT_EQ(h.Bytes(store).fencing, kMiB);
  h.Work(store);
  EXPECT_EQ(h.Bytes(store).fencing, 0u);
}

TEST(Space, AStoreThatDoesNotCloseInTimeMustJoinAgain) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", kMiB);
  ASSERT_TRUE(h.master->PutRevoke(h.caller(), plan->put, h.now()).value());
  h.Work(store, false);
  for (int i = 0; i < 700; ++i) {
    h.Advance(1000);
    h.Alive();
    h.master->Tick(h.now(), 100);
  }
  EXPECT_EQ(h.master->StorePing(store.slot, store.info.incarnation, h.now()).error().code(),
            ErrorCode::kStaleIncarnation);
  EXPECT_EQ(h.Bytes(store).fencing, kMiB) << "no timer frees anything";
  ASSERT_TRUE(h.Join(&store).ok());
  h.Work(store);
  EXPECT_EQ(h.Bytes(store).fencing, 0u);
}

TEST(Space, TheFloorRisesWhenTheLowestPutIsClosed) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto first = h.Start("1", 10), second = h.Start("2", 10);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), second->put, 1, {}, h.now()).ok());
  h.Work(store);
  EXPECT_EQ(store.floor, first->put);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), first->put, 1, {}, h.now()).ok());
  h.Work(store);  // its floor is from before the answer
  h.Work(store);
  EXPECT_GT(store.floor, second->put);
}

TEST(Space, ARangeInUseIsParked) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", kMiB);
  const ReplicaFailure in_use[] = {{0, ErrorCode::kInUse}};
  EXPECT_EQ(h.master->PutEnd(h.caller(), plan->put, 1, in_use, h.now()).error().code(), ErrorCode::kPutFailed);
  EXPECT_EQ(h.Bytes(store).parked, kMiB);
  h.Work(store);
  EXPECT_EQ(h.Bytes(store).parked, kMiB);
  const Extent extent = plan->replicas[0].extents[0];
  const auto unpin = [&](Extent range) {
    return h.master->StoreUnpinned(store.slot, store.info.incarnation, plan->replicas[0].place, range, h.now());
  };
  EXPECT_TRUE(unpin({extent.offset + extent.length, 64}).ok());
  EXPECT_EQ(h.Bytes(store).parked, kMiB);
  EXPECT_FALSE(unpin({16 * kMiB, 64}).ok());
  EXPECT_FALSE(unpin({UINT64_MAX, 2}).ok());
  EXPECT_TRUE(unpin({extent.offset + 64, 64}).ok());
  EXPECT_EQ(h.Bytes(store).parked, 0u);
  EXPECT_EQ(h.Bytes(store).free, 16 * kMiB);
  // The report may come before the writer's word, and before the closing.
  const auto other = h.Start("k", kMiB);
  EXPECT_TRUE(unpin(other->replicas[0].extents[0]).ok());
  EXPECT_FALSE(h.master->PutEnd(h.caller(), other->put, 1, in_use, h.now()).ok());
  EXPECT_EQ(h.Bytes(store).fencing, kMiB);
  h.Work(store);
  EXPECT_EQ(h.Bytes(store).free, 16 * kMiB);
  EXPECT_EQ(h.master->counters().replicas_in_use, 2u);
}

TEST(Verify, O08_ACorruptReplicaIsDropped) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  auto& b = h.AddStore("b", 16 * kMiB);
  const auto version = h.Put("k", kMiB, {.replicas = 2});
  const auto info = h.Look("k");
  const ReplicaInfo first = info->replicas[0];
  auto& bad = first.store == a.slot ? a : b;
  auto& good = first.store == a.slot ? b : a;
  const auto report = [&](ErrorCode what) {
    return h.master->Report(h.Key("k"), *version, bad.info.incarnation, first.place, what, h.now());
  };
  ASSERT_TRUE(report(ErrorCode::kLeaseExpired).ok());
  EXPECT_TRUE(h.Work(bad).empty()) << "nobody is to blame after the lease";
  ASSERT_TRUE(report(ErrorCode::kChecksum).ok());
  ASSERT_TRUE(report(ErrorCode::kChecksum).ok());
  EXPECT_EQ(h.Look("k")->replicas[1].store, bad.slot) << "offered last";
  EXPECT_TRUE(h.Look("k")->replicas[1].suspect);
  auto items = h.Work(bad);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].kind, WorkItem::Kind::kVerify);
  EXPECT_EQ(items[0].version, *version);
  EXPECT_EQ(items[0].key, "k");
  EXPECT_EQ(items[0].sum, info->sum);
  EXPECT_EQ(items[0].source.extents, first.extents);
  const auto done = [&](Harness::FakeStore& s, uint64_t id, WorkItem::Kind kind, bool ok) {
    return h.master->StoreDone(s.slot, s.info.incarnation, id, kind, ok, 0, h.now());
  };
  // As O-28: one outcome, from the right store, of the right kind.
  EXPECT_EQ(done(good, items[0].id, WorkItem::Kind::kVerify, false).error().code(), ErrorCode::kNotOwner);
  EXPECT_EQ(done(bad, items[0].id, WorkItem::Kind::kDrop, false).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(done(bad, items[0].id + 1, WorkItem::Kind::kVerify, false).error().code(), ErrorCode::kNoTask);
  // Unanswered when the connection closes: it comes again.
  h.master->StoreWorkLost(bad.slot, bad.info.incarnation, h.now());
  items = h.Work(bad);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(done(bad, items[0].id, WorkItem::Kind::kVerify, true).ok());
  EXPECT_FALSE(h.Look("k")->replicas[0].suspect || h.Look("k")->replicas[1].suspect);
  ASSERT_TRUE(report(ErrorCode::kChecksum).ok());
  items = h.Work(bad);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(done(bad, items[0].id, WorkItem::Kind::kVerify, false).ok());
  EXPECT_EQ(done(bad, items[0].id, WorkItem::Kind::kVerify, false).error().code(), ErrorCode::kNoTask);
  EXPECT_EQ(h.master->counters().replicas_corrupt, 1u);
  ASSERT_EQ(h.Look("k")->replicas.size(), 1u);
  EXPECT_EQ(h.Look("k")->replicas[0].store, good.slot);
  EXPECT_EQ(h.Bytes(bad).dying, kMiB) << "readers have a lease";
  EXPECT_EQ(report(ErrorCode::kChecksum).error().code(), ErrorCode::kNoReplica);
  // The last one: then the object is lost.
  EXPECT_EQ(h.master->Verify(h.Key("k"), h.now()).value(), 1u);
  items = h.Work(good);
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(done(good, items[0].id, WorkItem::Kind::kVerify, false).ok());
  EXPECT_FALSE(h.Present("k"));
  EXPECT_EQ(h.master->counters().lost_objects, 1u);
  const auto other = h.Put("k", kMiB);
  EXPECT_EQ(h.master->Report(h.Key("k"), *version, good.info.incarnation, first.place, ErrorCode::kChecksum, h.now())
                .error()
                .code(),
            ErrorCode::kStaleVersion);
  EXPECT_TRUE(h.Present("k"));
  EXPECT_TRUE(other.ok());
}

TEST(Keys, AreRotatedAndTwoAreLive) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  auto& b = h.AddStore("b", 16 * kMiB);
  StoreJoinRequest request;
  request.store = a.info;
  const auto reply = h.master->StoreJoin(request, h.now());
  ASSERT_EQ(reply->keys.size(), 1u);
  std::vector<GrantKey> keys = reply->keys, tickets = reply->ticket_keys;
  const auto version = h.Put("k", kKiB, {.exclude = "b"});
  const auto grant = [&] {
    return h.master->MakeGrant(h.Look("k")->replicas[0], *version, Right::kRead, kAlice, h.now());
  };
  const auto good = [&](const Grant& g) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const GrantKey& key) { return key.id == g.key_id && MacIsRight(key, g); });
  };
  const auto ticket_good = [&](const Ticket& t) {
    return std::any_of(tickets.begin(), tickets.end(),
                       [&](const GrantKey& key) { return key.id == t.key_id && MacIsRight(key, t); });
  };
  const Grant first = grant();
  EXPECT_TRUE(good(first));
  EXPECT_EQ(first.store, a.info.incarnation);
  EXPECT_EQ(first.expiry_ms, h.now().boot_ms + 60'000);
  Grant other = first;
  other.user = kBob;
  EXPECT_FALSE(good(other));
  EXPECT_TRUE(ticket_good(h.master->MakeTicket(kAlice, 5, h.now())));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 3600; ++i) {
      h.Advance(1000);
      h.Alive();
      if (i % 60 == 0) h.master->Tick(h.now(), 100);
    }
    h.Tick();
    const Grant before = grant();
    EXPECT_TRUE(good(before)) << "sealed with the key that the store has";
    const Ticket ticket = h.master->MakeTicket(kAlice, 5, h.now());
    const auto items = h.Work(a);
    ASSERT_EQ(items.size(), 1u);
    EXPECT_EQ(items[0].kind, WorkItem::Kind::kKeys);
    ASSERT_EQ(items[0].keys.size(), 2u);
    EXPECT_GT(items[0].keys[0].id, items[0].keys[1].id);
    keys = items[0].keys;
    tickets = items[0].ticket_keys;
    EXPECT_TRUE(good(before));
    EXPECT_TRUE(ticket_good(ticket));
    ASSERT_TRUE(
        h.master->StoreDone(a.slot, a.info.incarnation, items[0].id, WorkItem::Kind::kKeys, true, 0, h.now()).ok());
    EXPECT_EQ(grant().key_id, keys[0].id);
    EXPECT_TRUE(good(grant()));
    EXPECT_EQ(h.master->MakeTicket(kAlice, 5, h.now()).key_id, tickets[1].id) << "store b has not got it yet";
    for (const WorkItem& item : h.Work(b)) {
      ASSERT_TRUE(h.master->StoreDone(b.slot, b.info.incarnation, item.id, item.kind, true, 0, h.now()).ok());
    }
    EXPECT_EQ(h.master->MakeTicket(kAlice, 5, h.now()).key_id, tickets[0].id);
  }
}

TEST(Namespaces, O25_RemovalStaysInItsNamespace) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (uint32_t ns = 0; ns < 3; ++ns) ASSERT_TRUE(h.Put("k", 100, {}, ns).ok());
  ASSERT_TRUE(h.Put("only1", 100, {}, 1).ok());
  EXPECT_TRUE(h.Delete("k", 0));
  EXPECT_EQ(h.master->Flush(0, h.now()), 0u);
  EXPECT_TRUE(h.Present("k", 1));
  EXPECT_TRUE(h.Present("k", 2));
  std::set<std::string> keys;
  uint64_t cursor = 0;
  do {
    cursor = h.master->Scan(1, cursor, 1, h.now(), [&](std::string_view key, const ObjectInfo&) { keys.emplace(key); });
  } while (cursor != 0);
  EXPECT_EQ(keys, (std::set<std::string>{"k", "only1"}));
  EXPECT_EQ(h.master->FlushAll(h.now()), 3u);
  EXPECT_EQ(h.master->Size(1) + h.master->Size(2), 0u);
}

TEST(Namespaces, APutInFlightOutlivesAFlush) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", 100);
  ASSERT_TRUE(h.Put("other", 100).ok());
  EXPECT_EQ(h.master->Flush(0, h.now()), 1u);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  EXPECT_TRUE(h.Present("k"));
  EXPECT_EQ(h.master->Size(0), 1u);
}

TEST(Namespaces, ALargeFlushIsTakenApartInSteps) {
  Harness h;
  auto store = h.MakeStore("a", 64 * kMiB);
  store.segments[0].in_process = true;
  ASSERT_TRUE(h.Join(&store).ok());
  h.auto_close = false;
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(h.Put(K(i), 64, {.in_process = true}).ok());
  EXPECT_EQ(h.master->Flush(0, h.now()), 20'000u);
  EXPECT_EQ(h.master->Size(0), 0u);
  EXPECT_GT(h.Dram().bytes.live, 0u);
  ASSERT_TRUE(h.Put("k1", 64, {.in_process = true}).ok());
  EXPECT_EQ(h.master->Size(0), 1u);
  EXPECT_EQ(h.master->Tick(h.now(), 400), h.now().boot_ms) << "work is left";
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.live, 64u);
  EXPECT_TRUE(h.Present("k1"));
}

TEST(Namespaces, ScanMeetsWhatIsThereAllAlong) {
  Harness h;
  auto store = h.MakeStore("a", 64 * kMiB);
  store.segments[0].in_process = true;
  ASSERT_TRUE(h.Join(&store).ok());
  h.auto_close = false;
  const PutOptions in_process{.replace = true, .in_process = true};
  std::set<std::string> steady;
  for (int i = 0; i < 3000; ++i) {
    ASSERT_TRUE(h.Put("s" + K(i), 64, in_process).ok());
    steady.insert("s" + K(i));
  }
  Random random(1);
  std::set<std::string> seen;
  uint64_t cursor = 0;
  int next = 0;
  do {
    cursor = h.master->Scan(0, cursor, 10, h.now(), [&](std::string_view key, const ObjectInfo& info) {
      EXPECT_EQ(info.size, 64u);
      seen.emplace(key);
    });
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(h.Put("n" + K(next++), 64, in_process).ok());  // the table grows
    if (next % 4 == 0) {
      for (int i = 0; i < 60 && next > 100; ++i) h.Delete("n" + K(--next));  // and shrinks
    }
    ASSERT_TRUE(h.Put("s" + K(static_cast<int>(random.Below(3000))), 64, in_process).ok());  // REPLACE
  } while (cursor != 0);
  for (const std::string& key : steady) EXPECT_TRUE(seen.contains(key)) << key;
  std::set<std::string> drawn;
  for (int i = 0; i < 200; ++i) drawn.insert(*h.master->RandomKey(0, h.now()));
  EXPECT_GT(drawn.size(), 150u);
}

// A store that says that it will be back keeps what it has; a put finds another place meanwhile.
TEST(Store, APausedStoreIsAwayUntilItIsBackOnItsStorage) {
  Harness h;
  auto& a = (h.stores.push_back(h.MakeStore("a", kMiB)), h.stores.back());
  a.info.storage_id = "disk-a";
  ASSERT_TRUE(h.Join(&a).ok());
  ASSERT_TRUE(h.Put("k", kKiB).ok());
  EXPECT_EQ(h.master->StorePause("nobody", h.now()).error().code(), ErrorCode::kNoStore);
  ASSERT_TRUE(h.master->StorePause("a", h.now()).ok());
  EXPECT_TRUE(h.Present("k")) << "until it is gone it serves";
  EXPECT_EQ(h.Start("new", kKiB).error().code(), ErrorCode::kNoSpace);
  h.master->StoreDisconnected(a.slot, a.info.incarnation, h.now());
  EXPECT_EQ(h.master->store(a.slot).state, StoreInfo::State::kAway);
  EXPECT_FALSE(h.Present("k"));
  a.info.incarnation = Incarnation{4711};
  ASSERT_TRUE(h.Join(&a).ok());
  EXPECT_TRUE(h.Present("k"));
  EXPECT_TRUE(h.Start("new", kKiB).ok());
}

}  // namespace
}  // namespace tiercel::core
