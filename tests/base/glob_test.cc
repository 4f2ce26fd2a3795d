#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>

namespace tiercel {
namespace {

struct Case {
  const char* pattern;
  const char* text;
  bool matches;
};

TEST(GlobMatch, FollowsRedis) {
  const Case kCases[] = {
      {"", "", true},
      {"", "a", false},
      {"*", "a", true},
      {"*", "", false},  // as in Redis; keys are never empty
      {"**", "abc", true},
      {"a*", "a", true},
      {"a**", "a", true},
      {"*a", "bca", true},
      {"*a", "bcab", false},
      {"a*c*e", "abcde", true},
      {"a*c*e", "abcdef", false},
      {"*aab", "aaaaab", true},
      {"?", "", false},
      {"h?llo", "hello", true},
      {"h?llo", "hllo", false},
      {"h[ae]llo", "hallo", true},
      {"h[ae]llo", "hillo", false},
      {"h[^e]llo", "hello", false},
      {"h[^e]llo", "hbllo", true},
      {"h[a-c]llo", "hbllo", true},
      {"h[c-a]llo", "hbllo", true},
      {"h[a-c]llo", "hdllo", false},
      {"[a-", "-", true},    // no room for a range: both are plain members
      {"[a-]", "-", false},  // a range from a to ], and the set ends with the pattern
      {"[a-]", "^", true},
      {"[abc", "b", true},
      {"[abc", "d", false},
      {"[", "a", false},
      {"[^", "a", true},
      {"[]", "a", false},
      {"[]a]", "a]", false},
      {"[\\]]", "]", true},
      {"[a\\-z]", "-", true},
      {"[a\\-z]", "b", false},
      {"[\\", "\\", true},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"a\\", "a\\", true},
      {"\\\\", "\\", true},
      {"[0-9]*[a-f]", "7xxf", true},
      {"[0-9]*[a-f]", "7xxg", false},
      {"a", "A", false},
      {"ab", "a", false},
      {"a[", "a", false},
  };
  for (const Case& c : kCases) EXPECT_EQ(GlobMatch(c.pattern, c.text), c.matches) << c.pattern << " : " << c.text;
}

TEST(GlobMatch, CaseCanBeIgnored) {
  EXPECT_TRUE(GlobMatch("MAX*", "maxclients", true));
  EXPECT_TRUE(GlobMatch("[A-C]x", "bX", true));
  EXPECT_TRUE(GlobMatch("[ABC]x", "bX", true));
  EXPECT_FALSE(GlobMatch("[\\B]", "b", true));  // an escaped member of a set is exact, as in Redis
  EXPECT_TRUE(GlobMatch("\\B", "b", true));
}

TEST(GlobMatch, BytesAreUnsignedAndMayBeNul) {
  EXPECT_TRUE(GlobMatch("[a-\xff]", "\xc3"));
  EXPECT_TRUE(GlobMatch(std::string_view("a\0*", 3), std::string_view("a\0b", 3)));
  EXPECT_FALSE(GlobMatch(std::string_view("a\0b", 3), std::string_view("a\0c", 3)));
}

TEST(GlobMatch, ManyStarsDoNotTakeExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(GlobMatch(pattern + "b", std::string(5000, 'a')));
  EXPECT_TRUE(GlobMatch(pattern + "b", std::string(5000, 'a') + "b"));
}

}  // namespace
}  // namespace tiercel
