// The journal: waiting, durability, undoing.
#include "tests/core/harness.h"

namespace tiercel::core {
namespace {

class JournalTest : public testing::Test {
 protected:
  static Options Journaling() {
    Options options;
    options.journal = true;
    return options;
  }
  JournalTest() : h(Journaling()) {
    auto& kept = (h.stores.push_back(h.MakeStore("kept", 16 * kMiB)), h.stores.back());
    kept.segments[0].outlives_master = true;
    kept.segments[0].in_process = true;
    EXPECT_TRUE(h.Join(&kept).ok());
    auto& lost = (h.stores.push_back(h.MakeStore("lost", 16 * kMiB)), h.stores.back());
    lost.segments[0].outlives_master = false;
    lost.segments[0].in_process = true;
    EXPECT_TRUE(h.Join(&lost).ok());
    Commit();  // what is noted of the stores
  }
  // One command each. Where: the store.
  Seq Put(std::string_view key, std::string_view where, uint64_t size = kKiB) {
    h.master->BeginCommand();
    const auto plan =
        h.Start(key, size, {.replace = true, .exclude = where == "kept" ? "lost" : "kept", .in_process = true});
    EXPECT_TRUE(plan.ok());
    last_put = plan->put;
    EXPECT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
    return h.master->wait();
  }
  Seq Delete(std::string_view key) {
    h.master->BeginCommand();
    EXPECT_TRUE(h.Delete(key));
    return h.master->wait();
  }
  Seq Read(std::string_view key) {
    h.master->BeginCommand();
    EXPECT_TRUE(h.Present(key));
    return h.master->wait();
  }
  std::vector<Record> Take() { return h.master->TakeJournal(8192, 4 << 20); }
  void Commit() {
    const auto batch = Take();
    if (!batch.empty()) h.master->Durable(batch.back().seq, h.now());
  }

  Harness h;
  Version last_put;
};

TEST_F(JournalTest, OnlyWhatOutlivesTheMasterIsRecorded) {
  EXPECT_EQ(Put("m", "lost"), 0u);
  EXPECT_TRUE(Take().empty());
  const Seq seq = Put("k", "kept");
  EXPECT_GT(seq, 0u);
  EXPECT_TRUE(h.master->TakeSignals().journal);
  EXPECT_EQ(Read("k"), seq) << "what names the put waits for it";
  EXPECT_EQ(Read("m"), 0u);
  const auto batch = Take();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].kind, Record::Kind::kPut);
  EXPECT_EQ(batch[0].seq, seq);
  EXPECT_EQ(batch[0].key, "k");
  EXPECT_EQ(batch[0].size, kKiB);
  ASSERT_EQ(batch[0].replicas.size(), 1u);
  EXPECT_EQ(batch[0].replicas[0].extents.bytes(), kKiB);
  h.master->Durable(seq, h.now());
  EXPECT_EQ(h.master->durable(), seq);
  EXPECT_EQ(Read("k"), 0u);
}

TEST_F(JournalTest, RecordlessChangesKeepTheOrder) {
  const Seq seq = Put("k", "kept");
  EXPECT_EQ(Put("m", "lost"), seq) << "while something is on its way all wait";
  Commit();
  EXPECT_EQ(Put("m", "lost"), 0u);
}

TEST_F(JournalTest, AReplaceIsOneCommand) {
  Put("k", "kept");
  const Version old = last_put;
  Commit();
  const Seq seq = Put("k", "kept");
  EXPECT_EQ(h.Dram().bytes.dying, kKiB) << "the old version's space is untouched until then";
  const auto batch = Take();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].kind, Record::Kind::kPut);
  EXPECT_EQ(batch[1].kind, Record::Kind::kDelete);
  EXPECT_EQ(batch[1].version, old);
  EXPECT_EQ(batch[0].seq, batch[1].seq);
  h.master->Durable(seq, h.now());
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
  EXPECT_EQ(h.Dram().bytes.live, kKiB);
}

TEST_F(JournalTest, BatchesDoNotSplitCommands) {
  h.master->BeginCommand();
  for (int i = 0; i < 3; ++i) {
    const auto plan = h.Start("k" + std::to_string(i), kKiB, {.exclude = "lost", .in_process = true});
    ASSERT_TRUE(h.master->PutEnd(h.caller(), plan->put, 1, {}, h.now()).ok());
  }
  const Seq first = h.master->wait();
  const Seq second = Put("other", "kept");
  auto batch = h.master->TakeJournal(1, 1 << 20);
  ASSERT_EQ(batch.size(), 3u);
  EXPECT_EQ(batch[2].seq, first);
  batch = h.master->TakeJournal(1, 1 << 20);
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].seq, second);
  EXPECT_TRUE(Take().empty());
  h.master->Durable(second, h.now());
}

TEST_F(JournalTest, UnlinkedSpaceWaitsForItsRecord) {
  Put("k", "kept");
  Commit();
  const Seq seq = Delete("k");
  EXPECT_GT(seq, 0u);
  EXPECT_FALSE(h.Present("k"));
  h.master->BeginCommand();
  EXPECT_FALSE(h.Present("k"));
  EXPECT_EQ(h.master->wait(), 0u) << "a null waits for nothing";
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.dying, kKiB);
  Commit();
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
}

