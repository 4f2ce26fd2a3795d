#include "protocol/resp/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tiercel::resp {
namespace {

std::string Encoded(int protocol, const std::function<void(Encoder&)>& write) {
  std::string out = "before";
  Encoder encoder(&out, protocol);
  write(encoder);
  EXPECT_TRUE(out.starts_with("before"));
  return out.substr(6);
}

void Expect(const std::function<void(Encoder&)>& write, std::string_view resp2, std::string_view resp3) {
  EXPECT_EQ(Encoded(2, write), resp2);
  EXPECT_EQ(Encoded(3, write), resp3);
}

TEST(Encoder, SimpleStringsAndErrors) {
  Expect([](Encoder& e) { e.Simple("OK"); }, "+OK\r\n", "+OK\r\n");
  Expect([](Encoder& e) { e.Simple("PONG"); }, "+PONG\r\n", "+PONG\r\n");
  Expect([](Encoder& e) { e.Error(tiercel::Error(ErrorCode::kNoSpace, "needed 5\r\nfree 4")); },
         "-OOM needed 5  free 4\r\n", "-OOM needed 5  free 4\r\n");
  Expect([](Encoder& e) { e.ErrorLine("ERR a\nb"); }, "-ERR a b\r\n", "-ERR a b\r\n");
}

TEST(Encoder, Integers) {
  for (int64_t value : {int64_t{0}, int64_t{7}, int64_t{-1}, int64_t{10}, int64_t{99}, int64_t{100}, int64_t{-100},
                        int64_t{123456789}, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    Expect([&](Encoder& e) { e.Integer(value); }, ":" + std::to_string(value) + "\r\n",
           ":" + std::to_string(value) + "\r\n");
  }
}

TEST(Encoder, Bulks) {
  const std::string binary("\0\r\n", 3);
  Expect([&](Encoder& e) { e.Bulk(binary); }, "$3\r\n" + binary + "\r\n", "$3\r\n" + binary + "\r\n");
  Expect([](Encoder& e) { e.Bulk(""); }, "$0\r\n\r\n", "$0\r\n\r\n");
  const std::string large(100'000, 'x');
  Expect([&](Encoder& e) { e.Bulk(large); }, "$100000\r\n" + large + "\r\n", "$100000\r\n" + large + "\r\n");
  Expect([](Encoder& e) { e.BulkHeader(std::numeric_limits<uint64_t>::max()); }, "$18446744073709551615\r\n",
         "$18446744073709551615\r\n");
}

TEST(Encoder, NullsAndAggregates) {
  Expect([](Encoder& e) { e.Null(); }, "$-1\r\n", "_\r\n");
  Expect([](Encoder& e) { e.NullArray(); }, "*-1\r\n", "_\r\n");
  Expect([](Encoder& e) { e.Array(12); }, "*12\r\n", "*12\r\n");
  Expect([](Encoder& e) { e.Map(3); }, "*6\r\n", "%3\r\n");
  Expect([](Encoder& e) { e.Set(3); }, "*3\r\n", "~3\r\n");
  Expect([](Encoder& e) { e.Push(3); }, "*3\r\n", ">3\r\n");
}

TEST(Encoder, NumbersAndText) {
  Expect([](Encoder& e) { e.Double(0.5); }, "$3\r\n0.5\r\n", ",0.5\r\n");
  Expect([](Encoder& e) { e.Double(3); }, "$1\r\n3\r\n", ",3\r\n");
  Expect([](Encoder& e) { e.Double(-std::numeric_limits<double>::infinity()); }, "$4\r\n-inf\r\n", ",-inf\r\n");
  Expect([](Encoder& e) { e.Double(std::nan("")); }, "$3\r\nnan\r\n", ",nan\r\n");
  Expect([](Encoder& e) { e.Boolean(true); }, ":1\r\n", "#t\r\n");
  Expect([](Encoder& e) { e.Boolean(false); }, ":0\r\n", "#f\r\n");
  Expect([](Encoder& e) { e.Verbatim("a b"); }, "$3\r\na b\r\n", "=7\r\ntxt:a b\r\n");
  Expect([](Encoder& e) { e.BigNumber("-12345678901234567890"); }, "$21\r\n-12345678901234567890\r\n",
         "(-12345678901234567890\r\n");
}

TEST(Encoder, CommandsOfAClient) {
  std::string out;
  AppendCommandHeader(3, &out);
  AppendArgument("SET", &out);
  AppendArgument("", &out);
  AppendArgumentHeader(5, &out);
  EXPECT_EQ(out, "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\n");
}

}  // namespace
}  // namespace tiercel::resp
