// What the acceptance cases say of the core beyond what the tests by topic show: their own numbers, and near variants.
#include <algorithm>
#include <set>

#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

std::string K(int i) { return "k" + std::to_string(i); }

bool Overlap(const ExtentList& a, const ExtentList& b) {
  for (const Extent& x : a) {
    for (const Extent& y : b) {
      if (x.offset < y.offset + y.length && y.offset < x.offset + x.length) return true;
    }
  }
  return false;
}

TEST(Cases, O03_TwoStoresOnOneHostAreOneHost) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  h.stores.push_back(h.MakeStore("b", 16 * kMiB));
  h.stores.back().info.host = "host-a";
  ASSERT_TRUE(h.Join(&h.stores.back()).ok());
  const uint64_t free = h.Dram().bytes.free;
  const auto plan = h.Start("k", kMiB, {.replicas = 2});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->replicas.size(), 1u);
  EXPECT_EQ(h.Dram().bytes.free, free - kMiB);
  EXPECT_EQ(h.Start("k2", kMiB, {.replicas = 2, .strict = true}).error().code(), ErrorCode::kTooFewHosts);
  EXPECT_EQ(h.Dram().bytes.free, free - kMiB);
}

// Where leases of EXISTS are not capped below what is asked for: exactly the five that were probed stay.
TEST(Cases, O10_RemovingEverythingWithLeasesOfExistsOut) {
  Harness h;
  h.AddStore("a", 32 * kMiB);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(h.Put(K(i), kMiB).ok());
  const uint64_t free = h.Dram().bytes.free;
  for (int i = 0; i < 10; i += 2) ASSERT_TRUE(h.master->Exists(h.Key(K(i)), h.now()));
  EXPECT_EQ(h.master->Flush(0, h.now()), 10u);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(h.Present(K(i)));
  EXPECT_EQ(h.Dram().bytes.free, free + 5 * kMiB);
  EXPECT_EQ(h.Dram().bytes.dying, 5 * kMiB);
  ASSERT_TRUE(h.Put("new", 5 * kMiB).ok());
  h.Advance(9'999);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, 5 * kMiB);
  h.Advance(1);
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
  EXPECT_TRUE(h.Delete("new"));
  EXPECT_EQ(h.Dram().bytes.free, 32 * kMiB);
}

// The second replica of a leased object is held as well, and so is every one of a replaced version.
TEST(Cases, O09_AllReplicasOfALeasedObjectStay) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  auto& b = h.AddStore("b", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB, {.replicas = 2}).ok());
  ASSERT_TRUE(h.Look("k").has_value());
  ASSERT_TRUE(h.Put("k", kMiB, {.replace = true, .replicas = 2}).ok());
  EXPECT_TRUE(h.Delete("k"));
  EXPECT_EQ(h.Bytes(a).dying, kMiB) << "the second version was never leased";
  EXPECT_EQ(h.Bytes(b).dying, kMiB);
  h.Advance(10'000);
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.free, 32 * kMiB);
}

