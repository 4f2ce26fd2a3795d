// Files that are not what was written: torn and broken logs, tables damaged or gone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "tests/index/history.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;
using core::Record;
using testing::HasSubstr;

class DamageTest : public testing::Test {
 protected:
  DamageTest() : seed_(RandomId()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  IndexOptions Options(bool repair = false) {
    return {.dir = dir_ / "index", .generation_file = dir_ / "generation", .repair = repair, .reserve_bytes = 0};
  }
  // Writes that many batches; small buffers make tables of them.
  void Write(int batches, uint64_t write_buffer_bytes = 0) {
    IndexOptions options = Options();
    options.write_buffer_bytes = write_buffer_bytes;
    options.table_bytes = 32 * 1024;
    auto index = RocksIndex::Open(options);
    ASSERT_TRUE(index.ok()) << index.error().message();
    for (int i = 0; i < batches; ++i) ASSERT_TRUE((*index)->Write(history_.Next()).ok());
  }
  std::vector<std::string> Files(const std::string& suffix) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(dir_ / "index")) {
      if (entry.path().string().ends_with(suffix) && entry.file_size() > 0) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static void Flip(const std::string& file, uint64_t at) {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekg(static_cast<std::streamoff>(at));
    const char old = static_cast<char>(bytes.get());
    bytes.seekp(static_cast<std::streamoff>(at));
    bytes.put(static_cast<char>(old ^ 0x55));
    ASSERT_TRUE(bytes.good());
  }
  // The largest table: one of objects.
  std::string LargestTable() {
    const std::vector<std::string> tables = Files(".sst");
    TIERCEL_CHECK(!tables.empty());
    return *std::max_element(tables.begin(), tables.end(),
                             [](const auto& a, const auto& b) { return fs::file_size(a) < fs::file_size(b); });
  }
  // What can be read is among what was written.
  void ExpectSubset(const Contents& found) {
    for (const auto& [id, text] : found) {
      if (!id.starts_with("object")) continue;
      const auto written = history_.contents().find(id);
      // A deletion may be lost with its table, never a value changed for another.
      if (written == history_.contents().end()) continue;
      EXPECT_EQ(text.substr(0, 3), written->second.substr(0, 3));
    }
  }

  uint64_t seed_;
  testing::ScopedTrace trace_;
  Random random_;
  History history_{seed_};
  TestDir dir_;
};

// ---- the log

TEST_F(DamageTest, ATornEndOfTheLogLosesWholeBatchesFromTheEnd) {
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    const uint64_t seed = random_.Next();
    TestDir dir;
    History history(seed);
    {
      auto index = RocksIndex::Open({.dir = dir / "index", .reserve_bytes = 0});
      ASSERT_TRUE(index.ok());
      for (int i = 0; i < 40; ++i) ASSERT_TRUE((*index)->Write(history.Next()).ok());
    }
    std::string log;
    for (const auto& entry : fs::directory_iterator(dir / "index")) {
      if (entry.path().extension() == ".log" && entry.file_size() > 0) log = entry.path().string();
    }
    ASSERT_FALSE(log.empty());
    const uint64_t size = fs::file_size(log);
    const uint64_t at = size - 1 - random_.Below(std::min<uint64_t>(size, 8000));
    if (round % 2 == 0) {
      ASSERT_EQ(truncate(log.c_str(), static_cast<off_t>(at)), 0);
    } else {
      Flip(log, at);
    }
    auto index = RocksIndex::Open({.dir = dir / "index", .reserve_bytes = 0});
    ASSERT_TRUE(index.ok()) << index.error().message();
    const Result<Loaded> loaded = LoadAll(index->get());
    ASSERT_TRUE(loaded.ok());
    // A flipped byte may lie in the log's padding, where it does no harm.
    EXPECT_LT(loaded->batches, round % 2 == 0 ? 40u : 41u);
    EXPECT_EQ(loaded->contents, ContentsAfter(seed, loaded->batches));
    EXPECT_EQ((*index)->Figures().lost_records > 0, loaded->batches < 40);
  }
}

