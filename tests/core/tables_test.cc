// The core's tables against models from the standard library: random operations, growth, shrinking, iteration.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "server/core/flat_map.h"
#include "server/core/key_arena.h"
#include "server/core/object_table.h"
#include "server/core/slab.h"
#include "server/core/time_heap.h"

namespace tiercel::core {
namespace {

#ifdef TIERCEL_SANITIZED
constexpr int kSteps = 20'000;
#else
constexpr int kSteps = 200'000;
#endif

// TIERCEL_SEED runs one seed alone.
std::vector<uint64_t> Seeds() {
  if (const char* text = std::getenv("TIERCEL_SEED")) return {std::strtoull(text, nullptr, 10)};
  return {1, 2, 3};
}

// ---- FlatMap

TEST(FlatMap, BehavesAsAMap) {
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    FlatMap<uint64_t> map;
    std::map<uint64_t, uint64_t> model;
    for (int step = 0; step < kSteps; ++step) {
      // Grows for a while, shrinks for a while. Neighbouring keys and keys that are far apart.
      const bool growing = step / (kSteps / 4) % 2 == 0;
      const uint64_t key = random.Below(2) == 0 ? random.Below(5000) : random.Below(5000) << 40;
      if (random.Below(10) < (growing ? 7u : 2u)) {
        map[key] = static_cast<uint64_t>(step);
        model[key] = static_cast<uint64_t>(step);
      } else {
        ASSERT_EQ(map.Erase(key), model.erase(key) == 1);
      }
      ASSERT_EQ(map.size(), model.size());
      const uint64_t probe = random.Below(5000);
      const uint64_t* found = map.Find(probe);
      const auto it = model.find(probe);
      ASSERT_EQ(found != nullptr, it != model.end());
      if (found != nullptr) {
        ASSERT_EQ(*found, it->second);
      }
    }
    std::map<uint64_t, uint64_t> met;
    map.ForEach([&](uint64_t key, const uint64_t& value) { EXPECT_TRUE(met.emplace(key, value).second); });
    EXPECT_EQ(met, model);
  }
}

TEST(FlatMap, ANewValueIsAFreshOneAfterErasing) {
  FlatMap<std::vector<int>> map;
  map[7].assign(3, 1);
  ASSERT_TRUE(map.Erase(7));
  EXPECT_TRUE(map[7].empty());
  EXPECT_FALSE(map.Erase(8));
}

TEST(FlatMap, GivesMemoryBack) {
  FlatMap<uint64_t> map;
  EXPECT_EQ(map.memory_bytes(), 0u) << "an empty one has none";
  map[0] = 0;
  const uint64_t smallest = map.memory_bytes();
  for (uint64_t i = 0; i < 50'000; ++i) map[i] = i;
  EXPECT_GT(map.memory_bytes(), 50'000u * sizeof(uint64_t) * 2);
  for (uint64_t i = 0; i < 50'000; ++i) ASSERT_TRUE(map.Erase(i));
  EXPECT_LE(map.memory_bytes(), smallest);
}

TEST(FlatMap, IsEmptiedInSteps) {
  FlatMap<uint64_t> map;
  for (uint64_t i = 0; i < 1000; ++i) map[i * 977] = i;
  std::set<uint64_t> taken;
  size_t at = 0;
  uint64_t key = 0, value = 0;
  while (map.TakeNext(&at, &key, &value)) {
    EXPECT_EQ(key, value * 977);
    EXPECT_TRUE(taken.insert(key).second);
  }
  EXPECT_EQ(taken.size(), 1000u);
  EXPECT_TRUE(map.empty());
}

// ---- TimeHeap

struct Places {
  std::vector<uint32_t>* of;
  void operator()(uint32_t id, uint32_t place) const { (*of)[id] = place; }
};

TEST(TimeHeap, BehavesAsASortedSet) {
  constexpr uint32_t kIds = 3000;
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    std::vector<uint32_t> places(kIds, 0);
    TimeHeap<Places> heap(Places{&places});
    std::map<uint32_t, int64_t> when;
    std::multiset<int64_t> order;
    for (int step = 0; step < kSteps; ++step) {
      const bool growing = step / (kSteps / 4) % 2 == 0;
      const auto id = static_cast<uint32_t>(random.Below(kIds));
      const auto time = static_cast<int64_t>(random.Below(500)) - 100;  // equal times are usual
      const auto it = when.find(id);
      if (it == when.end()) {
        ASSERT_EQ(places[id], 0u);
        if (!growing && random.Below(4) != 0) continue;
        heap.Push(time, id);
        when[id] = time;
        order.insert(time);
      } else if (random.Below(2) == 0) {
        order.erase(order.find(it->second));
        order.insert(time);
        it->second = time;
        heap.Update(places[id], time);
      } else if (!growing || random.Below(3) == 0) {
        order.erase(order.find(it->second));
        when.erase(it);
        heap.Remove(places[id]);
        ASSERT_EQ(places[id], 0u) << "who leaves is told so";
      }
      ASSERT_EQ(heap.size(), when.size());
      if (when.empty()) continue;
      ASSERT_EQ(heap.top_when(), *order.begin());
      ASSERT_EQ(when.at(heap.top_id()), heap.top_when());
    }
    for (const auto& [id, time] : when) {
      ASSERT_EQ(heap.IdAt(places[id]), id);
      ASSERT_EQ(heap.WhenAt(places[id]), time);
    }
    int64_t last = INT64_MIN;
    while (!heap.empty()) {
      EXPECT_GE(heap.top_when(), last);
      last = heap.top_when();
      heap.Remove(1);
    }
    EXPECT_LE(heap.memory_bytes(), 64u * 1024) << "gives its memory back";
  }
}

// ---- KeyArena

TEST(KeyArena, KeepsEveryKeyWhole) {
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    KeyArena arena;
    std::map<uint32_t, std::string> model;
    std::vector<uint32_t> handles;
    for (int step = 0; step < kSteps / 4; ++step) {
      const bool growing = step / (kSteps / 16) % 2 == 0;
      if (handles.empty() || random.Below(10) < (growing ? 8u : 2u)) {
        // Mostly short, now and then any length that is allowed.
        const size_t size = 1 + random.Below(random.Below(50) == 0 ? kMaxKeyBytes : 200);
        std::string key(size, static_cast<char>(random.Next()));
        key[random.Below(size)] = static_cast<char>(step);
        const uint64_t before = arena.memory_bytes();
        const uint32_t handle = arena.Store(key);
        ASSERT_LE(arena.memory_bytes(), before + 256 * 1024) << "one run at most, and now and then the list of them";
        ASSERT_TRUE(model.emplace(handle, std::move(key)).second) << "no cell has two keys";
        handles.push_back(handle);
      } else {
        const size_t at = random.Below(handles.size());
        const uint32_t handle = handles[at];
        ASSERT_EQ(arena.View(handle, model[handle].size()), model[handle]);
        arena.Free(handle);
        model.erase(handle);
        handles[at] = handles.back();
        handles.pop_back();
      }
    }
    for (const auto& [handle, key] : model) ASSERT_EQ(arena.View(handle, key.size()), key);
  }
}

TEST(KeyArena, EverySizeOverlapsNoOther) {
  KeyArena arena;
  std::vector<std::pair<uint32_t, std::string>> all;
  for (size_t size = 1; size <= kMaxKeyBytes; size += size < 300 ? 1 : 257) {
    for (const char fill : {'a', 'b'}) {
      std::string key(size, fill);
      all.emplace_back(arena.Store(key), key);
    }
  }
  std::string longest(kMaxKeyBytes, 'z');
  all.emplace_back(arena.Store(longest), longest);
  for (const auto& [handle, key] : all) ASSERT_EQ(arena.View(handle, key.size()), key);
}

TEST(KeyArena, AClassLeavesItsMemoryToOthers) {
  KeyArena arena;
  std::vector<uint32_t> handles;
  for (int i = 0; i < 20'000; ++i) handles.push_back(arena.Store(std::string(100, 'x')));
  const uint64_t full = arena.memory_bytes();
  for (const uint32_t handle : handles) arena.Free(handle);
  handles.clear();
  for (int i = 0; i < 4'000; ++i) handles.push_back(arena.Store(std::string(490, 'y')));
  EXPECT_LE(arena.memory_bytes(), full + 64 * 1024) << "other lengths use the same runs";
}

// ---- Slab

struct Thing {
  uint32_t next = 0;
  uint64_t value = 0;
};

TEST(Slab, ThingsStayWhereTheyAre) {
  Slab<Thing, 4096> slab;
  std::map<uint32_t, std::pair<Thing*, uint64_t>> model;
  Random random(4);
  std::vector<uint32_t> slots;
  for (uint64_t step = 0; step < 20'000; ++step) {
    if (slots.empty() || random.Below(10) < 6) {
      const uint32_t slot = slab.Allocate();
      ASSERT_NE(slot, 0u);
      ASSERT_LT(slot, slab.end());
      slab[slot].value = step;
      ASSERT_TRUE(model.emplace(slot, std::pair(&slab[slot], step)).second) << "a slot has one owner";
      slots.push_back(slot);
    } else {
      const size_t at = random.Below(slots.size());
      slab.Free(slots[at]);
      model.erase(slots[at]);
      slots[at] = slots.back();
      slots.pop_back();
    }
    ASSERT_EQ(slab.used(), model.size());
  }
  for (const auto& [slot, thing] : model) {
    EXPECT_EQ(&slab[slot], thing.first);
    EXPECT_EQ(slab[slot].value, thing.second);
  }
  const uint32_t end = slab.end();
  for (const uint32_t slot : slots) slab.Free(slot);
  for (size_t i = 0; i < slots.size(); ++i) slab.Allocate();
  EXPECT_EQ(slab.end(), end) << "freed slots are used first";
}

// ---- ObjectTable

// A table of slots with their hashes, and the same as a map.
class TableWorld {
 public:
  explicit TableWorld(uint64_t seed) : random_(seed) {}

  // Hashes of every kind: spread, in one narrow interval, with equal tags (the upper half), wholly equal.
  uint64_t AnyHash() {
    switch (random_.Below(8)) {
      case 0: return uint64_t{0xabcdef01} << 32 | random_.Below(64);
      case 1: return uint64_t{0x12345678} << 32 | 7;
      case 2: return uint64_t{0x40000000} << 32 | random_.Below(1u << 20) << 20;
      case 3: return random_.Below(4) << 62;
      default: return random_.Next();
    }
  }
  void Insert() {
    const uint32_t slot = next_++;
    const uint64_t hash = AnyHash();
    table_.Insert(hash, slot);
    hashes_[slot] = hash;
    slots_.push_back(slot);
  }
  void Erase() {
    const size_t at = random_.Below(slots_.size());
    const uint32_t slot = slots_[at];
    table_.Erase(hashes_[slot], slot);
    hashes_.erase(slot);
    slots_[at] = slots_.back();
    slots_.pop_back();
  }
  void Replace() {
    const size_t at = random_.Below(slots_.size());
    const uint32_t old_slot = slots_[at], slot = next_++;
    const uint64_t hash = hashes_[old_slot];
    table_.Replace(hash, old_slot, slot);
    hashes_.erase(old_slot);
    hashes_[slot] = hash;
    slots_[at] = slot;
  }
  void Step(bool growing) {
    if (slots_.empty() || random_.Below(10) < (growing ? 7u : 2u)) {
      Insert();
    } else if (random_.Below(4) == 0) {
      Replace();
    } else {
      Erase();
    }
  }
  bool Finds(uint32_t slot, uint64_t hash) const {
    return table_.Find(hash, [&](uint32_t candidate) { return candidate == slot; }) == slot;
  }
  void Compare() {
    ASSERT_EQ(table_.size(), hashes_.size());
    if (slots_.empty()) {
      ASSERT_EQ(table_.Any(&random_), 0u);
      return;
    }
    const uint32_t there = slots_[random_.Below(slots_.size())];
    ASSERT_TRUE(Finds(there, hashes_[there]));
    ASSERT_FALSE(Finds(next_, hashes_[there])) << "another slot under the same hash is not there";
    ASSERT_TRUE(hashes_.contains(table_.Any(&random_)));
  }
  void CompareAll() {
    table_.Check();
    for (const auto& [slot, hash] : hashes_) ASSERT_TRUE(Finds(slot, hash));
    std::set<uint32_t> met;
    for (uint64_t cursor = 0;;) {
      cursor = table_.Scan(cursor, 10, [&](uint32_t slot) { EXPECT_TRUE(met.insert(slot).second) << "met once"; });
      if (cursor == 0) break;
    }
    ASSERT_EQ(met.size(), hashes_.size());
  }

  PagePool pool_;
  ObjectTable table_{&pool_};
  std::unordered_map<uint32_t, uint64_t> hashes_;
  std::vector<uint32_t> slots_;
  uint32_t next_ = 1;
  Random random_;
};

TEST(ObjectTable, BehavesAsAMultimap) {
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TableWorld world(seed);
    constexpr int kTableSteps = kSteps / 2;
    for (int step = 0; step < kTableSteps; ++step) {
      world.Step(step / (kTableSteps / 4) % 2 == 0);
      ASSERT_NO_FATAL_FAILURE(world.Compare());
      if (step % (kTableSteps / 20) == 0) {
        ASSERT_NO_FATAL_FAILURE(world.CompareAll());
      }
    }
    ASSERT_NO_FATAL_FAILURE(world.CompareAll());
    while (!world.slots_.empty()) world.Erase();
    ASSERT_NO_FATAL_FAILURE(world.CompareAll());
    uint32_t hint = 0;
    EXPECT_EQ(world.table_.First(&hint), 0u);
  }
}

TEST(ObjectTable, APeekNeverNamesWhatIsNotThere) {
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TableWorld world(seed);
    for (int step = 0; step < kSteps / 4; ++step) {
      world.Step(step < kSteps / 8);
      const uint32_t peeked = world.table_.Peek(world.AnyHash());
      ASSERT_TRUE(peeked == 0 || world.hashes_.contains(peeked));
    }
  }
}

// The promise of SCAN: what is there from start to end is met, whatever splits and merges happen meanwhile.
TEST(ObjectTable, AScanMeetsWhateverStays) {
  for (const uint64_t seed : Seeds()) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TableWorld world(seed);
    for (int i = 0; i < 6000; ++i) world.Insert();
    for (const bool growing : {true, false}) {
      std::unordered_map<uint32_t, uint64_t> stays = world.hashes_;
      std::set<uint32_t> met;
      uint64_t cursor = 0;
      do {
        cursor = world.table_.Scan(cursor, 20, [&](uint32_t slot) { met.insert(slot); });
        for (int i = 0; i < 40; ++i) world.Step(growing);
        std::erase_if(stays, [&](const auto& entry) { return !world.hashes_.contains(entry.first); });
      } while (cursor != 0);
      for (const auto& [slot, hash] : stays) ASSERT_TRUE(met.contains(slot)) << std::hex << hash;
      ASSERT_NO_FATAL_FAILURE(world.CompareAll());
    }
  }
}

TEST(ObjectTable, GivesPagesBackAsItShrinks) {
  PagePool pool;
  ObjectTable table(&pool);
  Random random(5);
  std::vector<uint64_t> hashes;
  for (uint32_t i = 1; i <= 100'000; ++i) {
    hashes.push_back(random.Next());
    table.Insert(hashes.back(), i);
  }
  const uint64_t full_room = pool.room(), memory = pool.memory_bytes();
  EXPECT_LE(memory, 100'000u * 24) << "a page is at least about half full on average";
  for (uint32_t i = 1; i <= 100'000; ++i) table.Erase(hashes[i - 1], i);
  table.Check();
  EXPECT_GT(pool.room(), full_room + memory / sizeof(PagePool::Page) / 2);
  for (uint32_t i = 1; i <= 100'000; ++i) table.Insert(hashes[i - 1], i);
  EXPECT_LE(pool.memory_bytes(), memory + (uint64_t{2} << 20)) << "and uses them again";
}

// Keys made to collide: the directory must not grow for what no split can part.
TEST(ObjectTable, EqualTagsGrowAChainInsteadOfTheDirectory) {
  PagePool pool;
  ObjectTable table(&pool);
  for (uint32_t i = 1; i <= 5000; ++i) table.Insert(uint64_t{0xfeedbeef} << 32 | i, i);
  table.Check();
  EXPECT_LE(table.memory_bytes(), 64u * 1024);
  for (uint32_t i = 1; i <= 5000; ++i) {
    ASSERT_EQ(table.Find(uint64_t{0xfeedbeef} << 32 | i, [&](uint32_t slot) { return slot == i; }), i);
  }
  for (uint32_t i = 1; i <= 5000; ++i) table.Erase(uint64_t{0xfeedbeef} << 32 | i, i);
  table.Check();
  EXPECT_EQ(table.size(), 0u);
}

}  // namespace
}  // namespace tiercel::core
