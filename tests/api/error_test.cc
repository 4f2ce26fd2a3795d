#include "tiercel/error.h"

#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <string>

#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel {
namespace {

TEST(ErrorTable, RowsStandAtTheirCodes) {
  for (size_t i = 0; i < kErrorCount; ++i) {
    EXPECT_EQ(static_cast<size_t>(kErrorTable[i].code), i);
    EXPECT_EQ(&InfoOf(kErrorTable[i].code), &kErrorTable[i]);
  }
}

TEST(ErrorTable, OneCauseHasOneName) {
  std::set<std::string_view> names;
  for (const ErrorInfo& row : kErrorTable) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(ErrorFromName(row.name), row.code);
  }
  EXPECT_EQ(ErrorFromName("NOSUCHNAME"), ErrorCode::kInternal);
}

TEST(ErrorTable, WordsAreOneUpperCaseWordEach) {
  for (const ErrorInfo& row : kErrorTable) {
    for (const std::string_view text : {row.word, row.name}) {
      ASSERT_FALSE(text.empty());
      for (char c : text) EXPECT_TRUE(std::isupper(static_cast<unsigned char>(c)) || c == '_') << text;
    }
    EXPECT_EQ(row.word.find('_'), std::string_view::npos) << row.word;
    // A word leads to a code that says the same word.
    EXPECT_EQ(InfoOf(ErrorFromWord(row.word)).word, row.word);
  }
  EXPECT_EQ(ErrorFromWord("WHATEVER"), ErrorCode::kInternal);
}

// Clients of Redis redirect, retry or reconnect on these.
TEST(ErrorTable, WordsThatRedisClientsActOnAreLeftAlone) {
  const std::set<std::string_view> kTaken = {"READONLY", "BUSY",        "TRYAGAIN",   "MOVED",
                                             "ASK",      "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS",
                                             "NOSCRIPT", "CROSSSLOT",   "MISCONF",    "BUSYKEY"};
  for (const ErrorInfo& row : kErrorTable) EXPECT_FALSE(kTaken.contains(row.word)) << row.word;
}

TEST(Error, SaysWordAndSentence) {
  const Error error(ErrorCode::kNoSpace, "needed 4096 bytes, free 0");
  EXPECT_EQ(error.ToString(), "OOM needed 4096 bytes, free 0");
  EXPECT_EQ(error.name(), "NOSPACE");
  EXPECT_EQ(error.action(), ErrorAction::kWait);
}

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(ErrorCode::kInvalid, "odd");
  return n / 2;
}
Result<int> Quarter(int n) {
  TIERCEL_ASSIGN(const int half, Half(n));
  TIERCEL_TRY(Half(half));
  return Half(half);
}

TEST(Result, CarriesEitherValueOrError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message(), "odd");
  EXPECT_EQ(Quarter(7).value_or(-1), -1);
  EXPECT_TRUE(Ok().ok());
  Status failed = Error(ErrorCode::kIo, "x");
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(std::move(failed).error().code(), ErrorCode::kIo);
}

TEST(ResultDeathTest, ReadingTheWrongSideStops) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH((void)Half(3).value(), "");
  EXPECT_DEATH((void)Half(2).error(), "");
}

TEST(Version, HoldsItsGenerationAndStaysPositive) {
  const Version last{(kMaxGeneration << kCounterBits) | ((uint64_t{1} << kCounterBits) - 1)};
  EXPECT_EQ(last.generation(), kMaxGeneration);
  EXPECT_GT(static_cast<int64_t>(last.value), 0);
  EXPECT_FALSE(Version{});
}

}  // namespace
}  // namespace tiercel
