// A put's life: start, end, revoke, takeover, orphans, replace.
#include <set>

#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

TEST(Put, O01_AReservationIsNotAnEntry) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", 1024);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->outcome, PutOutcome::kCreated);
  ASSERT_EQ(plan->replicas.size(), 1u);
  EXPECT_EQ(plan->replicas[0].extents.bytes(), 1024u);
  EXPECT_EQ(plan->deadline_ms, 30'000);
  const Caller bob = h.caller(kBob, 2);
  EXPECT_FALSE(h.master->Exists(h.Key("k"), h.now()));
  EXPECT_FALSE(h.Look("k").has_value());
  EXPECT_FALSE(h.Delete("k"));
  EXPECT_EQ(h.master->Size(0), 0u);
  EXPECT_EQ(h.master->Scan(0, 0, 100, h.now(), [](std::string_view, const ObjectInfo&) { FAIL(); }), 0u);
  EXPECT_EQ(h.master->PutEnd(bob, plan->put, 1, {}, h.now()).error().code(), ErrorCode::kNotOwner);
  EXPECT_EQ(h.master->PutRevoke(bob, plan->put, h.now()).error().code(), ErrorCode::kNotOwner);
  EXPECT_EQ(h.master->PutRenew(bob, plan->put, h.now()).error().code(), ErrorCode::kNotOwner);
  // Its own user ends it, from another connection.
  EXPECT_EQ(h.master->PutEnd(h.caller(kAlice, 9), plan->put, 77, {}, h.now()).value(), 1u);
  const auto info = h.Look("k");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->version, plan->put);
  EXPECT_EQ(info->size, 1024u);
  EXPECT_EQ(info->sum, 77u);
  EXPECT_EQ(info->lease_ms, 10'000);
  ASSERT_EQ(info->replicas.size(), 1u);
  EXPECT_EQ(info->replicas[0].store, store.slot);
  EXPECT_EQ(h.master->PutEnd(h.caller(), plan->put, 77, {}, h.now()).value(), 1u) << "idempotent";
  EXPECT_EQ(h.master->PutEnd(bob, plan->put, 1, {}, h.now()).error().code(), ErrorCode::kNotOwner);
  EXPECT_FALSE(h.master->PutRevoke(h.caller(), plan->put, h.now()).value());
}

TEST(Put, O02_AsManyReplicasAsAskedOnDistinctHosts) {
  Harness h;
  for (const char* name : {"a", "b", "c", "d", "e"}) h.AddStore(name, 16 * kMiB);
  for (uint32_t n = 1; n <= 5; ++n) {
    const std::string key = "k" + std::to_string(n);
    const auto plan = h.Start(key, kMiB, {.replicas = n});
    ASSERT_TRUE(plan.ok());
    std::set<StoreSlot> used;
    for (const ReplicaInfo& r : plan->replicas) used.insert(r.store);
    EXPECT_EQ(plan->replicas.size(), n);
    EXPECT_EQ(used.size(), n);
    EXPECT_FALSE(h.Present(key));
    EXPECT_EQ(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).value(), n);
    const auto info = h.Look(key);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->replicas.size(), n);
  }
  EXPECT_EQ(h.master->counters().puts_partial, 0u);
}

TEST(Put, O03_OneHostTwoReplicasWanted) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", kMiB, {.replicas = 2});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->replicas.size(), 1u);
  const uint64_t reserved = h.Dram().bytes.reserved;
  const auto strict = h.Start("k2", kMiB, {.replicas = 2, .strict = true});
  ASSERT_FALSE(strict.ok());
  EXPECT_EQ(strict.error().code(), ErrorCode::kTooFewHosts);
  EXPECT_EQ(h.Dram().bytes.reserved, reserved);
  // Two stores on one host are one host.
  auto second = h.MakeStore("b", 16 * kMiB);
  second.info.host = "host-a";
  ASSERT_TRUE(h.Join(&second).ok());
  EXPECT_EQ(h.Start("k3", kMiB, {.replicas = 2, .strict = true}).error().code(), ErrorCode::kTooFewHosts);
}

