// What holds for every index behind the committer, kept or not.
#include <gtest/gtest.h>

#include "server/index/committer.h"
#include "tests/index/history.h"

namespace tiercel::index {
namespace {

using core::Record;

struct Kind {
  std::string name;
  bool keeps = false;
  Fsync fsync = Fsync::kNo;
};

class IndexConformance : public testing::TestWithParam<Kind> {
 protected:
  void Open() {
    index_.reset();
    if (!GetParam().keeps) {
      index_ = MakeNullIndex();
      return;
    }
    auto opened = RocksIndex::Open({.dir = dir_ / "index", .fsync = GetParam().fsync, .reserve_bytes = 0});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    index_ = std::move(opened).value();
  }
  void SetUp() override { Open(); }
  // What it gives after having been closed and opened.
  Contents Reopened() {
    Open();
    auto* rocks = dynamic_cast<RocksIndex*>(index_.get());
    if (rocks == nullptr) return {};
    Result<Loaded> loaded = LoadAll(rocks);
    EXPECT_TRUE(loaded.ok());
    return loaded.ok() ? loaded->contents : Contents();
  }

  TestDir dir_;
  std::unique_ptr<core::Index> index_;
};

TEST_P(IndexConformance, SaysWhetherItKeeps) { EXPECT_EQ(index_->keeps_records(), GetParam().keeps); }

TEST_P(IndexConformance, NothingToWriteIsFine) {
  EXPECT_TRUE(index_->Write({}).ok());
  EXPECT_TRUE(index_->Resume().ok());
  EXPECT_TRUE(Reopened().empty());
}

TEST_P(IndexConformance, TakesWholeHistoriesAndKeepsWhatItSays) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  History history(seed);
  for (int i = 0; i < 200; ++i) {
    const std::vector<Record> batch = history.Next();
    ASSERT_TRUE(index_->Write(batch).ok());
    if (i % 50 == 25) {
      ASSERT_TRUE(index_->Resume().ok()) << "of a healthy index";
    }
  }
  EXPECT_EQ(Reopened(), GetParam().keeps ? history.contents() : Contents());
}

TEST_P(IndexConformance, TheOrderWithinABatchCounts) {
  Random random(3);
  const Record put = MakePut(9, "k", &random), other = MakePut(10, "k", &random);
  const std::vector<Record> batch = {put, MakeDelete(9), other, MakeDelete(11), MakeDelete(10), other};
  ASSERT_TRUE(index_->Write(batch).ok());
  const Contents found = Reopened();
  if (!GetParam().keeps) return;
  EXPECT_EQ(found.size(), 1u);
  EXPECT_TRUE(found.contains(Identity(other)));
}

INSTANTIATE_TEST_SUITE_P(Indexes, IndexConformance,
                         testing::Values(Kind{"Null"}, Kind{"RocksNoSync", true, Fsync::kNo},
                                         Kind{"RocksEverySec", true, Fsync::kEverySec},
                                         Kind{"RocksAlways", true, Fsync::kAlways}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace tiercel::index
