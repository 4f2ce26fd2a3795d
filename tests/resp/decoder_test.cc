#include "protocol/resp/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/tokenizer.h"
#include "protocol/resp/encoder.h"
#include "tests/resp/decode_driver.h"

namespace tiercel::resp {
namespace {

using testing::ElementsAre;
using Command = std::vector<std::string>;

std::string Encode(const Command& command) {
  std::string out;
  AppendCommandHeader(command.size(), &out);
  for (const std::string& argument : command) AppendArgument(argument, &out);
  return out;
}

// The stream in one piece, cut in two at every byte, and byte by byte: all the same.
Decoded DecodeEveryWay(std::string_view stream, const DecoderLimits& limits = {}) {
  const Decoded whole = DecodeWhole(stream, limits);
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    DecodeDriver driver(limits);
    driver.Feed(stream.substr(0, cut));
    driver.Feed(stream.substr(cut));
    EXPECT_EQ(driver.seen().commands, whole.commands) << "cut at " << cut;
    EXPECT_EQ(driver.seen().error, whole.error) << "cut at " << cut;
    EXPECT_EQ(driver.seen().failed, whole.failed) << "cut at " << cut;
    EXPECT_EQ(driver.complaint(), "");
  }
  DecodeDriver driver(limits);
  for (char byte : stream) driver.Feed({&byte, 1});
  EXPECT_EQ(driver.seen().commands, whole.commands);
  EXPECT_EQ(driver.seen().error, whole.error);
  EXPECT_EQ(driver.complaint(), "");
  return whole;
}

std::string ErrorOf(std::string_view stream, const DecoderLimits& limits = {}) {
  const Decoded decoded = DecodeEveryWay(stream, limits);
  EXPECT_TRUE(decoded.failed);
  return decoded.error;
}

TEST(Decoder, TakesCommandsHoweverTheyAreCut) {
  const std::string binary("a\0\r\n$5\r\n", 9);
  const std::string stream =
      Encode({"SET", "key", binary}) + Encode({"PING"}) + Encode({"MGET", "", "b", std::string(300, 'x')}) + "ping\r\n";
  const Decoded decoded = DecodeEveryWay(stream);
  EXPECT_FALSE(decoded.failed);
  EXPECT_THAT(decoded.commands, ElementsAre(Command{"SET", "key", binary}, Command{"PING"},
                                            Command{"MGET", "", "b", std::string(300, 'x')}, Command{"ping"}));
  EXPECT_EQ(decoded.left, 0u);
}

TEST(Decoder, IgnoresEmptyLinesAndEmptyArrays) {
  for (const char* nothing : {"\r\n", "\n", "\r\n\r\n\n", "*0\r\n", "*-1\r\n", "*-10\r\n", "  \t \r\n"}) {
    const Decoded decoded = DecodeEveryWay(std::string(nothing) + Encode({"PING"}));
    EXPECT_THAT(decoded.commands, ElementsAre(Command{"PING"})) << nothing;
  }
}

TEST(Decoder, TakesInlineCommands) {
  EXPECT_THAT(DecodeEveryWay("PING\n").commands, ElementsAre(Command{"PING"}));
  EXPECT_THAT(DecodeEveryWay("  SET  a\tb  \r\n").commands, ElementsAre(Command{"SET", "a", "b"}));
  EXPECT_THAT(DecodeEveryWay("SET a \"x\\n\\r\\t\\b\\a\\x41\\\\\\\" y\"\r\n").commands,
              ElementsAre(Command{"SET", "a", "x\n\r\t\b\aA\\\" y"}));
  EXPECT_THAT(DecodeEveryWay("SET a 'x\\n\\' y'\r\nGET a\r\n").commands,
              ElementsAre(Command{"SET", "a", "x\\n' y"}, Command{"GET", "a"}));
  EXPECT_THAT(DecodeEveryWay("SET a \"\"\r\n").commands, ElementsAre(Command{"SET", "a", ""}));
}

// The quick way for lines without quotes must agree with the tokenizer.
TEST(Decoder, InlineWordsAreTheTokenizers) {
  constexpr std::string_view kAlphabet{"ab \t\r\v\f\\\"'\0x4", 13};
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 20'000; ++round) {
    std::string line = "w";  // so that it is not empty, and not an array
    for (uint64_t i = random.Below(9); i > 0; --i) line += kAlphabet[random.Below(kAlphabet.size())];
    const Decoded decoded = DecodeWhole(line + "\n", {});
    if (line.ends_with('\r')) line.pop_back();
    const auto words = Tokenize(line);
    ASSERT_EQ(decoded.failed, !words.ok()) << line;
    if (words.ok()) {
      ASSERT_THAT(decoded.commands, ElementsAre(*words)) << line;
    } else {
      ASSERT_EQ(decoded.error, "ERR Protocol error: unbalanced quotes in request");
    }
  }
}