TEST_F(JournalTest, AFailureIsUndoneInReverseOrder) {
  Put("k", "kept");
  const Version v1 = last_put;
  Put("d", "kept");
  Put("e", "kept");
  Put("t", "kept");
  Commit();
  const int64_t wall = h.now().wall_ms;
  std::vector<Seq> seqs;
  seqs.push_back(Put("k", "kept"));
  const Version v2 = last_put;
  seqs.push_back(Put("k", "kept"));
  seqs.push_back(Delete("d"));
  h.master->BeginCommand();
  ASSERT_TRUE(h.master->ExpireAt(h.Key("t"), wall + 1000, h.now()));
  ASSERT_TRUE(h.master->PinHard(h.Key("t"), h.now()).ok());
  seqs.push_back(h.master->wait());
  seqs.push_back(Put("new", "kept"));
  seqs.push_back(Put("m", "lost"));
  (void)Take();
  const Seq reader = Read("new");
  h.master->JournalFailed(h.now());
  EXPECT_TRUE(h.master->index_read_only());
  for (const Seq seq : seqs) EXPECT_TRUE(h.master->WasUndone(seq));
  EXPECT_TRUE(h.master->WasUndone(reader));
  EXPECT_EQ(h.Look("k", false)->version, v1);
  EXPECT_TRUE(h.Present("d"));
  EXPECT_FALSE(h.Present("new"));
  EXPECT_FALSE(h.Present("m"));
  EXPECT_EQ(h.master->Expiry(h.Key("t"), h.now()), 0);
  EXPECT_EQ(h.Dram().hard_pinned, 0u);
  EXPECT_EQ(h.master->Size(0), 4u);
  EXPECT_EQ(h.Dram().bytes.live, 4 * kKiB);
  EXPECT_EQ(h.Dram().bytes.free, 32 * kMiB - 4 * kKiB);
  EXPECT_EQ(h.master->PutEnd(h.caller(), v2, 1, {}, h.now()).error().code(), ErrorCode::kNoPut);
  EXPECT_EQ(Read("k"), 0u);
  h.master->CheckInvariants(h.now());
  // Read-only: what needs a record is refused, the rest goes on.
  h.master->BeginCommand();
  const auto plan = h.Start("x", kKiB, {.exclude = "lost", .in_process = true});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code(), ErrorCode::kIndexReadOnly);
  EXPECT_EQ(Put("m", "lost"), 0u);
  h.master->JournalResumed(h.now());
  EXPECT_FALSE(h.master->index_read_only());
  const Seq later = Put("k", "kept");
  EXPECT_FALSE(h.master->WasUndone(later));
  Commit();
  EXPECT_EQ(h.master->durable(), later);
}

TEST_F(JournalTest, WhatTheCoreDidItselfIsWrittenAgain) {
  const int64_t wall = h.now().wall_ms;
  Put("k", "kept");
  h.master->BeginCommand();
  ASSERT_TRUE(h.master->ExpireAt(h.Key("k"), wall + 1000, h.now()));
  Commit();
  h.Advance(1000);
  h.Alive();
  h.Tick();  // expires
  ASSERT_EQ(Take().size(), 1u);
  h.master->JournalFailed(h.now());
  EXPECT_FALSE(h.Present("k"));
  EXPECT_EQ(h.Dram().bytes.dying, kKiB);
  EXPECT_TRUE(Take().empty()) << "not while the index is read-only";
  h.master->JournalResumed(h.now());
  EXPECT_TRUE(h.master->TakeSignals().journal);
  const auto batch = Take();
  ASSERT_EQ(batch.size(), 1u);
  EXPECT_EQ(batch[0].kind, Record::Kind::kDelete);
  h.master->Durable(batch[0].seq, h.now());
  EXPECT_EQ(h.Dram().bytes.dying, 0u);
}

TEST_F(JournalTest, AnEvictedPutIsUndoneForGood) {
  Put("k", "kept");
  const Version v1 = last_put;
  Commit();
  Put("k", "kept");
  h.Advance(1);
  // The new version is evicted before its record is durable.
  Options options = h.master->options();
  options.eviction_high_watermark_ratio = 0.00001;
  options.eviction_ratio = 0.000001;
  h.master->SetOptions(options, h.now());
  h.master->Tick(h.now(), 100);
  EXPECT_FALSE(h.Present("k"));
  h.master->JournalFailed(h.now());
  EXPECT_EQ(h.Look("k", false)->version, v1);
  h.master->CheckInvariants(h.now());
  h.master->JournalResumed(h.now());
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(h.Dram().bytes.live, kKiB);
}

TEST_F(JournalTest, AFlushIsUndone) {
  for (int i = 0; i < 50; ++i) Put("k" + std::to_string(i), i % 2 == 0 ? "kept" : "lost");
  Commit();
  h.master->BeginCommand();
  EXPECT_EQ(h.master->Flush(0, h.now()), 50u);
  const Seq seq = h.master->wait();
  Put("k0", "kept");
  Put("new", "lost");
  h.Tick();
  EXPECT_EQ(h.master->Size(0), 2u);
  EXPECT_GE(h.Dram().bytes.live, 52 * kKiB) << "nothing is given up before the flush is durable";
  const auto batch = Take();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[0].kind, Record::Kind::kNamespace);
  EXPECT_GT(batch[0].number, 0u);
  h.master->JournalFailed(h.now());
  EXPECT_TRUE(h.master->WasUndone(seq));
  EXPECT_EQ(h.master->Size(0), 50u);
  EXPECT_FALSE(h.Present("new"));
  EXPECT_TRUE(h.Present("k0"));
  h.master->CheckInvariants(h.now());
  h.master->JournalResumed(h.now());
  h.master->BeginCommand();
  EXPECT_EQ(h.master->Flush(0, h.now()), 50u);
  Commit();
  h.Tick();
  for (int i = 0; i < 3; ++i) Commit();  // the records of what was taken apart
  h.Tick();
  EXPECT_EQ(h.Dram().bytes.live, 0u);
  EXPECT_EQ(h.Dram().bytes.free, 32 * kMiB);
}

}  // namespace
}  // namespace tiercel::core
