// Disks that are full, fail, or cannot be written; and the power that goes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/check.h"
#include "base/fd.h"
#include "tests/index/history.h"
#include "tests/index/test_fs.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;
using core::Record;
using rocksdb::IOStatus;
using testing::HasSubstr;

class TroubleTest : public testing::Test {
 protected:
  TroubleTest() : env_(rocksdb::NewCompositeEnv(fs_)) {}

  IndexOptions Options(Fsync fsync = Fsync::kNo) {
    return {.dir = dir_ / "index", .fsync = fsync, .reserve_bytes = 1 << 20, .env = env_.get()};
  }
  void Open(Fsync fsync = Fsync::kNo, int64_t sync_every_ms = 3'600'000) {
    IndexOptions options = Options(fsync);
    options.sync_every_ms = sync_every_ms;
    Open(options);
  }
  void Open(const IndexOptions& options) {
    index_.reset();
    auto opened = RocksIndex::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    index_ = std::move(opened).value();
  }
  Status Next() { return index_->Write(history_.Next()); }
  Contents Reopened() {
    index_.reset();
    Open();
    Result<Loaded> loaded = LoadAll(index_.get());
    EXPECT_TRUE(loaded.ok());
    return loaded.ok() ? loaded->contents : Contents();
  }

  const uint64_t seed_ = RandomId();
  testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
  TestDir dir_;
  std::shared_ptr<TestFs> fs_ = std::make_shared<TestFs>();
  std::unique_ptr<rocksdb::Env> env_;
  History history_{seed_};
  std::unique_ptr<RocksIndex> index_;
};

// ---- writes that fail

TEST_F(TroubleTest, AFullDiskRefusesWritesUntilThereIsSpaceAgain) {
  Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Next().ok());
  const Contents before = history_.contents();
  fs_->FailAppends(".log", IOStatus::NoSpace("full"));
  History refused = history_;
  const Status full = index_->Write(refused.Next());
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code(), ErrorCode::kIndexReadOnly);
  EXPECT_TRUE(index_->Figures().read_only);
  EXPECT_FALSE(fs::exists(dir_ / "index/RESERVE")) << "given up for tidying";
  EXPECT_FALSE(index_->Write(refused.Next()).ok());
  // The log cannot be begun anew either.
  fs_->FailAppends("", IOStatus::NoSpace("full"));
  EXPECT_FALSE(index_->Resume().ok());
  EXPECT_FALSE(index_->Write(refused.Next()).ok());
  fs_->Heal();
  ASSERT_TRUE(index_->Resume().ok());
  EXPECT_FALSE(index_->Figures().read_only);
  EXPECT_TRUE(fs::exists(dir_ / "index/RESERVE"));
  EXPECT_EQ(index_->Figures().write_errors, 1u);
  EXPECT_EQ(index_->Figures().resumes, 1u);
  EXPECT_EQ(Reopened(), before);
  ASSERT_TRUE(Next().ok());
  EXPECT_EQ(Reopened(), history_.contents());
}

TEST_F(TroubleTest, AFailingDiskRefusesWritesUntilItWorksAgain) {
  Open();
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(Next().ok());
    fs_->FailAppends(".log", IOStatus::IOError("broken"));
    History refused = history_;
    EXPECT_EQ(index_->Write(refused.Next()).error().code(), ErrorCode::kIndexReadOnly);
    fs_->Heal();
    ASSERT_TRUE(index_->Resume().ok());
  }
  EXPECT_EQ(Reopened(), history_.contents());
  EXPECT_EQ(index_->Figures().lost_records, 0u);
}

// The batch is in the log as a whole, only its sync failed: the core undoes it, so it must never come back. (O-39)
TEST_F(TroubleTest, O39_WhatFailedToSyncDoesNotComeBack) {
  for (const bool resume : {false, true}) {
    SCOPED_TRACE(resume);
    Open(Fsync::kAlways);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(Next().ok());
    fs_->FailSyncs(".log", IOStatus::IOError("broken"));
    History refused = history_;
    ASSERT_FALSE(index_->Write(refused.Next()).ok());
    fs_->Heal();
    if (resume) {
      ASSERT_TRUE(index_->Resume().ok());
      for (int i = 0; i < 10; ++i) ASSERT_TRUE(Next().ok());
    }
    EXPECT_EQ(Reopened(), history_.contents());
  }
}

TEST_F(TroubleTest, AFailedSyncOfEverySecStopsWritesUntilResumed) {
  Open(Fsync::kEverySec);
  ASSERT_TRUE(Next().ok());
  fs_->FailSyncs(".log", IOStatus::IOError("broken"));
  EXPECT_FALSE(index_->Sync().ok());
  EXPECT_EQ(index_->Figures().sync_errors, 1u);
  History refused = history_;
  EXPECT_EQ(index_->Write(refused.Next()).error().code(), ErrorCode::kIndexReadOnly);
  fs_->Heal();
  ASSERT_TRUE(index_->Resume().ok());
  ASSERT_TRUE(Next().ok());
  EXPECT_EQ(Reopened(), history_.contents());
}