TEST_F(DamageTest, ALogBrokenInTheMiddleShowsAsLostRecords) {
  Write(0);
  Write(60);
  const std::string log = Files(".log").back();
  Flip(log, fs::file_size(log) / 2);
  auto index = RocksIndex::Open(Options());
  ASSERT_TRUE(index.ok());
  const Result<Loaded> loaded = LoadAll(index->get());
  ASSERT_TRUE(loaded.ok());
  EXPECT_LT(loaded->batches, 60u);
  EXPECT_EQ(loaded->contents, ContentsAfter(seed_, loaded->batches));
  // Every record is one change, and each batch has its records: those behind the break are exactly the lost ones.
  uint64_t lost = 0;
  History again(seed_);
  for (int i = 0; i < 60; ++i) {
    const size_t records = again.Next().size();
    if (again.batches() > loaded->batches) lost += records;
  }
  EXPECT_EQ((*index)->Figures().lost_records, lost);
  // Said once: the next start knows of nothing lost.
  index->reset();
  index = RocksIndex::Open(Options());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ((*index)->Figures().lost_records, 0u);
}

TEST_F(DamageTest, ALogThatVanishedShowsAsLostRecords) {
  Write(30);
  for (const std::string& log : Files(".log")) fs::remove(log);
  auto index = RocksIndex::Open(Options());
  ASSERT_TRUE(index.ok()) << index.error().message();
  EXPECT_GT((*index)->Figures().lost_records, 30u);
}

TEST_F(DamageTest, AnUnreadableSequenceFileIsNoReasonToStop) {
  Write(10);
  std::ofstream(dir_ / "index/SEQUENCE") << "nonsense";
  auto index = RocksIndex::Open(Options());
  ASSERT_TRUE(index.ok());
  EXPECT_EQ((*index)->Figures().lost_records, 0u);
  EXPECT_EQ(LoadAll(index->get())->contents, history_.contents());
}

// ---- tables

TEST_F(DamageTest, ADamagedTableIsRefusedWithANumberAndTheRestServedWhenToldTo) {
  Write(400, 64 * 1024);
  const std::string table = LargestTable();
  Flip(table, fs::file_size(table) / 3);
  {
    auto index = RocksIndex::Open(Options());
    const Status refused = index.ok() ? [&]() -> Status {
      Result<Loaded> loaded = LoadAll(index->get());
      return loaded.ok() ? Ok() : Status(loaded.error());
    }()
        : Status(index.error());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kChecksum);
    EXPECT_THAT(refused.error().message(), testing::ContainsRegex("records lost at least: [1-9][0-9]* in 1 tables"));
    EXPECT_THAT(refused.error().message(), HasSubstr("index-repair"));
  }
  auto index = RocksIndex::Open(Options(true));
  ASSERT_TRUE(index.ok()) << index.error().message();
  const Result<Loaded> loaded = LoadAll(index->get());
  ASSERT_TRUE(loaded.ok());
  EXPECT_GT(loaded->report.objects, 0u);
  ExpectSubset(loaded->contents);
  EXPECT_GT((*index)->Figures().lost_in_tables, 0u);
  EXPECT_GE((*index)->Figures().lost_records, (*index)->Figures().lost_in_tables);
  EXPECT_TRUE(fs::exists(dir_ / "index/lost/" + fs::path(table).filename().string()));
  // From here on it is an index like any other.
  Random random(5);
  const Record put = MakePut(uint64_t{2} << kCounterBits, "after", &random);
  ASSERT_TRUE((*index)->Write({&put, 1}).ok());
  index->reset();
  index = RocksIndex::Open(Options());
  ASSERT_TRUE(index.ok()) << index.error().message();
  const Result<Loaded> again = LoadAll(index->get());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->contents.size(), loaded->contents.size() + 1);
  EXPECT_EQ((*index)->Figures().lost_records, 0u);
}