TEST(Decoder, RefusesBadLengthsAsRedisDoes) {
  for (const char* bad : {"*abc\r\n", "*2147483648\r\n", "*1048577\r\n", "*99999999999999999999\r\n", "*+1\r\n",
                          "*01\r\n", "* 1\r\n", "*\r\n", "*-0\r\n", "*1 \r\n", "*1\rX"}) {
    EXPECT_EQ(ErrorOf(bad), "ERR Protocol error: invalid multibulk length") << bad;
  }
  for (const char* bad : {"$-10\r\n", "$blabla\r\n", "$-1\r\n", "$536870913\r\n", "$18446744073709551616\r\n", "$\r\n",
                          "$00\r\n", "$2\rX"}) {
    EXPECT_EQ(ErrorOf(std::string("*1\r\n") + bad), "ERR Protocol error: invalid bulk length") << bad;
  }
}

TEST(Decoder, LongestLengthsAreAccepted) {
  EXPECT_FALSE(DecodeEveryWay("*1048576\r\n").failed);
  DecoderLimits limits;
  Decoder decoder(limits);
  const std::string_view header = "*1\r\n$536870912\r\n";
  EXPECT_EQ(decoder.Next(header).event, Decoder::Event::kBulk);
  EXPECT_EQ(decoder.bulk_bytes(), uint64_t{512} << 20);
}

TEST(Decoder, NamesTheByteThatIsNotADollar) {
  EXPECT_EQ(ErrorOf("*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n"), "ERR Protocol error: expected '$', got 'f'");
  EXPECT_EQ(ErrorOf("*1\r\nfoo"), "ERR Protocol error: expected '$', got 'f'");
  EXPECT_EQ(ErrorOf("*1\r\n\r\n"), "ERR Protocol error: expected '$', got ' '");
  EXPECT_EQ(ErrorOf(std::string_view("*1\r\n\0\r\n", 7)), "ERR Protocol error: expected '$', got '\\x00'");
}

TEST(Decoder, WantsCrlfBehindABulk) {
  EXPECT_EQ(ErrorOf("*1\r\n$4\r\nPINGXX"), "ERR Protocol error: expected CRLF after a bulk string");
  EXPECT_EQ(ErrorOf("*1\r\n$4\r\nPING\r\r"), "ERR Protocol error: expected CRLF after a bulk string");
  EXPECT_EQ(ErrorOf("*2\r\n$0\r\n\n\r"), "ERR Protocol error: expected CRLF after a bulk string");
}

TEST(Decoder, EarlierCommandsComeBeforeTheError) {
  const Decoded decoded = DecodeEveryWay(Encode({"PING"}) + "GET a\r\n*x\r\n" + Encode({"PING"}));
  EXPECT_THAT(decoded.commands, ElementsAre(Command{"PING"}, Command{"GET", "a"}));
  EXPECT_EQ(decoded.error, "ERR Protocol error: invalid multibulk length");
}