TEST(Put, O04_PartialPlacementAndPartialOutcome) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  h.AddStore("b", 16 * kMiB);
  EXPECT_EQ(h.Start("one", kMiB, {.replicas = 3})->replicas.size(), 2u);
  EXPECT_EQ(h.master->counters().puts_partial, 1u);
  EXPECT_EQ(h.Start("two", kMiB, {.replicas = 2})->replicas.size(), 2u);
  EXPECT_EQ(h.master->counters().puts_partial, 1u);

  const uint64_t before = h.Dram().bytes.free;
  const auto third = h.Start("three", kMiB, {.replicas = 2});
  const ReplicaFailure second_failed[] = {{1, ErrorCode::kUnreachable}};
  EXPECT_EQ(h.master->PutEnd(h.caller(), third->put, 1, second_failed, h.now()).value(), 1u);
  EXPECT_EQ(h.Look("three", false)->replicas.size(), 1u);
  EXPECT_EQ(h.Dram().bytes.fencing, kMiB);
  h.WorkAll();
  EXPECT_EQ(h.Dram().bytes.fencing, 0u);
  EXPECT_EQ(h.Dram().bytes.free, before - kMiB);

  const auto fourth = h.Start("four", kMiB, {.replicas = 2});
  const ReplicaFailure both_failed[] = {{0, ErrorCode::kUnreachable}, {1, ErrorCode::kChecksum}};
  EXPECT_EQ(h.master->PutEnd(h.caller(), fourth->put, 1, both_failed, h.now()).error().code(), ErrorCode::kPutFailed);
  EXPECT_FALSE(h.Present("four"));
  EXPECT_EQ(h.master->PutEnd(h.caller(), fourth->put, 1, {}, h.now()).error().code(), ErrorCode::kPutFailed)
      << "the same answer again";
  h.WorkAll();
  EXPECT_EQ(h.Dram().bytes.free, before - kMiB);
  const ReplicaFailure out_of_range[] = {{7, ErrorCode::kUnreachable}};
  const auto fifth = h.Start("five", kMiB, {.replicas = 2});
  EXPECT_EQ(h.master->PutEnd(h.caller(), fifth->put, 1, out_of_range, h.now()).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(h.master->PutEnd(h.caller(), fifth->put, 1, {}, h.now()).value(), 2u);
}

TEST(Put, O05_ArgumentLimits) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto refused = [&](std::string_view key, uint64_t size, const PutOptions& how, ErrorCode code,
                           std::string_view argument) {
    const auto plan = h.Start(key, size, how);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code(), code);
    EXPECT_NE(plan.error().message().find(argument), std::string::npos) << plan.error().message();
  };
  refused("k", 1, {.replicas = 0}, ErrorCode::kInvalid, "replicas");
  refused("k", 1, {.replicas = kMaxReplicas + 1}, ErrorCode::kInvalid, "16");
  refused("", 1, {}, ErrorCode::kInvalid, "key");
  refused(std::string(kMaxKeyBytes + 1, 'x'), 1, {}, ErrorCode::kTooBig, "16384");
  refused("k", kMaxValueBytes + 1, {}, ErrorCode::kTooBig, "68719476736");
  EXPECT_EQ(h.Start("k", 1, {}, 16).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
  const std::string long_key(kMaxKeyBytes, 'x');
  ASSERT_TRUE(h.Put(long_key, 10).ok());
  EXPECT_TRUE(h.Present(long_key));
  ASSERT_TRUE(h.Put("empty", 0).ok());
  EXPECT_TRUE(h.master->Exists(h.Key("empty"), h.now()));
  const auto info = h.Look("empty");
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->size, 0u);
  ASSERT_EQ(info->replicas.size(), 1u);
  EXPECT_TRUE(info->replicas[0].extents.empty());
  EXPECT_TRUE(h.Delete("empty"));
  EXPECT_FALSE(h.Present("empty"));
}

