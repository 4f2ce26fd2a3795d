#include "base/tokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tiercel {
namespace {

using Words = std::vector<std::string>;

Words Split(std::string_view line) {
  Result<Words> words = Tokenize(line);
  EXPECT_TRUE(words.ok()) << line;
  return words.ok() ? *words : Words{"(refused)"};
}

TEST(Tokenize, SplitsAtWhiteSpace) {
  EXPECT_EQ(Split(""), Words{});
  EXPECT_EQ(Split(" \t\r\n\v\f"), Words{});
  EXPECT_EQ(Split("SET  key\tvalue\r\n"), (Words{"SET", "key", "value"}));
  // Vertical tab and form feed separate nothing inside a word.
  EXPECT_EQ(Split("a\vb"), (Words{"a\vb"}));
  EXPECT_EQ(Split("a \vb"), (Words{"a", "b"}));
}

TEST(Tokenize, DoubleQuotesKnowEscapes) {
  EXPECT_EQ(Split(R"("a b" "")"), (Words{"a b", ""}));
  EXPECT_EQ(Split(R"("\n\r\t\b\a\\\"\q")"), (Words{"\n\r\t\b\a\\\"q"}));
  EXPECT_EQ(Split(R"("\x41\xfF\x00z")"), (Words{std::string("A\xff\0z", 4)}));
  EXPECT_EQ(Split(R"("\x4" "\xzz")"), (Words{"x4", "xzz"}));
  EXPECT_EQ(Split(R"("it's")"), (Words{"it's"}));
}

TEST(Tokenize, SingleQuotesKnowOnlyTheQuote) {
  EXPECT_EQ(Split(R"('a\nb' 'it\'s' '')"), (Words{R"(a\nb)", "it's", ""}));
  EXPECT_EQ(Split(R"('say "x"')"), (Words{R"(say "x")"}));
}

TEST(Tokenize, QuotesMayStartInsideAWordAndBackslashesOutsideAreThemselves) {
  EXPECT_EQ(Split(R"(foo"b ar" x)"), (Words{"foob ar", "x"}));
  EXPECT_EQ(Split(R"(a\nb)"), (Words{R"(a\nb)"}));
}

TEST(Tokenize, RefusesUnbalancedQuotes) {
  for (const char* bad : {"\"", "'", "\"a", "'a", "\"a\"b", "'a'b", "\"a\"\"b\"", "\"a\\\"", "'a\\'", "x \"a\\"}) {
    const Result<Words> words = Tokenize(bad);
    ASSERT_FALSE(words.ok()) << bad;
    EXPECT_EQ(words.error().code(), ErrorCode::kSyntax);
    EXPECT_NE(words.error().message().find("unbalanced quotes"), std::string::npos);
  }
}

TEST(Tokenize, ANulEndsTheLine) {
  EXPECT_EQ(Split(std::string_view("a b\0c d", 7)), (Words{"a", "b"}));
  EXPECT_FALSE(Tokenize(std::string_view("\"a\0\"", 4)).ok());
}

TEST(QuoteWord, IsShort) {
  EXPECT_EQ(QuoteWord("plain\\word#1"), "plain\\word#1");
  EXPECT_EQ(QuoteWord(""), "\"\"");
  EXPECT_EQ(QuoteWord("a b"), "\"a b\"");
  EXPECT_EQ(QuoteWord("say \"x\""), "'say \"x\"'");
  EXPECT_EQ(QuoteWord("it's"), "\"it's\"");
  EXPECT_EQ(QuoteWord("\n\x01"), "\"\\n\\x01\"");
}

TEST(QuoteWord, ReadsBackAsItself) {
  constexpr uint64_t kSeed = 20240601;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  constexpr std::string_view kHard = " \t\n\v\f\r\b\a\"'\\x0aF#z\x7f\x80\xff";
  for (int i = 0; i < 20'000; ++i) {
    std::string word(random.Below(9), '\0');
    for (char& c : word) {
      c = random.OneIn(4) ? static_cast<char>(random.Below(256)) : kHard[random.Below(kHard.size())];
    }
    const std::string quoted = QuoteWord(word);
    EXPECT_EQ(Split(quoted + " next"), (Words{word, "next"})) << quoted;
    EXPECT_EQ(quoted.find_first_of("\n\r"), std::string::npos);
  }
}

}  // namespace
}  // namespace tiercel