TEST(Cases, O19_AValueOfTheWholeBudgetMayBePinned) {
  Options options;
  options.hard_pin_max_ratio = 0.5;
  Harness h(options);
  h.AddStore("a", 8 * kMiB);
  ASSERT_TRUE(h.Put("plain", 1).ok());
  EXPECT_EQ(h.Dram().hard_pinned, 0u) << "without the option nothing is pinned";
  ASSERT_TRUE(h.Put("pinned", 4 * kMiB, {.hard_pin = true}).ok()) << "its block sums do not count";
  EXPECT_EQ(h.Dram().hard_pinned, 4 * kMiB);
  const uint64_t free = h.Dram().bytes.free;
  const auto refused = h.Start("one more", 1, {.hard_pin = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kPinBudget);
  EXPECT_EQ(h.Dram().bytes.free, free);
  // O-38 with it: a replacement needs room for both versions.
  const auto v1 = h.Put("k", kMiB);
  ASSERT_TRUE(v1.ok());
  EXPECT_EQ(h.Start("k", 3 * kMiB, {.replace = true}).error().code(), ErrorCode::kNoSpace);
  EXPECT_EQ(h.Look("k", false)->version, *v1);
  ASSERT_TRUE(h.master->Unpin(h.Key("pinned"), h.now()).ok());
  EXPECT_EQ(h.Dram().hard_pinned, 0u);
  ASSERT_TRUE(h.master->PinHard(h.Key("pinned"), h.now()).ok());
  EXPECT_TRUE(h.Delete("pinned"));
  EXPECT_EQ(h.Dram().hard_pinned, 0u);
}

// Replicas count one by one, and one that is lost gives its share back.
TEST(Cases, O19_EachReplicaCountsAgainstTheBudget) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  h.AddStore("b", 16 * kMiB);
  ASSERT_TRUE(h.Put("pinned", 2 * kMiB, {.replicas = 2, .hard_pin = true}).ok());
  EXPECT_EQ(h.Dram().hard_pinned, 4 * kMiB);
  const auto half = h.Start("half", 2 * kMiB, {.replicas = 2, .hard_pin = true});
  ASSERT_TRUE(half.ok());
  const ReplicaFailure failed[] = {{0, ErrorCode::kUnreachable}};
  ASSERT_TRUE(h.master->PutEnd(h.caller(), half->put, 1, failed, h.now()).ok());
  EXPECT_EQ(h.Dram().hard_pinned, 6 * kMiB);
  h.WorkAll();
  ASSERT_TRUE(h.master->StoreLeave("a", "", 0, h.now()).ok());
  h.Tick();
  EXPECT_LE(h.Dram().hard_pinned, 4 * kMiB);
  EXPECT_TRUE(h.Present("pinned"));
  (void)a;
}

TEST(Cases, O21_WhatIsBeingReadIsNoVictim) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("source", kMiB).ok());
  ObjectInfo read;
  ASSERT_TRUE(h.master->BeginRead(h.Key("source"), h.now(), &read));  // the copy that the test holds up
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB).ok()) << i;
    h.Tick();
  }
  const auto still = h.Look("source", false);
  ASSERT_TRUE(still.has_value());
  EXPECT_EQ(still->version, read.version);
  EXPECT_EQ(still->replicas[0].extents, read.replicas[0].extents);
  h.master->EndRead(read.version, h.now());
  for (int i = 40; i < 80; ++i) {
    ASSERT_TRUE(h.Put(K(i), kMiB).ok()) << i;
    h.Tick();
  }
  EXPECT_FALSE(h.Present("source")) << "then it goes like any other";
}

TEST(Cases, O22_OnlyTheVictimsNamespaceLosesBytes) {
  Options options;
  options.eviction_ratio = 0.5;
  Harness h(options);
  h.AddStore("a", 4 * kMiB);
  h.auto_close = false;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(h.Put(K(i), kMiB, {}, 1).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(h.Put(K(i), kMiB, {}, 2).ok());
  h.WorkAll();
  h.master->Tick(h.now(), 10'000);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(h.Present(K(i), 1));
    EXPECT_TRUE(h.Present(K(i), 2));
  }
  EXPECT_EQ(h.master->Size(1), 0u);
  EXPECT_EQ(h.master->Size(2), 2u);
  EXPECT_EQ(h.Dram().bytes.live, 2 * kMiB);
}

TEST(Cases, O24_AReplacementBeginsItsOwnSoftPin) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", kMiB, {.soft_pin_ms = 60'000}).ok());
  EXPECT_EQ(h.Dram().soft_pinned, kMiB);
  const auto plan = h.Start("k", kMiB, {.replace = true});
  EXPECT_EQ(h.Dram().soft_pinned, kMiB) << "unchanged until PUTEND";
  ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  EXPECT_EQ(h.Dram().soft_pinned, 0u) << "the new version did not ask for one";
}

