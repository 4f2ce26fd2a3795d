// The committer between the real core and an index that the test holds up and breaks.
#include "server/index/committer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>

#include "tests/core/harness.h"
#include "tests/support/held_index.h"

namespace tiercel::index {
namespace {

using core::Record;
using core::Seq;
using testing::ElementsAre;
using testing::SizeIs;

using FakeIndex = test::HeldIndex;

class CommitterTest : public testing::Test {
 protected:
  CommitterTest() : harness_({.journal = true}), index_(&lock_) {
    core::Harness::FakeStore store = harness_.MakeStore("s1", 64 * core::kMiB);
    store.segments[0].outlives_master = true;
    harness_.stores.push_back(store);
    EXPECT_TRUE(harness_.Join(&harness_.stores.back()).ok());
    // What is noted of the store and its segment is not what these tests are about.
    const auto notes = harness_.master->TakeJournal(100, 1 << 20);
    EXPECT_THAT(notes, SizeIs(2));
    harness_.master->Durable(notes.back().seq, harness_.now());
  }

  void Start() {
    committer_ = std::make_unique<Committer>(
        &index_, harness_.master.get(), &lock_, &harness_.clock,
        [this] {
          // As the front end does: it may take the lock, so the committer must not hold it.
          const std::lock_guard hold(lock_);
          progressed_.notify_all();
        },
        /*resume_every_ms=*/1);
  }

  // Puts a key; what its reply waits for.
  Seq Put(std::string_view key) {
    const std::lock_guard hold(lock_);
    core::Master& master = *harness_.master;
    master.BeginCommand();
    const auto plan = master.PutStart({core::kAlice, 1}, core::Harness::Key(key), 100, {}, harness_.now());
    EXPECT_TRUE(plan.ok());
    const auto published = master.PutEnd({core::kAlice, 1}, plan->put, 7, {}, harness_.now());
    EXPECT_TRUE(published.ok());
    return master.wait();
  }
  void AwaitDurable(Seq seq) {
    std::unique_lock hold(lock_);
    progressed_.wait(hold, [&] { return harness_.master->durable() >= seq; });
  }
  bool Has(std::string_view key) {
    const std::lock_guard hold(lock_);
    return harness_.master->Exists(core::Harness::Key(key), harness_.now());
  }
  std::vector<std::string> Keys(const std::vector<Record>& batch) {
    std::vector<std::string> keys;
    for (const Record& record : batch) keys.push_back(record.key);
    return keys;
  }

  std::mutex lock_;  // the core's
  std::condition_variable progressed_;
  core::Harness harness_;
  FakeIndex index_;
  std::unique_ptr<Committer> committer_;  // last: stops first
};

TEST_F(CommitterTest, WhatWasPutBecomesDurable) {
  Start();
  const Seq seq = Put("k");
  ASSERT_GT(seq, 0u);
  committer_->Wake();
  AwaitDurable(seq);
  ASSERT_THAT(index_.batches(), SizeIs(1));
  const Record record = index_.batches()[0].at(0);
  EXPECT_EQ(record.kind, Record::Kind::kPut);
  EXPECT_EQ(record.key, "k");
  EXPECT_EQ(record.size, 100u);
  EXPECT_EQ(record.sum, 7u);
}

TEST_F(CommitterTest, WhatArrivesDuringAWriteIsTheNextBatch) {
  Start();
  index_.Hold(true);
  Put("first");
  committer_->Wake();
  index_.AwaitWriting();
  Seq last = 0;
  for (const char* key : {"a", "b", "c"}) {
    last = Put(key);
    committer_->Wake();
  }
  EXPECT_TRUE(Has("c"));  // readable at once; only its reply waits
  index_.Hold(false);
  AwaitDurable(last);
  ASSERT_THAT(index_.batches(), SizeIs(2));
  EXPECT_THAT(Keys(index_.batches()[0]), ElementsAre("first"));
  EXPECT_THAT(Keys(index_.batches()[1]), ElementsAre("a", "b", "c"));
}

TEST_F(CommitterTest, AFailedWriteUndoesItsBatchAndAllBehindIt) {
  Start();
  AwaitDurable([&] {
    const Seq seq = Put("kept");
    committer_->Wake();
    return seq;
  }());
  index_.Break(true);
  index_.Hold(true);
  const Seq lost = Put("lost");
  committer_->Wake();
  index_.AwaitWriting();
  const Seq behind = Put("behind");
  index_.Hold(false);
  AwaitDurable(behind);
  {
    const std::lock_guard hold(lock_);
    EXPECT_TRUE(harness_.master->WasUndone(lost));
    EXPECT_TRUE(harness_.master->WasUndone(behind));
    EXPECT_TRUE(harness_.master->index_read_only());
  }
  EXPECT_FALSE(Has("lost"));
  EXPECT_FALSE(Has("behind"));
  EXPECT_TRUE(Has("kept"));

  index_.AwaitResumes(3);  // it goes on trying
  index_.Break(false);
  {
    std::unique_lock hold(lock_);
    progressed_.wait(hold, [&] { return !harness_.master->index_read_only(); });
  }
  const Seq again = Put("again");
  committer_->Wake();
  AwaitDurable(again);
  EXPECT_THAT(Keys(index_.batches().back()), ElementsAre("again"));
}

TEST_F(CommitterTest, TheEndCommitsWhatIsThere) {
  Start();
  index_.Hold(true);
  Put("a");
  committer_->Wake();
  index_.AwaitWriting();
  const Seq last = Put("b");  // nobody wakes for it
  index_.Hold(false);
  committer_.reset();
  EXPECT_EQ(harness_.master->durable(), last);
  EXPECT_FALSE(index_.batches().empty());
}

TEST_F(CommitterTest, TheEndDoesNotWaitForABrokenIndex) {
  Start();
  index_.Break(true);
  Put("a");
  committer_->Wake();
  index_.AwaitResumes(1);
  committer_.reset();
  EXPECT_TRUE(index_.batches().empty());
  EXPECT_FALSE(Has("a"));
}

TEST_F(CommitterTest, ManyWritersAreServedInOrder) {
  Start();
  std::deque<Seq> waits;
  for (int i = 0; i < 500; ++i) {
    waits.push_back(Put("k" + std::to_string(i)));
    committer_->Wake();
  }
  AwaitDurable(waits.back());
  Seq before = 0;
  size_t records = 0;
  for (const auto& batch : index_.batches()) {
    for (const Record& record : batch) {
      EXPECT_GE(record.seq, before);
      before = record.seq;
      ++records;
    }
  }
  EXPECT_EQ(records, 500u);
}

TEST(NullIndex, KeepsNothing) {
  const std::unique_ptr<core::Index> index = MakeNullIndex();
  EXPECT_FALSE(index->keeps_records());
  EXPECT_TRUE(index->Write({}).ok());
  EXPECT_TRUE(index->Resume().ok());
}

}  // namespace
}  // namespace tiercel::index