TEST_F(TroubleTest, AFlushThatFailsInTheBackgroundStopsWritesUntilResumed) {
  IndexOptions options = Options();
  options.write_buffer_bytes = 64 * 1024;
  Open(options);
  fs_->FailAppends(".sst", IOStatus::NoSpace("full"));
  Status written = Ok();
  History ahead = history_;
  for (int i = 0; i < 100'000 && written.ok(); ++i) {
    history_ = ahead;
    written = index_->Write(ahead.Next());
  }
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), ErrorCode::kIndexReadOnly);
  EXPECT_GE(index_->Figures().background_errors, 1u);
  fs_->Heal();
  ASSERT_TRUE(index_->Resume().ok());
  ASSERT_TRUE(Next().ok());
  EXPECT_EQ(Reopened(), history_.contents());
}

// ---- syncing once a second

TEST_F(TroubleTest, EverySecSyncsByItself) {
  Open(Fsync::kEverySec, /*sync_every_ms=*/1);
  const uint64_t before = fs_->syncs(".log");
  fs_->HoldSyncs(".log");
  ASSERT_TRUE(Next().ok());
  fs_->AwaitHeldSync();  // nobody asked for it
  fs_->Heal();
  index_.reset();
  EXPECT_GT(fs_->syncs(".log"), before);
}

TEST_F(TroubleTest, WithNoSyncOnlyTheEndSyncs) {
  Open(Fsync::kNo, /*sync_every_ms=*/1);
  const uint64_t before = fs_->syncs(".log");
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Next().ok());
  EXPECT_EQ(fs_->syncs(".log"), before);
  index_.reset();
  EXPECT_EQ(fs_->syncs(".log"), before + 1);
}

TEST_F(TroubleTest, AlwaysSyncsEachBatch) {
  Open(Fsync::kAlways);
  const uint64_t before = fs_->syncs(".log");
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Next().ok());
  EXPECT_EQ(fs_->syncs(".log"), before + 50);
}

TEST_F(TroubleTest, WritersWaitForADiskThatFallsBehind) {
  Open(Fsync::kEverySec, /*sync_every_ms=*/1);
  fs_->HoldSyncs(".log");
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) EXPECT_TRUE(Next().ok());
  });
  fs_->AwaitHeldSync();
  // Hang guard of the test program: with the bound gone this would never end.
  while (index_->Figures().sync_waits == 0) std::this_thread::yield();
  stop = true;
  fs_->Heal();
  writer.join();
  EXPECT_EQ(Reopened(), history_.contents());
}

// ---- the power goes

class PowerTest : public TroubleTest {
 protected:
  // The process is killed with the power: what is closed afterwards reaches no disk.
  void LosePower() {
    fs_->PowerOff();
    index_.reset();
    fs_->LoseUnsynced();
  }
  Loaded Found() {
    Open();
    Result<Loaded> loaded = LoadAll(index_.get());
    EXPECT_TRUE(loaded.ok());
    return loaded.ok() ? std::move(loaded).value() : Loaded();
  }
};

TEST_F(PowerTest, WithAlwaysNothingIsLost) {
  Random random(seed_);
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    IndexOptions options = Options(Fsync::kAlways);
    options.write_buffer_bytes = 64 * 1024;
    options.sync_every_ms = 3'600'000;
    Open(options);
    for (uint64_t n = random.Below(120); n > 0; --n) ASSERT_TRUE(Next().ok());
    LosePower();
    const Loaded found = Found();
    EXPECT_EQ(found.batches, history_.batches());
    EXPECT_EQ(found.contents, history_.contents());
    EXPECT_EQ(index_->Figures().lost_records, 0u);
  }
}

TEST_F(PowerTest, WithEverySecWhatWasSyncedStaysAndTheRestIsAPrefix) {
  Random random(seed_);
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const uint64_t seed = random.Next();
    history_ = History(seed);
    index_.reset();
    fs::remove_all(dir_ / "index");
    IndexOptions options = Options(Fsync::kEverySec);
    options.write_buffer_bytes = 64 * 1024;
    options.sync_every_ms = 3'600'000;
    Open(options);
    for (uint64_t n = random.Below(100); n > 0; --n) ASSERT_TRUE(Next().ok());
    ASSERT_TRUE(index_->Sync().ok());  // the second is over
    const uint64_t synced = history_.batches();
    for (uint64_t n = 1 + random.Below(100); n > 0; --n) ASSERT_TRUE(Next().ok());
    LosePower();
    const Loaded found = Found();
    EXPECT_GE(found.batches, synced);
    EXPECT_EQ(found.contents, ContentsAfter(seed, found.batches));
    // What is lost is told, to the record.
    uint64_t lost = 0;
    History again(seed);
    while (again.batches() < history_.batches()) {
      const size_t records = again.Next().size();
      if (again.batches() > found.batches) lost += records;
    }
    EXPECT_EQ(index_->Figures().lost_records, lost);
  }
}