// A compaction that comes upon a damaged table: what can be read goes on, nothing is written on top.
TEST_F(DamageTest, DamageFoundWhileRunningMakesTheIndexReadOnlyForGood) {
  Write(400, 64 * 1024);
  for (const std::string& table : Files(".sst")) {
    if (fs::file_size(table) > 10'000) Flip(table, fs::file_size(table) / 3);  // in its data
  }
  IndexOptions options = Options();
  options.write_buffer_bytes = 64 * 1024;
  auto index = RocksIndex::Open(options);
  ASSERT_TRUE(index.ok()) << index.error().message();
  Status written = Ok();
  for (int i = 0; i < 20'000 && written.ok(); ++i) written = (*index)->Write(history_.Next());
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), ErrorCode::kIndexReadOnly);
  EXPECT_EQ((*index)->Resume().error().code(), ErrorCode::kChecksum);
  EXPECT_EQ((*index)->Write(history_.Next()).error().code(), ErrorCode::kIndexReadOnly);
}

TEST_F(DamageTest, ALostTableIsRefusedWithANumberAndTheRestServedWhenToldTo) {
  Write(400, 64 * 1024);
  const std::string table = LargestTable();
  fs::remove(table);
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kChecksum);
  EXPECT_THAT(refused.error().message(), testing::ContainsRegex("records lost at least: [1-9][0-9]* in 1 tables"));
  auto index = RocksIndex::Open(Options(true));
  ASSERT_TRUE(index.ok()) << index.error().message();
  const Result<Loaded> loaded = LoadAll(index->get());
  ASSERT_TRUE(loaded.ok());
  EXPECT_GT(loaded->report.objects, 0u);
  ExpectSubset(loaded->contents);
  EXPECT_GT((*index)->Figures().lost_in_tables, 0u);
}

TEST_F(DamageTest, AnIndexWithoutItsListOfTablesIsNotAnEmptyOne) {
  Write(400, 64 * 1024);
  fs::remove(dir_ / "index/CURRENT");
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kChecksum);
  EXPECT_THAT(refused.error().message(), HasSubstr("CURRENT"));
  auto index = RocksIndex::Open(Options(true));
  ASSERT_TRUE(index.ok()) << index.error().message();
  const Result<Loaded> loaded = LoadAll(index->get());
  ASSERT_TRUE(loaded.ok());
  // Nothing was lost but the list.
  EXPECT_EQ(loaded->contents, history_.contents());
  EXPECT_EQ((*index)->Figures().lost_records, 0u);
}

TEST_F(DamageTest, ADirectoryThatWasEmptiedButForItsSequenceIsNotAnEmptyIndex) {
  Write(20);
  for (const auto& entry : fs::directory_iterator(dir_ / "index")) {
    if (entry.path().filename() != "SEQUENCE") fs::remove_all(entry.path());
  }
  EXPECT_EQ(RocksIndex::Open(Options()).error().code(), ErrorCode::kChecksum);
}

TEST_F(DamageTest, RepairOfAnIntactIndexChangesNothing) {
  Write(200, 64 * 1024);
  auto index = RocksIndex::Open(Options(true));
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(LoadAll(index->get())->contents, history_.contents());
  EXPECT_EQ((*index)->Figures().lost_records, 0u);
  EXPECT_FALSE(fs::exists(dir_ / "index/lost"));
}

TEST_F(DamageTest, ADamagedFormatNumberIsDamage) {
  Write(1);
  // Every byte of every table and log in turn is too much: the small metadata table of a fresh index will do.
  Write(0);
  for (const std::string& table : Files(".sst")) {
    if (fs::file_size(table) > 3000) continue;
    Flip(table, 10);
  }
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kChecksum);
}

}  // namespace
}  // namespace tiercel::index