TEST(Put, O06_TakingOverASilentPut_ATimeoutIsNotAFence) {
  Options options;
  options.put_start_discard_timeout_ms = 3000;
  Harness h(options);
  for (const char* name : {"a", "b", "c"}) h.AddStore(name, 16 * kMiB);
  const uint64_t size = 6 * kMiB;
  const auto a = h.Start("k", size, {.replicas = 3});
  ASSERT_TRUE(a.ok());
  const Caller bob = h.caller(kBob, 2);
  auto b = h.master->PutStart(bob, h.Key("k"), size, {.replicas = 3}, h.now());
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->outcome, PutOutcome::kBusy);
  EXPECT_EQ(b->put, a->put);
  h.Advance(3000);
  h.Alive();
  b = h.master->PutStart(bob, h.Key("k"), size, {.replicas = 3}, h.now());
  ASSERT_TRUE(b.ok());
  ASSERT_EQ(b->outcome, PutOutcome::kCreated);
  ASSERT_EQ(b->replicas.size(), 3u);
  for (const ReplicaInfo& mine : b->replicas) {
    for (const ReplicaInfo& theirs : a->replicas) {
      if (mine.store != theirs.store) continue;
      const Extent x = mine.extents[0], y = theirs.extents[0];
      EXPECT_TRUE(x.offset + x.length <= y.offset || y.offset + y.length <= x.offset);
    }
  }
  EXPECT_EQ(h.master->PutEnd(bob, b->put, 5, {}, h.now()).value(), 3u);
  EXPECT_EQ(h.master->PutEnd(h.caller(), a->put, 6, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_EQ(h.Look("k")->version, b->put);
  for (auto& s : h.stores) h.Work(s, false);  // the stores do not answer
  const auto refused = [&] { return h.Start("k2", size, {.replicas = 3, .strict = true}); };
  EXPECT_EQ(refused().error().code(), ErrorCode::kNoSpace);
  for (int i = 0; i < 5; ++i) {
    h.Advance(1000);
    h.Alive();
    h.Tick();
    EXPECT_EQ(refused().error().code(), ErrorCode::kNoSpace);
  }
  EXPECT_GE(h.Dram().bytes.fencing, 3 * size);
  EXPECT_TRUE(h.Present("k"));
  for (auto& s : h.stores) {
    ASSERT_TRUE(h.master->StoreClosed(s.slot, s.info.incarnation, h.held_closes, h.now()).ok());
  }
  EXPECT_EQ(refused()->outcome, PutOutcome::kCreated);
}

TEST(Put, O07_PuttingAKeyThatExists) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto version = h.Put("k", 4);
  ASSERT_TRUE(version.ok());
  const uint64_t free = h.Dram().bytes.free;
  const auto again = h.Start("k", 4);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->outcome, PutOutcome::kExists);
  EXPECT_EQ(again->put, *version);
  EXPECT_EQ(again->size, 4u);
  EXPECT_EQ(again->sum, version->value * 7);
  EXPECT_EQ(h.Dram().bytes.free, free);
  const auto first = h.Start("other", 4);
  const auto second = h.Start("other", 4);
  EXPECT_EQ(second->outcome, PutOutcome::kBusy);
  EXPECT_TRUE(h.master->PutRevoke(h.caller(), first->put, h.now()).value());
  EXPECT_FALSE(h.Present("other"));
  EXPECT_EQ(h.Start("other", 4)->outcome, PutOutcome::kCreated);
  EXPECT_FALSE(h.master->PutRevoke(h.caller(), first->put, h.now()).value()) << "nothing left of it";
}

