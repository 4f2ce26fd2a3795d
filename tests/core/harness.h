// A master with stores played by the test: joins them, answers their work, turns the clock.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/master.h"

namespace tiercel::core {

inline constexpr uint64_t kKiB = 1024, kMiB = 1024 * 1024;
inline constexpr uint64_t kAlice = 11, kBob = 22;  // users

class Harness {
 public:
  struct FakeStore {
    StoreInfo info;
    StoreSlot slot = 0;
    std::vector<SegmentJoin> segments;
    Version floor;
  };

  explicit Harness(Options options = {}) : options_(options) {
    Master::Seeds seeds;
    seeds.generation = 3;
    master = std::make_unique<Master>(options_, seeds);
  }
  // Every test leaves a sound master behind.
  ~Harness() { master->CheckInvariants(now()); }

  Times now() const { return clock.Now(); }
  void Advance(int64_t ms) { clock.Advance(ms); }
  // All that is due; stores that were added stay alive.
  void Tick(uint32_t budget = 100'000) {
    for (int i = 0; i < 1000; ++i) {
      if (master->Tick(now(), budget) > now().boot_ms) return;
    }
  }
  void Alive() {
    for (FakeStore& s : stores) (void)master->StorePing(s.slot, s.info.incarnation, now());
  }

  static KeyRef Key(std::string_view key, uint32_t name_space = 0) { return MakeKey(name_space, key); }

  // ---- stores
  FakeStore MakeStore(const std::string& name, uint64_t size, uint32_t epoch = 1) {
    FakeStore s;
    s.info.name = name;
    s.info.incarnation = Incarnation{next_incarnation_++};
    s.info.host = "host-" + name;
    s.info.data_address = "10.0.0.1:" + std::to_string(7000 + next_incarnation_);
    SegmentJoin segment;
    segment.id = 1;
    segment.name = "seg-" + name;
    segment.epoch = epoch;
    segment.size = size;
    segment.outlives_master = false;
    s.segments.push_back(segment);
    return s;
  }
  Status Join(FakeStore* s) {
    StoreJoinRequest request;
    request.store = s->info;
    TIERCEL_ASSIGN(const StoreJoinReply reply, master->StoreJoin(request, now()));
    s->slot = reply.slot;
    s->floor = reply.floor;
    TIERCEL_TRY(master->StoreSegments(s->slot, s->info.incarnation, s->segments, now()));
    return master->StoreReady(s->slot, s->info.incarnation, Version{reply.generation << kCounterBits}, now());
  }
  FakeStore& AddStore(const std::string& name, uint64_t size) {
    stores.push_back(MakeStore(name, size));
    EXPECT_TRUE(Join(&stores.back()).ok());
    return stores.back();
  }
  // Takes all work; answers closings unless told to hold them. Returns the other items.
  std::vector<WorkItem> Work(FakeStore& s, bool answer_closes = true) {
    std::vector<WorkItem> others;
    Result<WorkAnswer> answer = master->StoreWork(s.slot, s.info.incarnation, 1000, now());
    EXPECT_TRUE(answer.ok());
    if (!answer.ok()) return others;
    EXPECT_GE(answer->floor, s.floor) << "the floor only rises";
    s.floor = answer->floor;
    for (WorkItem& item : answer->items) {
      if (item.kind != WorkItem::Kind::kClose) {
        others.push_back(std::move(item));
      } else if (answer_closes) {
        EXPECT_TRUE(master->StoreClosed(s.slot, s.info.incarnation, item.puts, now()).ok());
      } else {
        held_closes.insert(held_closes.end(), item.puts.begin(), item.puts.end());
      }
    }
    return others;
  }
  void WorkAll() {
    for (FakeStore& s : stores) Work(s);
  }

  // ---- objects
  Caller caller(uint64_t user = kAlice, ConnectionId connection = 1) const { return {user, connection}; }
  Result<PutPlan> Start(std::string_view key, uint64_t size, PutOptions how = {}, uint32_t name_space = 0) {
    return master->PutStart(caller(), Key(key, name_space), size, how, now());
  }
  // Puts and closes; the version. Tries once more after eviction, as a caller would.
  Result<Version> Put(std::string_view key, uint64_t size, PutOptions how = {}, uint32_t name_space = 0) {
    Result<PutPlan> plan = Start(key, size, how, name_space);
    if (!plan.ok() && plan.error().action() == ErrorAction::kWait) {
      Tick();
      WorkAll();
      plan = Start(key, size, how, name_space);
    }
    if (!plan.ok()) return plan.error();
    if (plan->outcome != PutOutcome::kCreated) return Error(ErrorCode::kExists, "not created");
    TIERCEL_ASSIGN(const uint32_t published, master->PutEnd(caller(), plan->put, plan->put.value * 7, {}, now()));
    EXPECT_GE(published, 1u);
    if (auto_close) WorkAll();
    return plan->put;
  }
  std::optional<ObjectInfo> Look(std::string_view key, bool lease = true, uint32_t name_space = 0) {
    ObjectInfo info;
    if (!master->Lookup(Key(key, name_space), {.lease = lease, .touch = lease}, now(), &info)) return std::nullopt;
    return info;
  }
  bool Present(std::string_view key, uint32_t name_space = 0) { return Look(key, false, name_space).has_value(); }
  bool Delete(std::string_view key, uint32_t name_space = 0) { return master->Delete(Key(key, name_space), now()); }
  TierFigures Dram() const { return master->Figures(Tier::kDram); }
  SpaceBytes Bytes(const FakeStore& s) const {
    for (const SegmentInfo& info : master->Segments()) {
      if (info.store == s.slot) return info.bytes;
    }
    return {};
  }

  ManualClock clock;
  std::unique_ptr<Master> master;
  std::deque<FakeStore> stores;
  std::vector<Version> held_closes;
  bool auto_close = true;

 private:
  Options options_;
  uint64_t next_incarnation_ = 100;
};

}  // namespace tiercel::core