TEST_F(PowerTest, TheGenerationIsOnTheDiskBeforeItIsUsed) {
  Open();
  EXPECT_EQ(index_->RaiseGeneration().value_or(0), 1u);
  LosePower();
  Open();
  EXPECT_EQ(index_->RaiseGeneration().value_or(0), 2u);
}

// ---- a real file system that is small, or cannot be written

class MountTest : public TroubleTest {
 protected:
  void SetUp() override {
    fs::create_directory(dir_ / "disk");
    if (mount("tmpfs", (dir_ / "disk").c_str(), "tmpfs", 0, "size=24m") != 0) {
      GTEST_SKIP() << "mounting a small file system is not allowed here: " << strerror(errno);
    }
    mounted_ = true;
  }
  void TearDown() override {
    index_.reset();
    if (mounted_) EXPECT_EQ(umount2((dir_ / "disk").c_str(), MNT_DETACH), 0);
  }
  IndexOptions OnDisk() { return {.dir = dir_ / "disk/index", .reserve_bytes = 2 << 20}; }
  bool mounted_ = false;
};

TEST_F(MountTest, AFullFileSystemIsSurvivedAndLeftBySomebodyElsesFileGoing) {
  Open(OnDisk());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Next().ok());
  const std::string ballast = dir_ / "disk/ballast";
  {
    const UniqueFd fd(open(ballast.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string piece(1 << 12, 'x');
    while (write(fd.get(), piece.data(), piece.size()) > 0) {
    }
  }
  Status written = Ok();
  History ahead = history_;
  for (int i = 0; i < 100'000 && written.ok(); ++i) {
    history_ = ahead;
    written = index_->Write(ahead.Next());
  }
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), ErrorCode::kIndexReadOnly);
  {
    // Still full, the index's own reserve apart, which is not for writes.
    const UniqueFd fd(open(ballast.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    const std::string piece(1 << 12, 'x');
    while (write(fd.get(), piece.data(), piece.size()) > 0) {
    }
  }
  const Status still = index_->Resume();
  ASSERT_FALSE(still.ok());
  EXPECT_THAT(still.error().message(), HasSubstr("bytes free"));
  ASSERT_TRUE(fs::remove(ballast));
  ASSERT_TRUE(index_->Resume().ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Next().ok());
  EXPECT_TRUE(fs::exists(dir_ / "disk/index/RESERVE"));
  Open(OnDisk());
  EXPECT_EQ(LoadAll(index_.get())->contents, history_.contents());
}

TEST_F(MountTest, AnIndexOpensOnAFullFileSystemByGivingUpItsReserve) {
  Open(OnDisk());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Next().ok());
  index_.reset();
  {
    const UniqueFd fd(open((dir_ / "disk/ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const std::string piece(1 << 12, 'x');
    while (write(fd.get(), piece.data(), piece.size()) > 0) {
    }
  }
  Open(OnDisk());
  ASSERT_NE(index_, nullptr);
  EXPECT_EQ(LoadAll(index_.get())->contents, history_.contents());
  EXPECT_FALSE(fs::exists(dir_ / "disk/index/RESERVE"));
}

TEST_F(MountTest, AReadOnlyDirectoryIsATypedError) {
  Open(OnDisk());
  ASSERT_TRUE(Next().ok());
  index_.reset();
  ASSERT_EQ(mount("tmpfs", (dir_ / "disk").c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0) << strerror(errno);
  const auto refused = RocksIndex::Open(OnDisk());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kIo);
  EXPECT_THAT(refused.error().message(), HasSubstr("Read-only file system"));
  EXPECT_THAT(refused.error().message(), HasSubstr(dir_ / "disk/index"));
}

TEST_F(MountTest, ADirectoryThatBecomesReadOnlyRefusesWritesUntilItIsNot) {
  IndexOptions options = OnDisk();
  options.env = env_.get();
  Open(options);
  ASSERT_TRUE(Next().ok());
  // A file system goes read-only under open files only when it fails: then appends do.
  fs_->FailAppends("", IOStatus::IOError("Read-only file system"));
  History refused = history_;
  ASSERT_FALSE(index_->Write(refused.Next()).ok());
  EXPECT_FALSE(index_->Resume().ok());
  fs_->Heal();
  ASSERT_TRUE(index_->Resume().ok());
  ASSERT_TRUE(Next().ok());
}

}  // namespace
}  // namespace tiercel::index
