// The real core, the committer and the index in RocksDB: what commands leave on the disk.
#include <gtest/gtest.h>

#include <condition_variable>

#include "server/index/committer.h"
#include "tests/core/harness.h"
#include "tests/index/history.h"

namespace tiercel::index {
namespace {

using core::Harness;
using core::Record;
using core::Seq;

class TogetherTest : public testing::Test {
 protected:
  TogetherTest() : harness_({.journal = true}) {
    auto opened = RocksIndex::Open({.dir = dir_ / "index", .reserve_bytes = 0});
    EXPECT_TRUE(opened.ok());
    index_ = std::move(opened).value();
    Harness::FakeStore store = harness_.MakeStore("s1", 64 * core::kMiB);
    store.segments[0].outlives_master = true;
    harness_.stores.push_back(store);
    EXPECT_TRUE(harness_.Join(&harness_.stores.back()).ok());
    committer_ = std::make_unique<Committer>(index_.get(), harness_.master.get(), &lock_, &harness_.clock, [this] {
      const std::lock_guard hold(lock_);
      progressed_.notify_all();
    });
  }
  // Runs commands under the lock and waits until what they did is durable.
  template <typename Commands>
  void Do(Commands&& commands) {
    {
      const std::lock_guard hold(lock_);
      harness_.master->BeginCommand();
      commands(*harness_.master);
      wait_ = harness_.master->wait();
    }
    committer_->Wake();
    std::unique_lock hold(lock_);
    progressed_.wait(hold, [&] { return harness_.master->durable() >= wait_; });
  }
  void Put(std::string_view key, bool replace = false) {
    Do([&](core::Master& master) {
      const auto plan =
          master.PutStart({core::kAlice, 1}, Harness::Key(key), 100, {.replace = replace}, harness_.now());
      ASSERT_TRUE(plan.ok());
      ASSERT_TRUE(master.PutEnd({core::kAlice, 1}, plan->put, 7, {}, harness_.now()).ok());
    });
  }
  // The objects on the disk after everything has been closed, by key.
  std::map<std::string, Record> OnDisk() {
    committer_.reset();
    index_.reset();
    std::map<std::string, Record> objects;
    auto opened = RocksIndex::Open({.dir = dir_ / "index", .reserve_bytes = 0});
    EXPECT_TRUE(opened.ok());
    EXPECT_TRUE((*opened)
                    ->Load([&](Record& record) {
                      if (record.kind != Record::Kind::kPut) return Ok();
                      EXPECT_TRUE(objects.emplace(record.key, record).second) << record.key;
                      return Ok();
                    })
                    .ok());
    return objects;
  }

  TestDir dir_;
  std::mutex lock_;  // the core's
  std::condition_variable progressed_;
  Seq wait_ = 0;
  Harness harness_;
  std::unique_ptr<RocksIndex> index_;
  std::unique_ptr<Committer> committer_;
};

TEST_F(TogetherTest, WhatCommandsLeaveIsOnTheDisk) {
  for (const char* key : {"kept", "replaced", "deleted", "expiring"}) Put(key);
  Put("replaced", /*replace=*/true);
  const int64_t at = harness_.now().wall_ms + 60'000;
  Do([&](core::Master& master) { EXPECT_TRUE(master.ExpireAt(Harness::Key("expiring"), at, harness_.now())); });
  Do([&](core::Master& master) { EXPECT_TRUE(master.Delete(Harness::Key("deleted"), harness_.now())); });
  // A change of a record is not one more, a replace not either.
  EXPECT_EQ(index_->Figures().records, 3u);
  const auto objects = OnDisk();
  ASSERT_EQ(objects.size(), 3u);
  EXPECT_EQ(objects.at("expiring").expire_at_ms, at);
  EXPECT_EQ(objects.at("kept").replicas.at(0).extents.bytes(), 100u);
  EXPECT_GT(objects.at("replaced").version, objects.at("expiring").version);
}

}  // namespace
}  // namespace tiercel::index
