// The index from its opening to its closing, undisturbed.
#include "server/index/rocks_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "server/index/migrate.h"
#include "server/index/record_codec.h"
#include "server/index/rocks_impl.h"
#include "tests/index/history.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;
using core::Record;
using Kind = Record::Kind;
using testing::HasSubstr;

class RocksIndexTest : public testing::Test {
 protected:
  IndexOptions Options() { return {.dir = dir_ / "index", .generation_file = dir_ / "generation", .reserve_bytes = 0}; }
  std::unique_ptr<RocksIndex> Open() { return Open(Options()); }
  std::unique_ptr<RocksIndex> Open(IndexOptions options) {
    auto opened = RocksIndex::Open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.error().message();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  // Looks into a closed index, or changes it, past all that guards it.
  void Inside(const std::function<void(rocksdb::DB*, rocksdb::ColumnFamilyHandle* objects)>& action) {
    IndexOptions options = Options();
    auto families = Families(options, false);
    ASSERT_TRUE(families.ok());
    Database database;
    rocksdb::DB* db = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(DatabaseOptions(options), options.dir, *families, &database.handles, &db).ok());
    database.db.reset(db);
    for (auto* handle : database.handles) {
      if (handle->GetName() == kObjectsFamily) action(db, handle);
    }
  }
  TestDir dir_;
};

TEST_F(RocksIndexTest, P02_KeysOfAnyBytesComeBack) {
  std::vector<Record> batch;
  Random random(1);
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  uint64_t version = 100;
  for (const std::string& key : {all, std::string("*3\r\n$-1\r\n"), std::string("a\0b\0", 4), std::string("../../x"),
                                 std::string("x"), std::string(kMaxKeyBytes, '\0')}) {
    batch.push_back(MakePut(version++, key, &random));
  }
  ASSERT_TRUE(Open()->Write(batch).ok());
  std::vector<std::string> keys;
  const auto index = Open();
  const auto report = index->Load([&](Record& record) -> Status {
    keys.push_back(record.key);
    return Ok();
  });
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(keys.size(), batch.size());
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(keys[i], batch[i].key);
  EXPECT_EQ(report->objects, batch.size());
}

TEST_F(RocksIndexTest, AnErrorOfTheLoaderEndsTheLoading) {
  Random random(1);
  const auto index = Open();
  ASSERT_TRUE(index->Write(std::vector<Record>{MakePut(1, "a", &random), MakePut(2, "b", &random)}).ok());
  int seen = 0;
  const auto report = index->Load([&](Record&) -> Status {
    ++seen;
    return Error(ErrorCode::kMetadataFull, "no more");
  });
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kMetadataFull);
  EXPECT_EQ(seen, 1);
}

TEST_F(RocksIndexTest, ProgressIsTold) {
  Random random(1);
  const auto index = Open();
  std::vector<Record> batch;
  for (uint64_t v = 1; v <= 25'000; ++v) batch.push_back(MakePut(v, std::to_string(v), &random));
  ASSERT_TRUE(index->Write(batch).ok());
  std::vector<uint64_t> told;
  const auto report = index->Load([](Record&) { return Ok(); },
                                  [&](uint64_t done, uint64_t about) {
                                    told.push_back(done);
                                    EXPECT_GE(about, done);
                                  });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(told, testing::ElementsAre(10'000, 20'000));
  EXPECT_EQ(index->Figures().records, 25'000u);
}

// ---- generation

TEST_F(RocksIndexTest, TheGenerationRisesWithEachRun) {
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 1u);
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 2u);
  const auto index = Open();
  EXPECT_EQ(index->RaiseGeneration().value_or(0), 3u);
  EXPECT_EQ(index->RaiseGeneration().value_or(0), 4u);
}

TEST_F(RocksIndexTest, TheGenerationSurvivesTheLossOfEitherPlace) {
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 1u);
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 2u);
  fs::remove_all(dir_ / "index");
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 3u);
  fs::remove(dir_ / "generation");
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 4u);
}

