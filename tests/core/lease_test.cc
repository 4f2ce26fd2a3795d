// Leases, eviction, pins.
#include <set>

#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

std::string K(int i) { return "k" + std::to_string(i); }

TEST(Lease, O09_DeleteIsImmediateLeasedBytesStay) {
  Options options;
  options.lease_ttl_ms = 50;
  Harness h(options);
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB).ok());
  ASSERT_TRUE(h.master->Exists(h.Key("k"), h.now()));
  h.Advance(30);
  const auto reader = h.Look("k");
  EXPECT_EQ(reader->lease_ms, 50);
  h.Advance(10);
  EXPECT_TRUE(h.Delete("k"));
  EXPECT_FALSE(h.Present("k"));
  h.Advance(1);
  const auto plan = h.Start("k", kMiB);
  EXPECT_NE(plan->replicas[0].extents[0].offset, reader->replicas[0].extents[0].offset);
  h.Advance(38);  // 79 ms
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, kMiB);
  h.Advance(1);
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
}

TEST(Lease, NothingGrantedLaterMakesADeadlineEarlier) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB).ok());
  ObjectInfo info;
  ASSERT_TRUE(h.master->Lookup(h.Key("k"), {.lease_ms = 60'000}, h.now(), &info));
  EXPECT_EQ(info.lease_ms, 60'000);
  ASSERT_TRUE(h.master->Lookup(h.Key("k"), {.lease_ms = 10}, h.now(), &info));
  EXPECT_EQ(info.lease_ms, 60'000);
  ASSERT_TRUE(h.master->Lookup(h.Key("k"), {.lease_ms = 1'000'000}, h.now(), &info));
  EXPECT_EQ(info.lease_ms, 60'000) << "lease-max";
  ASSERT_TRUE(h.Delete("k"));
  h.Advance(59'999);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, kMiB);
}

TEST(Lease, O10_RemovingEverythingWithLeasesOut) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(h.Put(K(i), kMiB).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(h.master->Exists(h.Key(K(i)), h.now()) || i == 4);
  // EXISTS may use half of the cap, 4 MiB here: the fifth gets its lease from a look-up.
  ASSERT_TRUE(h.Look(K(4)).has_value());
  EXPECT_EQ(h.master->Flush(0, h.now()), 10u);
  EXPECT_EQ(h.master->Size(0), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(h.Present(K(i)));
  EXPECT_EQ(h.Dram().bytes.free, 11 * kMiB);
  EXPECT_EQ(h.Dram().bytes.dying, 5 * kMiB);
  ASSERT_TRUE(h.Put("new", 8 * kMiB).ok());
  h.Advance(10'000);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
  EXPECT_TRUE(h.Present("new"));
}

TEST(Lease, O11_LeasesCannotStopEviction) {
  Options options;
  options.lease_ttl_ms = 500;
  options.lease_max_ratio = 0.5;
  Harness h(options);
  h.AddStore("a", 16 * kMiB);
  std::vector<int64_t> leases;
  std::set<int> leased;
  for (int i = 0; i < 26; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB).ok()) << i;
    const auto info = h.Look(K(i));
    ASSERT_TRUE(info.has_value());
    leases.push_back(info->lease_ms);
    if (info->lease_ms > 0) leased.insert(i);
    h.Tick();
    for (int l : leased) EXPECT_TRUE(h.Present(K(l))) << "no victim was leased";
  }
  for (int i = 0; i < 26; ++i) EXPECT_EQ(leases[static_cast<size_t>(i)], i < 8 ? 500 : 0) << i;
}

TEST(Lease, ExistsUsesHalfOfTheCap) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(h.Put(K(i), kMiB).ok());
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(h.master->Exists(h.Key(K(i)), h.now()));
  EXPECT_EQ(h.Dram().leased, 4 * kMiB);
  EXPECT_EQ(h.master->counters().leases_refused, 4u);
  Options changed = h.master->options();
  changed.exists_grants_lease = false;
  h.master->SetOptions(changed, h.now());
  h.Advance(11'000);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().leased, 0u);
  EXPECT_TRUE(h.master->Exists(h.Key(K(0)), h.now()));
  EXPECT_EQ(h.Dram().leased, 0u);
}

TEST(Lease, TheRingGrowsWithLeaseMax) {
  Harness h;
  h.AddStore("a", 64 * kMiB);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB).ok());
    ObjectInfo info;
    ASSERT_TRUE(h.master->Lookup(h.Key(K(i)), {.lease_ms = 1000 * (i + 1)}, h.now(), &info));
  }
  Options changed = h.master->options();
  changed.lease_max_ms = 600'000;
  h.master->SetOptions(changed, h.now());
  h.master->CheckInvariants(h.now());
  ObjectInfo info;
  ASSERT_TRUE(h.master->Lookup(h.Key(K(0)), {.lease_ms = 600'000}, h.now(), &info));
  EXPECT_EQ(info.lease_ms, 600'000);
  EXPECT_EQ(h.Dram().leased, 20 * kMiB);
  h.Advance(10'100);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().leased, 11 * kMiB);
}

TEST(Lease, PrefixMatchStopsAtTheFirstAbsentKey) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 12; ++i) {
    if (i == 10) continue;
    ASSERT_TRUE(h.Put(K(i), kMiB).ok());
  }
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back(K(i));
  std::vector<KeyRef> keys;
  for (const std::string& name : names) keys.push_back(h.Key(name));
  const auto answer = h.master->PrefixMatch(keys, {}, h.now());
  EXPECT_EQ(answer.matched, 10u);
  EXPECT_EQ(answer.leased, 8u) << "up to the cap";
  EXPECT_EQ(answer.lease_ms, 10'000);
}

TEST(Evict, OldestFirstAndOnlyAsManyAsNeeded) {  // as O-14, for the plain queue
  Options options;
  options.eviction_high_watermark_ratio = 0.99;
  Harness h(options);
  h.AddStore("a", 400 * 4 * kKiB);
  h.auto_close = false;
  for (int i = 0; i < 400; ++i) ASSERT_TRUE(h.Put(K(i), 4 * kKiB).ok());
  h.WorkAll();
  for (int i = 399; i >= 0; --i) ASSERT_TRUE(h.Look(K(i)).has_value());
  h.Advance(10'000);
  h.Alive();
  h.master->Tick(h.now(), 10'000);
  EXPECT_EQ(h.master->Size(0), 380u);
  for (int i = 0; i < 400; ++i) EXPECT_EQ(h.Present(K(i)), i < 380) << i;
  EXPECT_EQ(h.master->counters().evicted_objects, 20u);
  EXPECT_LE(h.master->counters().evict_looked_at, 2 * 20u + 16);
}

TEST(Evict, LeasedAndPinnedObjectsCostNoScan) {
  Options options;
  options.eviction_high_watermark_ratio = 1.0;
  options.lease_max_ratio = 0.9;
  Harness h(options);
  h.AddStore("a", 4000 * kKiB);
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(h.Look(K(i)).has_value());
  ObjectInfo info;
  for (int i = 3000; i < 3010; ++i) ASSERT_TRUE(h.master->BeginRead(h.Key(K(i)), h.now(), &info));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(h.Put("new" + std::to_string(i), kKiB).ok());
  }
  EXPECT_EQ(h.master->counters().evicted_objects, 100u);
  EXPECT_LE(h.master->counters().evict_looked_at, 2 * 100u + 16);
  for (int i = 0; i < 3010; ++i) EXPECT_TRUE(h.Present(K(i)));
  for (int i = 3000; i < 3010; ++i) h.master->EndRead(h.Look(K(i), false)->version, h.now());
}

// A hint says where a record was. Whatever happened since, the answer is the key's own.
TEST(Lookup, HintsAreNotBelieved) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  const auto hinted = [&](std::string_view key, uint32_t name_space = 0) {
    KeyRef ref = h.Key(key, name_space);
    h.master->Prefetch({&ref, 1});
    return ref;
  };
  const auto version = [&](const KeyRef& key) -> std::optional<Version> {
    ObjectInfo info;
    if (!h.master->Lookup(key, {.lease = false}, h.now(), &info)) return std::nullopt;
    return info.version;
  };
  EXPECT_EQ(hinted("a").hint, 0u) << "nothing there";
  const Version first = *h.Put("a", 100);
  const KeyRef a = hinted("a");
  ASSERT_NE(a.hint, 0u);
  EXPECT_EQ(version(a), first);
  KeyRef foreign = h.Key("b");
  foreign.hint = a.hint;
  EXPECT_EQ(version(foreign), std::nullopt) << "another key's record";
  foreign = h.Key("a", 1);
  foreign.hint = a.hint;
  EXPECT_EQ(version(foreign), std::nullopt) << "another namespace's";
  const Version second = *h.Put("a", 100, {.replace = true});
  EXPECT_EQ(version(a), second) << "replaced";
  const KeyRef again = hinted("a");
  ASSERT_TRUE(h.Delete("a"));
  EXPECT_EQ(version(again), std::nullopt) << "deleted";
  const Version other = *h.Put("c", 100);  // into the record that became free
  EXPECT_EQ(version(again), std::nullopt);
  const KeyRef c = hinted("c");
  EXPECT_EQ(version(c), other);
  h.master->Flush(0, h.now());
  EXPECT_EQ(version(c), std::nullopt) << "flushed, not yet taken apart";
  h.Tick();
  EXPECT_EQ(version(c), std::nullopt);
}

// A renewal moves nothing; eviction puts renewed objects where they belong when it comes upon them.
TEST(Evict, RenewedLeasesAreMovedAsideOnce) {
  Options options;
  options.eviction_high_watermark_ratio = 1.0;
  options.lease_max_ratio = 0.9;
  Harness h(options);
  h.AddStore("a", 4000 * kKiB);
  for (int i = 0; i < 4000; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  const auto lease_some = [&] {
    for (int i = 500; i < 3500; ++i) ASSERT_TRUE(h.Look(K(i)).has_value());
  };
  const auto pass = [&](int64_t ms) {
    h.Advance(ms);
    h.Alive();
    h.Tick();
  };
  ASSERT_NO_FATAL_FAILURE(lease_some());
  for (int round = 0; round < 3; ++round) {
    pass(9000);
    ASSERT_NO_FATAL_FAILURE(lease_some());
    h.master->CheckInvariants(h.now());
  }
  EXPECT_EQ(h.Dram().leased, 3000 * kKiB);
  pass(5000);
  for (int i = 0; i < 700; ++i) ASSERT_TRUE(h.Put("new" + std::to_string(i), kKiB).ok());
  EXPECT_EQ(h.master->counters().evicted_objects, 700u);
  EXPECT_LE(h.master->counters().evict_looked_at, 2 * 700u + 16);
  for (int i = 500; i < 3500; ++i) EXPECT_TRUE(h.Present(K(i))) << i;
  for (int i = 0; i < 500; ++i) EXPECT_FALSE(h.Present(K(i))) << "the coldest went first: " << i;
  h.master->CheckInvariants(h.now());
  // Their last lease ends, and they are what they would be without any: older than what came after.
  pass(6000);
  EXPECT_EQ(h.Dram().leased, 0u);
  for (int i = 1000; i < 1500; ++i) ASSERT_TRUE(h.Put("new" + std::to_string(i), kKiB).ok());
  for (int i = 0; i < 700; ++i) EXPECT_TRUE(h.Present("new" + std::to_string(i))) << i;
}

// More renewed objects than one run may move, and behind them the only ones that can go.
TEST(Evict, ManyRenewedLeasesDoNotHideVictims) {
  constexpr int kRenewed = 8500, kEnded = 100, kPinned = 2300, kRoom = 12'000;
  Options options;
  options.lease_max_ratio = 0.84;
  Harness h(options);
  h.AddStore("a", uint64_t{kRoom} * 64);
  h.auto_close = false;
  for (int i = 0; i < kRenewed + kEnded + kPinned; ++i) {
    ASSERT_TRUE(h.Put(K(i), 64, {.hard_pin = i >= kRenewed + kEnded}).ok()) << i;
    if (i % 1000 == 0) h.WorkAll();
  }
  h.WorkAll();
  for (int i = 0; i < kRenewed + kEnded; ++i) ASSERT_GT(h.Look(K(i))->lease_ms, 0) << i;
  h.Advance(9000);
  h.Alive();
  for (int i = 0; i < kRenewed; ++i) ASSERT_EQ(h.Look(K(i))->lease_ms, 10'000) << i;
  h.Advance(1200);
  h.Alive();
  EXPECT_EQ(h.master->Tick(h.now(), 100), h.now().boot_ms) << "cut off: it goes on at once";
  EXPECT_EQ(h.master->counters().evicted_objects, 0u);
  h.Tick();
  EXPECT_EQ(h.master->counters().evicted_objects, static_cast<uint64_t>(kEnded));
  for (int i = 0; i < kRenewed; ++i) ASSERT_TRUE(h.Present(K(i))) << i;
}

TEST(Evict, O15_SoftPinsGoLast) {
  Options options;
  options.eviction_ratio = 0.8;
  Harness h(options);
  h.AddStore("a", 20 * kMiB);
  h.auto_close = false;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(h.Put("plain" + std::to_string(i), kMiB).ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(h.Put("soft" + std::to_string(i), kMiB, {.soft_pin_ms = 600'000}).ok());
  h.WorkAll();
  h.master->Tick(h.now(), 10'000);
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(h.Present("plain" + std::to_string(i)));
    EXPECT_EQ(h.Present("soft" + std::to_string(i)), i >= 6);
  }
}

TEST(Evict, O18_SoftPinsNeverRefuseAPut) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 66; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB, {.soft_pin_ms = 600'000}).ok()) << i;
    h.Tick();
  }
  int readable = 0;
  for (int i = 0; i < 66; ++i) readable += h.Present(K(i)) ? 1 : 0;
  EXPECT_GE(readable, 13);
  for (int i = 66 - readable; i < 66; ++i) EXPECT_TRUE(h.Present(K(i)));
}

TEST(Pin, O19_HardPinsAndTheirBudget) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("pinned", kMiB, {.hard_pin = true}).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB).ok());
    h.Tick();
  }
  EXPECT_TRUE(h.Present("pinned"));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h.Put("more" + std::to_string(i), kMiB, {.hard_pin = true}).ok());
  const auto refused = h.Start("fifth", kMiB, {.hard_pin = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kPinBudget);
  EXPECT_NE(refused.error().message().find(std::to_string(4 * kMiB)), std::string::npos);
  EXPECT_EQ(h.Dram().hard_pinned, 4 * kMiB);
  EXPECT_TRUE(h.Delete("pinned"));
  EXPECT_EQ(h.Dram().hard_pinned, 3 * kMiB);
  // A put in flight holds its share, and gives it back.
  const auto plan = h.Start("again", kMiB, {.hard_pin = true});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(h.Start("fifth", kMiB, {.hard_pin = true}).error().code(), ErrorCode::kPinBudget);
  ASSERT_TRUE(h.master->PutRevoke(h.caller(), plan->put, h.now()).value());
  ASSERT_TRUE(h.Put("again", kMiB).ok());
  ASSERT_TRUE(h.master->PinHard(h.Key("again"), h.now()).ok());
  EXPECT_EQ(h.master->PinHard(h.Key(K(19)), h.now()).error().code(), ErrorCode::kPinBudget);
  ASSERT_TRUE(h.master->Unpin(h.Key("again"), h.now()).ok());
  EXPECT_TRUE(h.master->PinHard(h.Key(K(19)), h.now()).ok());
}

TEST(Evict, O20_FullToTheLastByteAndOn) {
  Options options;
  options.eviction_high_watermark_ratio = 1.0;
  Harness h(options);
  const uint64_t size = 15 * kKiB;
  auto& store = h.AddStore("a", 16'384 * size);
  for (int i = 0; i < 16'434; ++i) {
    ASSERT_TRUE(h.Put(K(i), size).ok()) << i;
    if (i != 16'383) continue;
    EXPECT_EQ(h.Bytes(store).free, 0u);
  }
  EXPECT_EQ(h.master->counters().evicted_objects, 50u);
  for (int i = 50; i < 16'434; i += 2) ASSERT_TRUE(h.Delete(K(i)));
  const uint64_t freed = h.Bytes(store).free;
  const auto count = static_cast<int>(freed / 2 / (3 * size));
  uint32_t most_extents = 0;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(h.Put("large" + std::to_string(i), 3 * size).ok());
    most_extents = std::max(most_extents, h.Look("large" + std::to_string(i), false)->replicas[0].extents.size());
  }
  EXPECT_EQ(most_extents, 3u);
  EXPECT_EQ(h.master->counters().evicted_objects, 50u) << "scattered space is no reason to evict";
}

TEST(Evict, O22_NamespacesAreEvictedIndependently) {
  Options options;
  options.eviction_ratio = 0.5;
  Harness h(options);
  h.AddStore("a", 2 * kMiB);
  h.auto_close = false;
  ASSERT_TRUE(h.Put("k", kMiB, {}, 1).ok());
  ASSERT_TRUE(h.Put("k", kMiB, {}, 2).ok());
  h.WorkAll();
  h.master->Tick(h.now(), 10'000);
  EXPECT_FALSE(h.Present("k", 1));
  EXPECT_TRUE(h.Present("k", 2));
  EXPECT_EQ(h.master->Size(1), 0u);
  EXPECT_EQ(h.master->Size(2), 1u);
}

TEST(Pin, O23_PinArguments) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB, {.soft_pin_ms = 0}).ok());
  EXPECT_EQ(h.Dram().soft_pinned, 0u);
  const int64_t max_ms = 24 * 3600'000;
  const auto refused = h.Start("k2", 1, {.soft_pin_ms = max_ms + 1000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_NE(refused.error().message().find(std::to_string(max_ms)), std::string::npos);
  EXPECT_EQ(h.master->PinSoft(h.Key("k"), max_ms + 1, h.now()).error().code(), ErrorCode::kInvalid);
  EXPECT_TRUE(h.Start("k3", 1, {.soft_pin_ms = max_ms}).ok());
  ASSERT_TRUE(h.master->PinSoft(h.Key("k"), 1000, h.now()).ok());
  EXPECT_EQ(h.Dram().soft_pinned, kMiB);
  ASSERT_TRUE(h.master->Unpin(h.Key("k"), h.now()).ok());
  EXPECT_EQ(h.Dram().soft_pinned, 0u);
}

TEST(Pin, O24_TheSoftPinRunsFromPutEndAndIsNeverRenewed) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  h.AddStore("b", 16 * kMiB);
  const int64_t minute = 60'000;
  const auto wait = [&](int64_t minutes) {
    for (int64_t i = 0; i < minutes * 60; ++i) {
      h.Advance(1000);
      h.Alive();
    }
    h.Tick();
  };
  const auto plan = h.Start("k", kMiB, {.replicas = 2, .soft_pin_ms = 30 * minute});
  EXPECT_EQ(h.Dram().soft_pinned, 0u);
  for (int i = 0; i < 6; ++i) {
    h.Advance(10'000);
    h.Alive();
    ASSERT_TRUE(h.master->PutRenew(h.caller(), plan->put, h.now()).ok());
  }
  const ReplicaFailure failed[] = {{1, ErrorCode::kUnreachable}};  // at 1 min
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, failed, h.now()).ok());
  EXPECT_EQ(h.Dram().soft_pinned, kMiB);
  h.WorkAll();
  wait(19);  // 20 min
  EXPECT_TRUE(h.master->Exists(h.Key("k"), h.now()));
  EXPECT_TRUE(h.Look("k").has_value());
  ObjectInfo info;
  ASSERT_TRUE(h.master->BeginRead(h.Key("k"), h.now(), &info));
  h.master->EndRead(info.version, h.now());
  EXPECT_EQ(h.Dram().soft_pinned, kMiB);
  ObjectDetail detail;
  ASSERT_TRUE(h.master->Describe(h.Key("k"), h.now(), &detail));
  EXPECT_EQ(detail.soft_pin_left_ms, 11 * minute);
  wait(11);  // 31 min
  EXPECT_EQ(h.Dram().soft_pinned, 0u);
  EXPECT_TRUE(h.Present("k"));
}

TEST(Evict, P11_ProbingAtFullFill) {
  Harness h;
  h.AddStore("a", 256 * kMiB);
  int keys = 0;
  for (; keys < 60; ++keys) {
    ASSERT_TRUE(h.Put(K(keys), 4 * kMiB).ok());
    h.Tick();
  }
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < keys; ++i) (void)h.master->Exists(h.Key(K(i)), h.now());
    ASSERT_TRUE(h.Put(K(keys++), 4 * kMiB).ok()) << round;
    h.Advance(400);
    h.Alive();
    h.Tick();
  }
  EXPECT_EQ(h.master->counters().eviction_dry_runs, 0u);
  EXPECT_GT(h.master->counters().leases_refused, 0u);
}

TEST(Read, BytesOfARunningReadAreHeld) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB).ok());
  ObjectInfo first, second;
  ASSERT_TRUE(h.master->BeginRead(h.Key("k"), h.now(), &first));
  ASSERT_TRUE(h.master->BeginRead(h.Key("k"), h.now(), &second));
  EXPECT_EQ(first.version, second.version);
  ASSERT_TRUE(h.Delete("k"));
  EXPECT_EQ(h.Dram().bytes.dying, kMiB);
  h.master->EndRead(first.version, h.now());
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, kMiB);
  h.master->EndRead(first.version, h.now());
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
}

TEST(Expiry, TimesToLive) {
  Options options;
  options.events = true;
  Harness h(options);
  h.AddStore("a", 16 * kMiB);
  const int64_t wall = h.now().wall_ms;
  ASSERT_TRUE(h.Put("a", 10, {.expire_at_ms = wall + 1000}).ok());
  ASSERT_TRUE(h.Put("b", 10).ok());
  EXPECT_EQ(h.master->Expiry(h.Key("a"), h.now()), wall + 1000);
  EXPECT_EQ(h.master->Expiry(h.Key("b"), h.now()), 0);
  EXPECT_FALSE(h.master->Persist(h.Key("b"), h.now()));
  ASSERT_TRUE(h.master->ExpireAt(h.Key("b"), wall + 500, h.now()));
  h.Advance(500);
  EXPECT_TRUE(h.Present("a"));
  EXPECT_FALSE(h.Present("b"));
  h.clock.StepWall(-200);
  EXPECT_TRUE(h.Present("b")) << "the wall clock decides";
  ASSERT_TRUE(h.master->Persist(h.Key("b"), h.now()));
  h.clock.StepWall(2000);
  h.Tick();
  EXPECT_FALSE(h.Present("a"));
  EXPECT_TRUE(h.Present("b"));
  EXPECT_EQ(h.master->Size(0), 1u);
  EXPECT_EQ(h.master->counters().expired_objects, 1u);
  ASSERT_TRUE(h.master->ExpireAt(h.Key("b"), h.now().wall_ms, h.now())) << "the past deletes";
  EXPECT_FALSE(h.Present("b"));
  std::vector<Event::Kind> kinds;
  for (const Event& e : h.master->TakeEvents()) kinds.push_back(e.kind);
  using Kind = Event::Kind;
  EXPECT_EQ(kinds,
            (std::vector<Kind>{Kind::kSet, Kind::kSet, Kind::kExpire, Kind::kPersist, Kind::kExpired, Kind::kDel}));
}

TEST(Events, AreBoundedAndNumbered) {
  Options options;
  options.events = true;
  Harness h(options);
  auto store = h.MakeStore("a", 16 * kMiB);
  store.segments[0].in_process = true;
  ASSERT_TRUE(h.Join(&store).ok());
  h.auto_close = false;
  for (int i = 0; i < 70'000; ++i) ASSERT_TRUE(h.Put("k", 10, {.replace = true, .in_process = true}).ok());
  const auto events = h.master->TakeEvents();
  ASSERT_EQ(events.size(), 65'536u);
  EXPECT_EQ(events.back().number, 70'000u);
  EXPECT_EQ(h.master->counters().events_dropped, 70'000u - 65'536u);
  EXPECT_TRUE(h.master->TakeEvents().empty());
}

}  // namespace
}  // namespace tiercel::core
