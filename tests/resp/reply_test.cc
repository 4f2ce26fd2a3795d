#include "protocol/resp/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "protocol/resp/encoder.h"

namespace tiercel::resp {
namespace {

using Kind = Reply::Kind;

struct Parsed {
  std::vector<Reply> replies;
  bool failed = false;
  std::string error;
  bool operator==(const Parsed&) const = default;
};

void TakeAll(ReplyParser* parser, Parsed* parsed) {
  while (!parsed->failed) {
    auto next = parser->Next();
    if (!next.ok()) {
      parsed->failed = true;
      parsed->error = next.error().message();
      EXPECT_EQ(next.error().code(), ErrorCode::kProtocol);
      EXPECT_FALSE(parser->Next().ok());  // for good
    } else if (next->has_value()) {
      parsed->replies.push_back(std::move(**next));
    } else {
      return;
    }
  }
}

Parsed ParseInPieces(std::string_view stream, const std::function<size_t()>& piece, const ReplyParser::Limits& limits) {
  ReplyParser parser(limits);
  Parsed parsed;
  while (!stream.empty()) {
    const size_t bytes = std::min(stream.size(), piece());
    parser.Feed(stream.substr(0, bytes));
    stream.remove_prefix(bytes);
    TakeAll(&parser, &parsed);
  }
  return parsed;
}

// As a socket's reader does it: into the parser's own memory.
Parsed ParseInPlace(std::string_view stream, const std::function<size_t()>& piece, const ReplyParser::Limits& limits) {
  ReplyParser parser(limits);
  Parsed parsed;
  while (!stream.empty() && !parsed.failed) {
    const ReplyParser::Space space = parser.ReceiveSpace();
    const size_t bytes = std::min({stream.size(), piece(), space.direct.size() + space.buffer.size()});
    const size_t direct = std::min(bytes, space.direct.size());
    if (direct > 0) std::memcpy(space.direct.data(), stream.data(), direct);
    if (bytes > direct) std::memcpy(space.buffer.data(), stream.data() + direct, bytes - direct);
    parser.Received(bytes);
    stream.remove_prefix(bytes);
    TakeAll(&parser, &parsed);
  }
  return parsed;
}

Parsed ParseEveryWay(std::string_view stream, const ReplyParser::Limits& limits = {}) {
  const Parsed whole = ParseInPieces(stream, [&] { return stream.size(); }, limits);
  EXPECT_EQ(ParseInPieces(stream, [] { return 1; }, limits), whole);
  EXPECT_EQ(ParseInPlace(stream, [] { return 1; }, limits), whole);
  for (size_t cut = 1; cut < stream.size(); ++cut) {
    bool first = true;
    const auto piece = [&] { return std::exchange(first, false) ? cut : stream.size(); };
    EXPECT_EQ(ParseInPieces(stream, piece, limits), whole) << "cut at " << cut;
  }
  return whole;
}

Reply One(std::string_view stream) {
  const Parsed parsed = ParseEveryWay(stream);
  EXPECT_FALSE(parsed.failed) << parsed.error;
  EXPECT_EQ(parsed.replies.size(), 1u) << stream;
  return parsed.replies.empty() ? Reply() : parsed.replies[0];
}

void ExpectText(std::string_view stream, Kind kind, std::string_view text) {
  const Reply reply = One(stream);
  EXPECT_EQ(reply.kind, kind) << stream;
  EXPECT_EQ(reply.text, text) << stream;
}

TEST(ReplyParser, Scalars) {
  ExpectText("+OK\r\n", Kind::kSimple, "OK");
  ExpectText("+\r\n", Kind::kSimple, "");
  ExpectText("-ERR no\r\n", Kind::kError, "ERR no");
  ExpectText("$5\r\na\r\n\r\n\r\n", Kind::kBulk, "a\r\n\r\n");
  ExpectText("$0\r\n\r\n", Kind::kBulk, "");
  ExpectText("=7\r\ntxt:a b\r\n", Kind::kVerbatim, "a b");
  ExpectText("!7\r\nERR a b\r\n", Kind::kError, "ERR a b");
  ExpectText("(-12345678901234567890123\r\n", Kind::kBigNumber, "-12345678901234567890123");
  EXPECT_EQ(One(":-9223372036854775808\r\n").integer, INT64_MIN);
  EXPECT_EQ(One(":0\r\n").kind, Kind::kInteger);
  EXPECT_EQ(One(",-1.5e3\r\n").number, -1500);
  EXPECT_EQ(One(",inf\r\n").number, INFINITY);
  EXPECT_EQ(One("#t\r\n").integer, 1);
  EXPECT_EQ(One("#f\r\n").kind, Kind::kBoolean);
  for (const char* null : {"_\r\n", "$-1\r\n", "*-1\r\n"}) EXPECT_TRUE(One(null).is_null()) << null;
  ReplyParser parser;
  parser.Feed(std::string_view(",nan\r\n"));
  EXPECT_TRUE(std::isnan((*parser.Next())->number));
}

TEST(ReplyParser, Aggregates) {
  const Reply nested = One("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n%1\r\n+k\r\n_\r\n");
  ASSERT_EQ(nested.items.size(), 3u);
  EXPECT_EQ(nested.items[0].integer, 1);
  ASSERT_EQ(nested.items[1].items.size(), 2u);
  EXPECT_EQ(nested.items[1].items[0].text, "a");
  EXPECT_EQ(nested.items[1].items[1].kind, Kind::kArray);
  EXPECT_EQ(nested.items[2].kind, Kind::kMap);
  EXPECT_TRUE(nested.items[2].Field("k")->is_null());
  EXPECT_EQ(nested.items[2].Field("x"), nullptr);
  EXPECT_EQ(One("~2\r\n:1\r\n:2\r\n").kind, Kind::kSet);
  EXPECT_EQ(One(">2\r\n+message\r\n:2\r\n").kind, Kind::kPush);
  EXPECT_EQ(One("%0\r\n").kind, Kind::kMap);
}

TEST(ReplyParser, FieldsOfAFlatArray) {
  const Reply flat = One("*4\r\n$3\r\nput\r\n:7\r\n$5\r\nblock\r\n:9\r\n");
  ASSERT_NE(flat.Field("block"), nullptr);
  EXPECT_EQ(flat.Field("block")->integer, 9);
  EXPECT_EQ(flat.Field("nope"), nullptr);
  EXPECT_EQ(One("*1\r\n$3\r\nput\r\n").Field("put"), nullptr);
  EXPECT_EQ(One("$3\r\nput\r\n").Field("put"), nullptr);
}

TEST(ReplyParser, AttributesAreDropped) {
  const Reply reply = One("|1\r\n+ttl\r\n:3\r\n*2\r\n|2\r\n+a\r\n*1\r\n:1\r\n+b\r\n:2\r\n:7\r\n|0\r\n:8\r\n");
  ASSERT_EQ(reply.items.size(), 2u);
  EXPECT_EQ(reply.items[0].integer, 7);
  EXPECT_EQ(reply.items[1].integer, 8);
}

TEST(ReplyParser, SeveralRepliesInOnePiece) {
  const Parsed parsed = ParseEveryWay("+OK\r\n:1\r\n$-1\r\n*1\r\n+x\r\n");
  EXPECT_EQ(parsed.replies.size(), 4u);
  EXPECT_FALSE(parsed.failed);
}

TEST(ReplyParser, NonsenseIsRefusedForGood) {
  for (const char* bad : {"x\r\n",
                          "\r\n",
                          ":\r\n",
                          ":1x\r\n",
                          ":+1\r\n",
                          ":9223372036854775808\r\n",
                          ":01\r\n",
                          "$-2\r\n",
                          "$x\r\n",
                          "$1\r\nab\r\n",
                          "$?\r\n",
                          "*-2\r\n",
                          "*x\r\n",
                          "%-1\r\n",
                          "~-1\r\n",
                          "#x\r\n",
                          "#\r\n",
                          "_x\r\n",
                          ",\r\n",
                          ",1.5x\r\n",
                          ",0x10\r\n",
                          ",infinity\r\n",
                          "(\r\n",
                          "(1.5\r\n",
                          "=3\r\nabc\r\n",
                          "=4\r\ntxt;\r\n",
                          "+a\rb\r\n",
                          "+a\nb\r\n",
                          "*1\r\n>1\r\n:1\r\n",
                          "$18446744073709551616\r\n",
                          "*4611686018427387904\r\n",
                          "%9223372036854775807\r\n"}) {
    const Parsed parsed = ParseEveryWay(std::string("+OK\r\n") + bad);
    EXPECT_TRUE(parsed.failed) << bad;
    EXPECT_EQ(parsed.replies.size(), 1u) << bad;
  }
}

TEST(ReplyParser, LimitsAreKept) {
  const ReplyParser::Limits limits{
      .max_bulk_bytes = 10, .max_items = 6, .max_depth = 2, .max_reply_bytes = 25, .max_line_bytes = 12};
  const auto fails = [&](std::string_view stream) { return ParseEveryWay(stream, limits).failed; };
  EXPECT_FALSE(fails("$10\r\n0123456789\r\n"));
  EXPECT_TRUE(fails("$11\r\n"));
  EXPECT_FALSE(fails("*6\r\n"));
  EXPECT_TRUE(fails("*7\r\n"));
  EXPECT_FALSE(fails("%3\r\n"));
  EXPECT_TRUE(fails("%4\r\n"));
  EXPECT_TRUE(fails("*3\r\n*4\r\n"));
  EXPECT_FALSE(fails("*1\r\n*1\r\n:1\r\n"));
  EXPECT_TRUE(fails("*1\r\n*1\r\n*1\r\n"));
  EXPECT_FALSE(fails("*2\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n"));
  EXPECT_TRUE(fails("*3\r\n$10\r\n0123456789\r\n$10\r\n0123456789\r\n$10\r\n"));
  EXPECT_FALSE(fails("+01234567890\r\n"));
  EXPECT_TRUE(fails("+012345678901\r\n"));
  EXPECT_TRUE(fails("+0123456789012"));
  // Limits are those of one reply, not of the connection.
  EXPECT_FALSE(fails("*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n*6\r\n"));
}

TEST(ReplyParser, LargeBulkIsReceivedInItsPlace) {
  const std::string payload(100'000, 'p');
  std::string stream;
  Encoder(&stream, 3).Bulk(payload);
  Encoder(&stream, 3).Simple("OK");
  ReplyParser parser;
  parser.Feed(std::string_view(stream).substr(0, 100));
  EXPECT_FALSE((*parser.Next()).has_value());
  const ReplyParser::Space space = parser.ReceiveSpace();
  EXPECT_EQ(space.direct.size(), payload.size() - (100 - 9));  // behind "$100000\r\n"
  const char* const place = space.direct.data();
  std::memcpy(space.direct.data(), stream.data() + 100, space.direct.size());
  const std::string_view rest = std::string_view(stream).substr(100 + space.direct.size());
  std::memcpy(space.buffer.data(), rest.data(), rest.size());
  parser.Received(space.direct.size() + rest.size());
  const Reply reply = *std::move(parser.Next()).value();
  EXPECT_EQ(reply.text, payload);
  EXPECT_EQ(reply.text.data() + (100 - 9), place);  // not copied again
  EXPECT_EQ((*parser.Next())->text, "OK");
  EXPECT_TRUE(parser.idle());
}

// Byte by byte through a reply with very many items: work must grow with its length only (hang guard of the test).
TEST(ReplyParser, ResumesWhereItStopped) {
  std::string stream;
  Encoder encoder(&stream, 3);
  encoder.Array(50'000);
  for (int i = 0; i < 50'000; ++i) encoder.Bulk("0123456789");
  ReplyParser parser;
  std::optional<Reply> reply;
  for (char byte : stream) {
    ASSERT_FALSE(reply.has_value());
    parser.Feed({&byte, 1});
    reply = *parser.Next();
  }
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->items.size(), 50'000u);
}

std::string RandomReply(Random* random, int depth) {
  std::string out;
  Encoder encoder(&out, 2 + static_cast<int>(random->Below(2)));
  const uint64_t items = random->Below(4);
  switch (random->Below(depth > 3 ? 6 : 10)) {
    case 0: encoder.Simple("simple"); break;
    case 1: encoder.ErrorLine("OOM none"); break;
    case 2: encoder.Integer(static_cast<int64_t>(random->Next())); break;
    case 3: encoder.Null(); break;
    case 4: encoder.Bulk(std::string(random->Below(9000), static_cast<char>(random->Next()))); break;
    case 5: encoder.Verbatim("verbatim"); break;
    case 6: encoder.Array(items); break;
    case 7: encoder.Set(items); break;
    case 8: out = "|" + std::to_string(items) + "\r\n"; [[fallthrough]];
    case 9: out += "%" + std::to_string(items) + "\r\n"; break;
  }
  if (out.starts_with('*') && !out.starts_with("*-") && items > 0) {
    for (uint64_t i = 0; i < items; ++i) out += RandomReply(random, depth + 1);
  } else if (out.starts_with('~')) {
    for (uint64_t i = 0; i < items; ++i) out += RandomReply(random, depth + 1);
  } else if (out.starts_with('|')) {
    out = "|" + std::to_string(items) + "\r\n";
    for (uint64_t i = 0; i < 2 * items; ++i) out += RandomReply(random, depth + 1);
    out += RandomReply(random, depth + 1);
  } else if (out.starts_with('%')) {
    for (uint64_t i = 0; i < 2 * items; ++i) out += RandomReply(random, depth + 1);
  }
  return out;
}

// Good and damaged streams, however they come in: the same replies.
TEST(ReplyParser, RandomRepliesCutAtRandom) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  int good = 0;
  for (int round = 0; round < 1'000; ++round) {
    std::string stream;
    for (int i = 0; i < 3; ++i) stream += RandomReply(&random, 0);
    const bool damaged = random.OneIn(2);
    if (damaged) stream[random.Below(stream.size())] = static_cast<char>(random.Next());
    const Parsed whole = ParseInPieces(stream, [&] { return stream.size(); }, {});
    if (!damaged) {
      EXPECT_FALSE(whole.failed) << whole.error;
      ++good;
    }
    const auto piece = [&] { return 1 + random.Below(random.OneIn(3) ? 5000 : 30); };
    ASSERT_EQ(ParseInPieces(stream, piece, {}), whole);
    ASSERT_EQ(ParseInPlace(stream, piece, {}), whole);
  }
  EXPECT_GT(good, 100);
}

TEST(Reply, ErrorsByTheirFirstWord) {
  const auto code = [](std::string_view line) {
    Reply reply;
    reply.kind = Kind::kError;
    reply.text = line;
    return reply.ToError().code();
  };
  EXPECT_EQ(code("OOM needed 5"), ErrorCode::kNoSpace);
  EXPECT_EQ(code("NOAUTH Authentication required."), ErrorCode::kNoAuth);
  EXPECT_EQ(code("WRONGPASS x"), ErrorCode::kWrongPass);
  EXPECT_EQ(code("STALEPUT x"), ErrorCode::kStalePut);
  EXPECT_EQ(code("ERR unknown command 'x', with args beginning with: "), ErrorCode::kUnknownCommand);
  EXPECT_EQ(code("ERR syntax error"), ErrorCode::kSyntax);
  EXPECT_EQ(code("ERR Protocol error: x"), ErrorCode::kProtocol);
  EXPECT_EQ(code("ERR anything"), ErrorCode::kInvalid);
  EXPECT_EQ(code("LOADING"), ErrorCode::kLoading);
  EXPECT_EQ(code("NEWWORD of a later version"), ErrorCode::kInternal);
  Reply reply;
  reply.kind = Kind::kError;
  reply.text = "OOM needed 5, free 4";
  EXPECT_EQ(reply.ToError().message(), "needed 5, free 4");
  reply.text = "NEWWORD of a later version";
  EXPECT_EQ(reply.ToError().message(), "NEWWORD of a later version");
}

}  // namespace
}  // namespace tiercel::resp