TEST_F(RocksIndexTest, AGenerationThatTheCoreRaisedIsKeptInBothPlacesAndNeverLowered) {
  Record raised;
  raised.kind = Kind::kGeneration;
  raised.number = 70;
  ASSERT_TRUE(Open()->Write({&raised, 1}).ok());
  fs::remove_all(dir_ / "index");
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 71u);
  raised.number = 5;
  ASSERT_TRUE(Open()->Write({&raised, 1}).ok());
  fs::remove(dir_ / "generation");
  EXPECT_EQ(Open()->RaiseGeneration().value_or(0), 72u);
}

TEST_F(RocksIndexTest, ADamagedGenerationFileIsAnError) {
  std::ofstream(dir_ / "generation") << "abc\n";
  EXPECT_EQ(Open()->RaiseGeneration().error().code(), ErrorCode::kInvalid);
}

// ---- owners

TEST_F(RocksIndexTest, ASecondOwnerIsRefusedByName) {
  const auto index = Open();
  const auto second = RocksIndex::Open(Options());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kNameInUse);
  EXPECT_THAT(second.error().message(), HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(second.error().message(), HasSubstr(dir_ / "index"));
}

TEST_F(RocksIndexTest, TheOwnersEndFreesTheDirectory) {
  Open();
  EXPECT_NE(Open(), nullptr);
}

TEST_F(RocksIndexTest, ADirectoryWithoutAParentIsAnError) {
  IndexOptions options = Options();
  options.dir = dir_ / "no/such";
  const auto opened = RocksIndex::Open(options);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code(), ErrorCode::kIo);
  EXPECT_THAT(opened.error().message(), HasSubstr("no/such"));
}

// ---- formats

TEST_F(RocksIndexTest, ANewerFormatIsRefusedAndLeftAlone) {
  Random random(1);
  const Record put = MakePut(1, "k", &random);
  ASSERT_TRUE(Open()->Write({&put, 1}).ok());
  IndexOptions newer = Options();
  newer.format = kIndexFormat + 1;
  const std::vector<Migration> up = {{kIndexFormat, [](const Database&) { return Ok(); }}};
  newer.migrations = up;
  ASSERT_NE(Open(newer), nullptr);  // as the next version of this program would
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("has format 2; this program reads up to format 1"));
  const auto index = Open(newer);
  EXPECT_EQ(LoadAll(index.get())->contents.size(), 1u);
}

// A format 0, which never was: values of objects are the bare key.
void MakeFormat0(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* objects) {
  ASSERT_TRUE(db->Delete({}, db->DefaultColumnFamily(), FormatKey()).ok());
  for (const uint64_t version : {7, 9}) {
    std::string key;
    AppendObjectKey({version}, &key);
    ASSERT_TRUE(db->Put({}, objects, key, "old-" + std::to_string(version)).ok());
  }
}

Status FromFormat0(const Database& database) {
  rocksdb::WriteBatch batch;
  const std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator({}, database.objects));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    Record record;
    if (DecodeObject(it->key().ToStringView(), it->value().ToStringView(), &record) == DecodeFault::kNone) continue;
    record.key = it->value().ToString();
    std::string value;
    AppendObjectValue(it->key().ToStringView(), record, &value);
    batch.Put(database.objects, it->key(), value);
  }
  return database.db->Write({}, &batch).ok() ? Ok() : Status(Error(ErrorCode::kIo, "write"));
}

TEST_F(RocksIndexTest, AnOlderFormatIsMigrated) {
  Open();
  Inside(&MakeFormat0);
  int runs = 0;
  const std::vector<Migration> steps = {{0, [&](const Database& database) -> Status {
                                           if (++runs == 1) return Error(ErrorCode::kIo, "a crash in between");
                                           return FromFormat0(database);
                                         }}};
  IndexOptions options = Options();
  options.migrations = steps;
  EXPECT_FALSE(RocksIndex::Open(options).ok());
  for (int i = 0; i < 2; ++i) {  // the second time there is nothing to do
    std::vector<std::string> keys;
    const auto index = Open(options);
    ASSERT_NE(index, nullptr);
    const auto report = index->Load([&](Record& record) {
      keys.push_back(record.key);
      return Ok();
    });
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->dropped(), 0u);
    EXPECT_THAT(keys, testing::ElementsAre("old-7", "old-9"));
    EXPECT_EQ(runs, 2);
  }
}

TEST_F(RocksIndexTest, AFormatWithoutAWayIsRefused) {
  Open();
  Inside(&MakeFormat0);
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("knows no way"));
}