TEST(Decoder, LimitsBeforeAuthentication) {
  DecoderLimits limits;
  limits.authenticated = false;
  EXPECT_EQ(ErrorOf("*11\r\n", limits), "ERR Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(ErrorOf("*1\r\n$16385\r\n", limits), "ERR Protocol error: unauthenticated bulk length");
  EXPECT_FALSE(DecodeEveryWay("*10\r\n$16384\r\n", limits).failed);
  EXPECT_EQ(ErrorOf("*2147483648\r\n", limits), "ERR Protocol error: invalid multibulk length");
}

TEST(Decoder, LimitsFollowAuthentication) {
  DecoderLimits limits;
  limits.authenticated = false;
  Decoder decoder(limits);
  const std::string stream = Encode({"AUTH", "x"}) + Encode(Command(11, "y"));
  const Decoder::Step step = decoder.Next(stream);
  ASSERT_EQ(step.event, Decoder::Event::kCommand);
  limits.authenticated = true;
  decoder.set_limits(limits);
  EXPECT_EQ(decoder.Next(std::span(stream).subspan(step.consumed)).event, Decoder::Event::kCommand);
  EXPECT_EQ(decoder.arguments().size(), 11u);
}

// Long lines: cutting at every byte of 64 KiB is quadratic for the test, so at some.
std::string ErrorOfLong(const std::string& stream) {
  const Decoded whole = DecodeWhole(stream, {});
  EXPECT_TRUE(whole.failed);
  for (size_t piece : {size_t{997}, size_t{65536}}) {
    DecodeDriver driver({});
    for (size_t at = 0; at < stream.size(); at += piece) driver.Feed(std::string_view(stream).substr(at, piece));
    EXPECT_EQ(driver.seen(), whole) << piece;
  }
  return whole.error;
}

TEST(Decoder, RefusesLinesWithoutEnd) {
  const std::string longest(64 * 1024, '1');
  EXPECT_FALSE(DecodeWhole(longest, {}).failed);
  EXPECT_FALSE(DecodeWhole(longest + "\n", {}).failed);
  EXPECT_EQ(ErrorOfLong(longest + "1"), "ERR Protocol error: too big inline request");
  EXPECT_EQ(ErrorOfLong(longest + "1\n"), "ERR Protocol error: too big inline request");
  EXPECT_FALSE(DecodeWhole("*" + longest, {}).failed);
  EXPECT_EQ(ErrorOfLong("*1" + longest), "ERR Protocol error: too big mbulk count string");
  EXPECT_EQ(ErrorOfLong("*1" + longest + "\r\n"), "ERR Protocol error: too big mbulk count string");
  EXPECT_EQ(ErrorOfLong("*1\r\n$1" + longest), "ERR Protocol error: too big bulk count string");
  EXPECT_EQ(ErrorOfLong("*1\r\n$1" + longest + "\r\n"), "ERR Protocol error: too big bulk count string");
}

TEST(Decoder, WhatABrowserSendsIsDroppedSilently) {
  for (const char* line : {"POST / HTTP/1.1\r\nHost: x\r\n\r\n", "post\n", "Host: localhost:7379\r\n",
                           "*1\r\n$4\r\nPoSt\r\n", "*2\r\n$5\r\nHOST:\r\n$1\r\nx\r\n"}) {
    const Decoded decoded = DecodeEveryWay(line);
    EXPECT_TRUE(decoded.failed) << line;
    EXPECT_EQ(decoded.error, "") << line;
    EXPECT_TRUE(decoded.commands.empty());
  }
  EXPECT_FALSE(DecodeEveryWay("HOST a\r\nPOSTX\r\nxpost\r\n").failed);
}

TEST(Decoder, OddCommandNamesAreCommands) {
  const std::string odd("a\r\n\0b", 5);
  EXPECT_THAT(DecodeEveryWay(Encode({""}) + Encode({odd})).commands, ElementsAre(Command{""}, Command{odd}));
}

TEST(Decoder, LargeArgumentsGoPastTheBuffer) {
  DecoderLimits limits;
  limits.direct_bytes = 8;
  const std::string big(20, 'b');
  for (const Command& command :
       {Command{"SET", "key", big}, Command{"SET", "key", big, "PX", "100"}, Command{"SET", big, big, "NX"},
        Command{big}, Command{big, big}, Command{"MSET", "k1", big, "k2", "small", "k3", big, "k4", big}}) {
    const std::string stream = Encode(command) + Encode({"PING"});
    EXPECT_THAT(DecodeEveryWay(stream, limits).commands, ElementsAre(command, Command{"PING"}));
  }
}

TEST(Decoder, DirectBulkShowsWhatCameBefore) {
  DecoderLimits limits;
  limits.direct_bytes = 10;
  Decoder decoder(limits);
  std::string stream = "*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$10\r\n0123456789\r\n$2\r\nNX\r\n";
  const Decoder::Step step = decoder.Next(stream);
  ASSERT_EQ(step.event, Decoder::Event::kBulk);
  EXPECT_EQ(stream.substr(step.consumed, 3), "012");
  EXPECT_EQ(decoder.bulk_bytes(), 10u);
  EXPECT_EQ(decoder.bulk_index(), 2u);
  EXPECT_EQ(decoder.arguments_announced(), 4u);
  stream.replace(0, step.consumed, step.consumed, '?');  // the caller reuses its buffer
  EXPECT_THAT(decoder.arguments(), ElementsAre("SET", "key"));
  decoder.BulkTaken();
  const Decoder::Step rest = decoder.Next(std::span(stream).subspan(step.consumed + 12));
  ASSERT_EQ(rest.event, Decoder::Event::kCommand);
  EXPECT_THAT(decoder.arguments(), ElementsAre("SET", "key", "", "NX"));
  EXPECT_FALSE(decoder.in_command());
}

TEST(Decoder, CommandEndsWithADirectBulk) {
  DecoderLimits limits;
  limits.direct_bytes = 1;
  Decoder decoder(limits);
  ASSERT_EQ(decoder.Next(std::string_view("*1\r\n$1\r\n")).event, Decoder::Event::kBulk);
  decoder.BulkTaken();
  const Decoder::Step step = decoder.Next({});
  EXPECT_EQ(step.event, Decoder::Event::kCommand);
  EXPECT_EQ(step.consumed, 0u);
  EXPECT_EQ(decoder.Next({}).event, Decoder::Event::kNeedMore);
}

TEST(Decoder, SaysHowManyBytesAreMissing) {
  Decoder decoder({});
  EXPECT_EQ(decoder.Next(std::string_view("*1\r\n$100\r\nabc")).event, Decoder::Event::kNeedMore);
  EXPECT_EQ(decoder.bytes_wanted(), 99u);
  EXPECT_TRUE(decoder.in_command());
}

TEST(Decoder, BoundsWhatOneCommandBuffers) {
  DecoderLimits limits;
  limits.max_command_bytes = 64;
  limits.direct_bytes = 32;
  EXPECT_EQ(ErrorOf(Encode({"MGET", std::string(20, 'a'), std::string(20, 'b'), std::string(20, 'c')}), limits),
            "ERR Protocol error: command is longer than client-query-buffer-limit");
  EXPECT_FALSE(DecodeEveryWay(Encode({"SET", "k", std::string(200, 'v'), "NX"}), limits).failed);
}

// A command that arrives byte by byte, in a buffer that is handed in whole each time: work must not grow with the
// square of its length. Counted in bytes that Next may look at: the hang guard of the test would tell otherwise.
TEST(Decoder, ResumesWhereItStopped) {
  const std::string stream = Encode(Command(20'000, "0123456789"));
  Decoder decoder({});
  size_t have = 0;
  Decoder::Step step;
  do {
    step = decoder.Next(std::string_view(stream).substr(0, ++have));
  } while (step.event == Decoder::Event::kNeedMore);
  ASSERT_EQ(step.event, Decoder::Event::kCommand);
  EXPECT_EQ(have, stream.size());
  EXPECT_EQ(decoder.arguments().size(), 20'000u);
  EXPECT_EQ(decoder.arguments().back(), "0123456789");
}

// Random streams, good and damaged, cut at random: the same commands as in one piece.
TEST(Decoder, RandomStreamsCutAtRandom) {
  const uint64_t seed = RandomId();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 3'000; ++round) {
    DecoderLimits limits;
    limits.direct_bytes = 1 + random.Below(64);
    limits.authenticated = !random.OneIn(4);
    std::string stream;
    for (uint64_t commands = random.Below(6); commands > 0; --commands) {
      Command command(1 + random.Below(12));
      for (std::string& argument : command) argument.assign(random.Below(80), static_cast<char>(random.Next()));
      stream += Encode(command);
    }
    for (uint64_t hits = random.Below(3); hits > 0 && !stream.empty(); --hits) {
      stream[random.Below(stream.size())] = static_cast<char>(random.Next());
    }
    const Decoded whole = DecodeWhole(stream, limits);
    DecodeDriver driver(limits);
    for (size_t at = 0; at < stream.size();) {
      const size_t piece = 1 + random.Below(20);
      driver.Feed(std::string_view(stream).substr(at, piece));
      at += piece;
    }
    ASSERT_EQ(driver.seen().commands, whole.commands);
    ASSERT_EQ(driver.seen().error, whole.error);
    ASSERT_EQ(driver.complaint(), "");
  }
}

}  // namespace
}  // namespace tiercel::resp