TEST(Put, O13_ProbingWhatIsNotThere) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto reserved = h.Start("k1", 100);
  ASSERT_TRUE(h.Put("k2", 100).ok());
  ASSERT_TRUE(h.Delete("k2"));
  const uint64_t granted = h.master->counters().leases_granted;
  for (const char* key : {"k1", "k2", "k3"}) {
    EXPECT_FALSE(h.master->Exists(h.Key(key), h.now()));
    EXPECT_FALSE(h.Look(key).has_value());
    EXPECT_FALSE(h.Delete(key));
    EXPECT_FALSE(h.master->ExpireAt(h.Key(key), 1, h.now()));
    EXPECT_FALSE(h.master->Persist(h.Key(key), h.now()));
    EXPECT_FALSE(h.master->Expiry(h.Key(key), h.now()).has_value());
    ObjectInfo info;
    EXPECT_FALSE(h.master->BeginRead(h.Key(key), h.now(), &info));
    ObjectDetail detail;
    EXPECT_FALSE(h.master->Describe(h.Key(key), h.now(), &detail));
    EXPECT_EQ(h.master->PinHard(h.Key(key), h.now()).error().code(), ErrorCode::kNotFound);
  }
  EXPECT_EQ(h.master->counters().leases_granted, granted);
  EXPECT_EQ(h.master->PutEnd(h.caller(), reserved->put, 1, {}, h.now()).value(), 1u);
}

TEST(Put, O37_TheOldVersionStaysReadable) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto v1 = h.Put("k", kMiB);
  const auto reader = h.Look("k");
  const auto plan = h.Start("k", kMiB, {.replace = true});
  ASSERT_EQ(plan->outcome, PutOutcome::kCreated);
  EXPECT_NE(plan->replicas[0].extents[0].offset, reader->replicas[0].extents[0].offset);
  EXPECT_EQ(h.Look("k", false)->version, *v1);
  h.Advance(1000);
  EXPECT_EQ(h.master->PutEnd(h.caller(), plan->put, 2, {}, h.now()).value(), 1u);
  h.WorkAll();
  EXPECT_EQ(h.Look("k", false)->version, plan->put);
  EXPECT_GT(plan->put, *v1);
  EXPECT_EQ(h.Dram().bytes.dying, kMiB) << "the reader's bytes";
  h.Advance(8999);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, kMiB);
  h.Advance(1);
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
  EXPECT_EQ(h.Dram().bytes.live, kMiB);
}

TEST(Put, O38_ReplaceWithAnotherSizeAndWithoutRoom) {
  Options options;
  options.hard_pin_max_ratio = 0.5;
  Harness h(options);
  h.AddStore("a", 8 * kMiB);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(h.Put("pinned" + std::to_string(i), kMiB, {.hard_pin = true}).ok());
  ASSERT_TRUE(h.Put("k", kMiB).ok());
  const auto second = h.Start("k", kMiB * 3 / 2, {.replace = true});
  EXPECT_EQ(h.Look("k")->size, kMiB);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), second->put, 9, {}, h.now()).ok());
  EXPECT_EQ(h.Look("k", false)->size, kMiB * 3 / 2);
  h.WorkAll();
  h.Advance(20'000);
  h.Alive();
  h.Tick();
  const auto third = h.Start("k", kMiB * 3, {.replace = true});
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().code(), ErrorCode::kNoSpace);
  EXPECT_EQ(h.Look("k", false)->version, second->put);
}