// Thousand objects, each with its only copy there; whatever is asked is answered as absent, in one step.
TEST(Cases, O31_O32_AStoreThatLeftIsGoneForEveryQuestion) {
  Harness h;
  auto& a = h.AddStore("a", 16 * kMiB);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(h.Put(K(i), kKiB).ok());
  const auto open = h.Start("open", kKiB);
  ASSERT_TRUE(open.ok());
  const auto reader = h.Look("k5");
  ASSERT_TRUE(reader.has_value());
  ASSERT_TRUE(h.master->StoreLeave("a", "", 0, h.now()).ok());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(h.Present(K(i)));
    EXPECT_FALSE(h.Delete(K(i)));
  }
  EXPECT_FALSE(h.master->PutEnd(h.caller(), open->put, 1, {}, h.now()).ok());
  const uint64_t seen = h.master->Scan(0, 0, 100'000, h.now(), [](std::string_view, const ObjectInfo&) { FAIL(); });
  EXPECT_EQ(seen, 0u);
  EXPECT_FALSE(h.master->RandomKey(0, h.now()).has_value());
  a.segments[0].epoch = 2;
  ASSERT_TRUE(h.Join(&a).ok());
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.free, 16 * kMiB);
  EXPECT_EQ(h.Dram().bytes.dying + h.Dram().bytes.fencing, 0u);
  h.Advance(11'000);  // leases are counted out in steps of their ring
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Dram().leased, 0u);
}

// A replace of a key whose old version a reader holds, again and again: no two versions that somebody may read share
// a byte, and each goes exactly when its own lease ends.
TEST(Cases, O37_ManyOldVersionsSideBySide) {
  Harness h;
  auto& a = h.AddStore("a", 64 * kMiB);
  std::vector<ExtentList> held;
  Version last;
  for (int i = 0; i < 8; ++i) {
    const auto version = h.Put("k", kMiB, {.replace = true});
    ASSERT_TRUE(version.ok());
    EXPECT_GT(*version, last);
    last = *version;
    const auto info = h.Look("k");
    for (const ExtentList& other : held) EXPECT_FALSE(Overlap(other, info->replicas[0].extents));
    held.push_back(info->replicas[0].extents);
    h.Advance(1000);
    h.Alive();
  }
  EXPECT_EQ(h.Bytes(a).dying, 7 * kMiB);
  h.Advance(2000 - 1);  // the first lease was granted 10 s ago, less a millisecond
  h.Alive();
  h.Tick();
  EXPECT_EQ(h.Bytes(a).dying, 7 * kMiB);
  for (int gone = 1; gone <= 7; ++gone) {
    h.Advance(gone == 1 ? 1 : 1000);
    h.Alive();
    h.Tick();
    EXPECT_EQ(h.Bytes(a).dying, static_cast<uint64_t>(7 - gone) * kMiB);
  }
}

// O-40 and O-06 for a plain put: the second writer's own put is not void because of the first one's end.
TEST(Cases, O40_TheLateWriterChangesNothing) {
  Harness h;
  h.AddStore("a", 16 * kMiB);
  ASSERT_TRUE(h.Put("k", 100).ok());
  const auto w = h.Start("k", 1000, {.replace = true});
  const Caller bob = h.caller(kBob, 2);
  h.Advance(30'000);
  h.Alive();
  const auto v = h.master->PutStart(bob, h.Key("k"), 2000, {.replace = true}, h.now());
  ASSERT_TRUE(v.ok());
  ASSERT_EQ(v->outcome, PutOutcome::kCreated);
  EXPECT_FALSE(Overlap(v->replicas[0].extents, w->replicas[0].extents));
  EXPECT_EQ(h.master->PutEnd(h.caller(), w->put, 9, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_FALSE(h.master->PutRevoke(h.caller(), w->put, h.now()).value_or(true));
  EXPECT_EQ(h.Look("k", false)->size, 100u) << "the first version is still the one";
  ASSERT_TRUE(h.master->PutEnd(bob, v->put, 5, {}, h.now()).ok());
  EXPECT_EQ(h.master->PutEnd(h.caller(), w->put, 9, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_EQ(h.Look("k", false)->version, v->put);
  EXPECT_EQ(h.Look("k", false)->sum, 5u);
}

}  // namespace
}  // namespace tiercel::core