TEST_F(RocksIndexTest, FamiliesOfALaterFormatDoNotKeepItFromBeingRecognised) {
  Open();
  Inside([](rocksdb::DB* db, rocksdb::ColumnFamilyHandle*) {
    rocksdb::ColumnFamilyHandle* more = nullptr;
    ASSERT_TRUE(db->CreateColumnFamily({}, "of-the-future", &more).ok());
    ASSERT_TRUE(db->DestroyColumnFamilyHandle(more).ok());
    ASSERT_TRUE(db->Put({}, db->DefaultColumnFamily(), FormatKey(), FormatValue(9)).ok());
  });
  const auto refused = RocksIndex::Open(Options());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("has format 9"));
}

// ---- values

TEST_F(RocksIndexTest, ValuesThatAreNotWhatWasWrittenAreDroppedAndCounted) {
  Random random(1);
  std::vector<Record> batch;
  for (uint64_t v = 1; v <= 5; ++v) batch.push_back(MakePut(v, "k" + std::to_string(v), &random));
  ASSERT_TRUE(Open()->Write(batch).ok());
  Inside([](rocksdb::DB* db, rocksdb::ColumnFamilyHandle* objects) {
    std::string two, three, value;
    AppendObjectKey({2}, &two);
    AppendObjectKey({3}, &three);
    ASSERT_TRUE(db->Get({}, objects, two, &value).ok());
    ASSERT_TRUE(db->Put({}, objects, three, value).ok());  // another's
    value[3] ^= 1;
    ASSERT_TRUE(db->Put({}, objects, two, value).ok());
    ASSERT_TRUE(db->Put({}, objects, "short", value).ok());
    ASSERT_TRUE(db->Put({}, db->DefaultColumnFamily(), "\x10", "nonsense").ok());
  });
  const auto index = Open();
  const Result<Loaded> loaded = LoadAll(index.get());
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->contents.size(), 3u);
  EXPECT_EQ(loaded->report.bad_checksum, 4u);
  EXPECT_EQ(loaded->report.malformed, 0u);
  EXPECT_EQ(loaded->report.objects, 3u);
}

// ---- figures, copies

TEST_F(RocksIndexTest, FiguresCountWhatHappens) {
  ManualClock clock;
  IndexOptions options = Options();
  options.clock = &clock;
  options.reserve_bytes = 1 << 20;
  const auto index = Open(options);
  Random random(1);
  std::vector<Record> batch;
  for (uint64_t v = 1; v <= 10; ++v) batch.push_back(MakePut(v, "k", &random));
  ASSERT_TRUE(index->Write(batch).ok());
  batch[0].again = true;
  ASSERT_TRUE(index->Write(std::vector<Record>{batch[0], MakeDelete(2)}).ok());
  ASSERT_TRUE(index->Sync().ok());
  const IndexFigures figures = index->Figures();
  EXPECT_EQ(figures.records, 9u);
  EXPECT_EQ(figures.batches, 2u);
  EXPECT_EQ(figures.records_written, 12u);
  EXPECT_EQ(figures.last_sync_ms, clock.Now().boot_ms);
  EXPECT_EQ(figures.reserve_bytes, uint64_t{1} << 20);
  EXPECT_EQ(figures.write_errors + figures.sync_errors + figures.background_errors, 0u);
  EXPECT_FALSE(figures.read_only);
}

TEST_F(RocksIndexTest, ACheckpointOpensAsAnEqualIndex) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  History history(seed);
  const auto index = Open();
  ASSERT_TRUE(index->RaiseGeneration().ok());
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(index->Write(history.Next()).ok());
  ASSERT_TRUE(index->Checkpoint(dir_ / "copy").ok());
  const Contents then = history.contents();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(index->Write(history.Next()).ok());
  EXPECT_EQ(index->Checkpoint(dir_ / "copy").error().code(), ErrorCode::kExists);

  IndexOptions options = Options();
  options.dir = dir_ / "copy";
  options.generation_file = dir_ / "generation-of-the-copy";
  const auto copy = Open(options);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(LoadAll(copy.get())->contents, then);
  EXPECT_EQ(copy->Figures().lost_records, 0u);
  EXPECT_EQ(copy->RaiseGeneration().value_or(0), 2u);
}

}  // namespace
}  // namespace tiercel::index