TEST(Put, O39_AReplaceThatFailsLosesNothing) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto v1 = h.Put("k", 1000);
  const auto revoked = h.Start("k", 1000, {.replace = true});
  ASSERT_TRUE(h.master->PutRevoke(h.caller(), revoked->put, h.now()).value());
  EXPECT_EQ(h.Look("k", false)->version, *v1);
  const auto dropped = h.Start("k", 1000, {.replace = true});
  h.master->ConnectionClosed(1, h.now());
  EXPECT_EQ(h.Look("k", false)->version, *v1);
  h.Advance(30'000);
  h.Alive();
  h.Tick();
  h.WorkAll();
  EXPECT_EQ(h.master->counters().puts_timed_out, 1u);
  EXPECT_EQ(h.master->PutEnd(h.caller(), dropped->put, 1, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_EQ(h.Look("k", false)->version, *v1);
  EXPECT_EQ(h.Dram().bytes.live, 1024u);
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB - 1024);
  EXPECT_GT(h.Start("k", 1000, {.replace = true})->put, dropped->put);
}

TEST(Put, O40_ReplaceAgainstAPutInFlight) {
  for (const bool closes : {false, true}) {
    Harness h;
    h.AddStore("a", 16 * kMiB);
    const auto w = h.Start("k", 1000);
    const Caller bob = h.caller(kBob, 2);
    const auto attempt = [&] { return h.master->PutStart(bob, h.Key("k"), 1000, {.replace = true}, h.now()); };
    EXPECT_EQ(attempt()->outcome, PutOutcome::kBusy);
    if (closes) {
      h.master->ConnectionClosed(1, h.now());
    } else {
      h.Advance(29'999);
      EXPECT_EQ(attempt()->outcome, PutOutcome::kBusy);
      h.Advance(1);
      h.Alive();
    }
    const auto v = attempt();
    EXPECT_EQ(v->outcome, PutOutcome::kCreated);
    EXPECT_NE(v->replicas[0].extents[0].offset, w->replicas[0].extents[0].offset);
    EXPECT_EQ(h.master->PutEnd(h.caller(), w->put, 1, {}, h.now()).error().code(), ErrorCode::kNoPut);
    EXPECT_FALSE(h.Present("k"));
    EXPECT_EQ(h.master->PutEnd(bob, v->put, 1, {}, h.now()).value(), 1u);
  }
}

TEST(Put, SignsOfLifePutOffTheDeadline) {
  Harness h;
  auto& store = h.AddStore("a", 16 * kMiB);
  const auto renewed = h.Start("renewed", 10), alive = h.Start("alive", 10), silent = h.Start("silent", 10);
  for (int i = 0; i < 4; ++i) {
    h.Advance(20'000);
    h.Alive();
    const Version puts[] = {alive->put};
    ASSERT_TRUE(h.master->StoreAlive(store.slot, store.info.incarnation, puts, h.now()).ok());
    const auto plan = h.master->PutRenew(h.caller(), renewed->put, h.now());
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->deadline_ms, 30'000);
    EXPECT_EQ(plan->replicas.size(), 1u);
    h.Tick();
  }
  EXPECT_EQ(h.master->open_puts(), 2u);
  EXPECT_EQ(h.master->PutEnd(h.caller(), silent->put, 1, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_TRUE(h.master->PutEnd(h.caller(), alive->put, 1, {}, h.now()).ok());
  EXPECT_TRUE(h.master->PutEnd(h.caller(), renewed->put, 1, {}, h.now()).ok());
}

TEST(Put, P07_AWriterDiesHalfWay) {
  Harness h;
  auto& store = h.AddStore("a", 256 * kMiB);
  const auto dead = h.Start("k", 64 * kMiB);
  h.master->ConnectionClosed(1, h.now());
  EXPECT_FALSE(h.master->Exists(h.Key("k"), h.now()));
  const Caller other = h.caller(kBob, 2);
  const auto plan = h.master->PutStart(other, h.Key("k"), 64 * kMiB, {}, h.now());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->outcome, PutOutcome::kCreated);
  EXPECT_NE(plan->replicas[0].extents[0].offset, dead->replicas[0].extents[0].offset);
  EXPECT_TRUE(h.master->PutEnd(other, plan->put, 1, {}, h.now()).ok());
  EXPECT_GE(h.Bytes(store).fencing, 64 * kMiB);
  h.Work(store);
  EXPECT_EQ(h.Bytes(store).fencing, 0u);
}

TEST(Put, AnOrphanMayStillBeEnded) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto plan = h.Start("k", 10);
  h.master->ConnectionClosed(1, h.now());
  EXPECT_EQ(h.master->PutEnd(h.caller(kAlice, 2), plan->put, 1, {}, h.now()).value(), 1u);
}

TEST(Put, OpenPutsAreCapped) {
  Options options;
  options.max_open_puts_per_connection = 4;
  options.max_open_puts_per_store = 6;
  Harness h(options);
  auto& store = h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(h.Start("k" + std::to_string(i), 10).ok());
  EXPECT_EQ(h.Start("more", 10).error().code(), ErrorCode::kRetry);
  const Caller other = h.caller(kAlice, 2);
  const auto start = [&](const std::string& key) { return h.master->PutStart(other, h.Key(key), 10, {}, h.now()); };
  const auto one = start("x");
  const auto two = start("y");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(start("z").error().code(), ErrorCode::kRetry);
  // An ended put counts until its store has closed it.
  ASSERT_TRUE(h.master->PutEnd(other, one->put, 1, {}, h.now()).ok());
  EXPECT_EQ(start("z").error().code(), ErrorCode::kRetry);
  h.Work(store);
  EXPECT_TRUE(start("z").ok());
}

TEST(Put, AValueInManyExtents) {
  Harness h;
  h.AddStore("a", 64 * 64);
  std::vector<Version> all;
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(h.Put("k" + std::to_string(i), 64).ok());
  for (int i = 0; i < 64; i += 2) ASSERT_TRUE(h.Delete("k" + std::to_string(i)));
  const auto plan = h.Start("big", 10 * 64 - 5);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->replicas[0].extents.size(), 10u);
  EXPECT_EQ(plan->replicas[0].extents.bytes(), 10u * 64 - 5);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  EXPECT_EQ(h.Look("big", false)->replicas[0].extents, plan->replicas[0].extents);
  h.WorkAll();
  ASSERT_TRUE(h.Delete("big"));
  EXPECT_EQ(h.Dram().bytes.free, 32u * 64);
}

TEST(Put, OnlyItsOwnConnectionEndsAPutOfThisProcess) {
  Harness h;
  auto store = h.MakeStore("a", 16 * kMiB);
  store.segments[0].in_process = true;
  ASSERT_TRUE(h.Join(&store).ok());
  const auto plan = h.Start("k", 100, {.in_process = true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(h.master->PutEnd(h.caller(kAlice, 2), plan->put, 1, {}, h.now()).error().code(), ErrorCode::kNotOwner);
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  // Ended by its writer: nothing to close, so deleting frees at once.
  ASSERT_TRUE(h.Delete("k"));
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
  // Ended by somebody else: its writer may be in the middle of a copy, and the store has to say that it is not.
  const auto late = h.Start("k", 100, {.in_process = true});
  h.master->ConnectionClosed(1, h.now());
  ASSERT_EQ(h.master->PutStart(h.caller(kBob, 3), h.Key("k"), 100, {}, h.now())->outcome, PutOutcome::kCreated);
  EXPECT_EQ(h.Dram().bytes.fencing, 128u);
  const auto work = h.master->StoreWork(store.slot, store.info.incarnation, 10, h.now());
  ASSERT_EQ(work->items.size(), 1u);
  EXPECT_EQ(work->items[0].puts[0], late->put);
  EXPECT_EQ(work->floor, late->put);
  ASSERT_TRUE(h.master->StoreClosed(store.slot, store.info.incarnation, work->items[0].puts, h.now()).ok());
  EXPECT_EQ(h.Dram().bytes.fencing, 0u);
}

TEST(Put, PreferredAndExcludedStores) {
  Options options;
  options.allocation_strategy = AllocationStrategy::kLocalFirst;
  Harness h(options);
  h.AddStore("a", 16 * kMiB);
  auto& b = h.AddStore("b", 16 * kMiB);
  h.stores.push_back(h.MakeStore("b2", 16 * kMiB));
  h.stores.back().info.host = "host-b";
  ASSERT_TRUE(h.Join(&h.stores.back()).ok());
  const StoreSlot b2 = h.stores.back().slot;
  for (int i = 0; i < 20; ++i) {
    const auto preferred = h.Start("p" + std::to_string(i), 100, {.prefer = "b"});
    EXPECT_EQ(preferred->replicas[0].store, b.slot);
    const auto excluded = h.Start("e" + std::to_string(i), 100, {.prefer = "b", .exclude = "b"});
    EXPECT_EQ(excluded->replicas[0].store, b2) << "local first: the same host";
  }
}

TEST(Put, FreeRatioFirst) {
  Options options;
  options.allocation_strategy = AllocationStrategy::kFreeRatioFirst;
  Harness h(options);
  auto& small = h.AddStore("small", 8 * kMiB);
  auto& large = h.AddStore("large", 32 * kMiB);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(h.Put("k" + std::to_string(i), kMiB).ok());
  EXPECT_EQ(h.Bytes(small).live, 4 * kMiB);
  EXPECT_EQ(h.Bytes(large).live, 16 * kMiB);
}

TEST(Put, RandomPlacementUsesAllStores) {
  Harness h;
  auto& a = h.AddStore("a", 64 * kMiB);
  auto& b = h.AddStore("b", 64 * kMiB);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(h.Put("k" + std::to_string(i), kMiB).ok());
  EXPECT_GT(h.Bytes(a).live, 20 * kMiB);
  EXPECT_GT(h.Bytes(b).live, 20 * kMiB);
}

TEST(Put, NoStoreIsNoSpaceForNow) {
  Harness h;
  const auto plan = h.Start("k", 1);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), ErrorCode::kNoSpace);
  EXPECT_EQ(plan.error().action(), ErrorAction::kWait);
}

TEST(Put, AValueLargerThanAllSpaceEvictsNothing) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(h.Put("k" + std::to_string(i), kMiB).ok());
  const auto plan = h.Start("huge", 17 * kMiB);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), ErrorCode::kNoSpace);
  EXPECT_NE(plan.error().message().find("needed"), std::string::npos);
  EXPECT_EQ(h.master->Size(0), 8u);
}

