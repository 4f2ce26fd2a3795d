#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/check.h"
#include "server/index/committer.h"

namespace tiercel::index {
namespace {

namespace fs = std::filesystem;

class GenerationTest : public testing::Test {
 protected:
  GenerationTest() {
    std::string name = (fs::temp_directory_path() / "tiercel-generation-XXXXXX").string();
    TIERCEL_CHECK(mkdtemp(name.data()) != nullptr);
    dir_ = name;
    file_ = (dir_ / "generation").string();
  }
  ~GenerationTest() override { fs::remove_all(dir_); }
  void Write(const std::string& text) { std::ofstream(file_, std::ios::trunc) << text; }
  std::string Read() {
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return text.str();
  }
  fs::path dir_;
  std::string file_;
};

TEST_F(GenerationTest, RisesWithEachRun) {
  EXPECT_EQ(RaiseGeneration(file_).value_or(0), 1u);
  EXPECT_EQ(RaiseGeneration(file_).value_or(0), 2u);
  EXPECT_EQ(RaiseGeneration(file_, 2).value_or(0), 3u);
  EXPECT_EQ(RaiseGeneration(file_, 100).value_or(0), 100u);
  EXPECT_EQ(Read(), "100\n");
  EXPECT_FALSE(fs::exists(file_ + ".new"));
}

TEST_F(GenerationTest, AnythingElseInTheFileIsRefusedAndKept) {
  for (const std::string bad : {"", "\n", "abc\n", "-1\n", "0\n", "1 2\n", "007\n", "8388608\n",
                                "99999999999999999999999\n", "1111111111111111111111111111111111111111\n"}) {
    Write(bad);
    const Result<uint64_t> result = RaiseGeneration(file_);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_EQ(result.error().code(), ErrorCode::kInvalid) << bad;
    EXPECT_THAT(result.error().message(), testing::HasSubstr(file_));
    EXPECT_EQ(Read(), bad);
  }
}

TEST_F(GenerationTest, KeepingNeverLowersIt) {
  EXPECT_TRUE(KeepGeneration(file_, 5).ok());
  EXPECT_EQ(Read(), "5\n");
  EXPECT_TRUE(KeepGeneration(file_, 3).ok());
  EXPECT_TRUE(KeepGeneration(file_, 5).ok());
  EXPECT_EQ(Read(), "5\n");
  EXPECT_TRUE(KeepGeneration(file_, 6).ok());
  EXPECT_EQ(RaiseGeneration(file_).value_or(0), 7u);
  Write("nonsense\n");
  EXPECT_FALSE(KeepGeneration(file_, 8).ok());
  EXPECT_EQ(Read(), "nonsense\n");
}

TEST_F(GenerationTest, TheLastOneIsTheLast) {
  Write(std::to_string(kMaxGeneration - 1) + "\n");
  EXPECT_EQ(RaiseGeneration(file_).value_or(0), kMaxGeneration);
  EXPECT_EQ(RaiseGeneration(file_).error().code(), ErrorCode::kInvalid);
  EXPECT_EQ(RaiseGeneration(file_, kMaxGeneration + 1).error().code(), ErrorCode::kInvalid);
}

TEST_F(GenerationTest, AFailureNamesThePath) {
  const Result<uint64_t> missing = RaiseGeneration((dir_ / "no/such/generation").string());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kIo);
  EXPECT_THAT(missing.error().message(), testing::HasSubstr("no/such/generation"));
  fs::create_directory(file_);
  const Result<uint64_t> directory = RaiseGeneration(file_);
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code(), ErrorCode::kIo);
}

TEST_F(GenerationTest, ALeftoverOfACrashIsOverwritten) {
  Write("7\n");
  std::ofstream(file_ + ".new") << "half a numb";
  EXPECT_EQ(RaiseGeneration(file_).value_or(0), 8u);
  EXPECT_EQ(Read(), "8\n");
}

}  // namespace
}  // namespace tiercel::index
