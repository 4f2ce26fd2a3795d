#include "base/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace tiercel {
namespace {

constexpr auto kNone = std::nullopt;
constexpr uint64_t kMaxU64 = std::numeric_limits<uint64_t>::max();

TEST(ParseSize, TakesTheUnitsOfRedis) {
  EXPECT_EQ(ParseSize("0"), 0u);
  EXPECT_EQ(ParseSize("17"), 17u);
  EXPECT_EQ(ParseSize("17b"), 17u);
  EXPECT_EQ(ParseSize("3k"), 3000u);
  EXPECT_EQ(ParseSize("3kb"), 3072u);
  EXPECT_EQ(ParseSize("3M"), 3'000'000u);
  EXPECT_EQ(ParseSize("3Mb"), 3u << 20);
  EXPECT_EQ(ParseSize("4gb"), uint64_t{4} << 30);
  EXPECT_EQ(ParseSize("4G"), 4'000'000'000u);
  EXPECT_EQ(ParseSize("1tb"), uint64_t{1} << 40);
  EXPECT_EQ(ParseSize("1T"), 1'000'000'000'000u);
}

TEST(ParseSize, IsStrict) {
  for (const char* bad : {"", "gb", "-1", "+1", " 1", "1 ", "1 gb", "1.5gb", "1pb", "0x10", "007", "1gbb", "abc"}) {
    EXPECT_EQ(ParseSize(bad), kNone) << bad;
  }
}

TEST(ParseSize, RefusesOverflow) {
  EXPECT_EQ(ParseSize("18446744073709551615"), kMaxU64);
  EXPECT_EQ(ParseSize("18446744073709551616"), kNone);
  EXPECT_EQ(ParseSize("16777215tb"), uint64_t{16777215} << 40);
  EXPECT_EQ(ParseSize("16777216tb"), kNone);
  EXPECT_EQ(ParseSize("99999999999999999999999gb"), kNone);
}

TEST(ParseMillis, BareNumbersAreSeconds) {
  EXPECT_EQ(ParseMillis("0"), 0);
  EXPECT_EQ(ParseMillis("10"), 10'000);
  EXPECT_EQ(ParseMillis("500ms"), 500);
  EXPECT_EQ(ParseMillis("2s"), 2000);
  EXPECT_EQ(ParseMillis("30m"), 1'800'000);
  EXPECT_EQ(ParseMillis("24H"), 86'400'000);
  EXPECT_EQ(ParseMillis("1d"), 86'400'000);
  for (const char* bad : {"", "-1", "1.5s", "s", "10 s", "1w", "9223372036854775808ms", "9223372036854775807s"}) {
    EXPECT_EQ(ParseMillis(bad), kNone) << bad;
  }
}

TEST(ParseRatio, LiesBetweenZeroAndOne) {
  EXPECT_EQ(ParseRatio("0"), 0.0);
  EXPECT_EQ(ParseRatio("1"), 1.0);
  EXPECT_EQ(ParseRatio("0.05"), 0.05);
  EXPECT_EQ(ParseRatio("1.000"), 1.0);
  for (const char* bad : {"", ".5", "1.", "1.01", "-0", "+1", "nan", "inf", "1e-3", "0.5.5", "0,5", "0x1", "50%"}) {
    EXPECT_EQ(ParseRatio(bad), kNone) << bad;
  }
}

TEST(ParseInt64, IsRedisStrictDecimal) {
  EXPECT_EQ(ParseInt64("0"), 0);
  EXPECT_EQ(ParseInt64("-17"), -17);
  EXPECT_EQ(ParseInt64("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ParseInt64("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* bad :
       {"", "-", "-0", "+1", "01", "-01", " 1", "1 ", "1a", "--1", "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(ParseInt64(bad), kNone) << bad;
  }
}

TEST(ParseUint64, RefusesSignsAndOverflow) {
  EXPECT_EQ(ParseUint64("18446744073709551615"), kMaxU64);
  for (const char* bad : {"", "-1", "+1", "01", "1\n", "18446744073709551616"})
    EXPECT_EQ(ParseUint64(bad), kNone) << bad;
}

TEST(ParseHex64, TakesOneToSixteenDigits) {
  EXPECT_EQ(ParseHex64("0"), 0u);
  EXPECT_EQ(ParseHex64("00ff"), 255u);
  EXPECT_EQ(ParseHex64("FFFFffffFFFFffff"), kMaxU64);
  for (const char* bad : {"", "0x1", "-1", "g", "00000000000000001", " 1"}) EXPECT_EQ(ParseHex64(bad), kNone) << bad;
  EXPECT_EQ(FormatHex64(255), "00000000000000ff");
  EXPECT_EQ(ParseHex64(FormatHex64(kMaxU64)), kMaxU64);
}

TEST(Format, IsExactAndReadsBack) {
  EXPECT_EQ(FormatSize(uint64_t{4} << 30), "4gb");
  EXPECT_EQ(FormatSize(1500 * 1024), "1500kb");
  EXPECT_EQ(FormatSize(17), "17");
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatMillis(10'000), "10s");
  EXPECT_EQ(FormatMillis(500), "500ms");
  EXPECT_EQ(FormatMillis(86'400'000), "24h");
  EXPECT_EQ(FormatMillis(7 * 86'400'000), "7d");
  EXPECT_EQ(FormatMillis(60'000), "1m");
  EXPECT_EQ(FormatMillis(0), "0s");
  EXPECT_EQ(FormatRatio(0.9), "0.9");
  EXPECT_EQ(FormatRatio(0.000001), "0.000001");
  EXPECT_EQ(FormatRatio(1), "1");
  for (double ratio : {0.1, 1.0 / 3, 1e-300, std::numeric_limits<double>::min()}) {
    EXPECT_EQ(ParseRatio(FormatRatio(ratio)), ratio);
  }
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1} << 20, (uint64_t{1} << 40) + 1024, kMaxU64}) {
    EXPECT_EQ(ParseSize(FormatSize(bytes)), bytes);
  }
  for (int64_t ms : {int64_t{0}, int64_t{1}, int64_t{999}, int64_t{61'000}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(ParseMillis(FormatMillis(ms)), ms);
  }
}

TEST(Format, HumanBytesRoundsToThePrintedUnit) {
  EXPECT_EQ(HumanBytes(17), "17 B");
  EXPECT_EQ(HumanBytes(1536), "1.50 KiB");
  EXPECT_EQ(HumanBytes((uint64_t{1} << 30) * 3 / 2), "1.50 GiB");
  EXPECT_EQ(HumanBytes((uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(HumanBytes(kMaxU64), "16.00 EiB");
}

}  // namespace
}  // namespace tiercel