TEST(Put, ClocksReadBeforeTheLockMayBeBehind) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  Times late = h.now();
  late.boot_ms += 1000;
  ObjectInfo info;
  ASSERT_TRUE(h.Put("k", 10).ok());
  ASSERT_TRUE(h.master->Lookup(h.Key("k"), {.lease_ms = 1}, late, &info));
  ASSERT_TRUE(h.master->Lookup(h.Key("k"), {.lease_ms = 2}, h.now(), &info));
  EXPECT_EQ(info.lease_ms, 2);
  ASSERT_TRUE(h.Start("x", 10).ok());
}

TEST(Put, ThoseWhoseWritersAreGoneMakeWayForOthers) {
  Options options;
  options.max_open_puts_per_store = 4;
  Harness h(options);
  auto& store = h.AddStore("a", 64 * kKiB);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(h.master->PutStart(h.caller(kAlice, 7), h.Key("o" + std::to_string(i)), kKiB, {}, h.now()).ok());
  }
  EXPECT_EQ(h.Start("new", kKiB).error().code(), ErrorCode::kRetry) << "their writers are there";
  EXPECT_EQ(h.master->counters().puts_given_up, 0u);
  h.master->ConnectionClosed(7, h.now());
  EXPECT_EQ(h.Start("new", kKiB).error().code(), ErrorCode::kRetry) << "their store has to close them first";
  EXPECT_EQ(h.master->counters().puts_given_up, 4u);
  EXPECT_EQ(h.master->open_puts(), 0u);
  h.Work(store);
  EXPECT_TRUE(h.Start("new", kKiB).ok());
}

TEST(Put, SpaceOfThoseWhoseWritersAreGoneIsHadAtOnce) {
  Harness h;
  auto& store = h.AddStore("a", 64 * kKiB);
  ASSERT_TRUE(h.master->PutStart(h.caller(kAlice, 7), h.Key("big"), 60 * kKiB, {}, h.now()).ok());
  EXPECT_EQ(h.Start("new", 60 * kKiB).error().code(), ErrorCode::kNoSpace);
  h.master->ConnectionClosed(7, h.now());
  EXPECT_EQ(h.Start("new", 60 * kKiB).error().code(), ErrorCode::kRetry);
  h.Work(store);
  EXPECT_TRUE(h.Start("new", 60 * kKiB).ok());
}

}  // namespace
}  // namespace tiercel::core
