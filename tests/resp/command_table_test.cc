#include "protocol/resp/command_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "protocol/resp/errors.h"

namespace tiercel::resp {
namespace {

using Words = std::vector<std::string_view>;

std::string Swapped(std::string_view name) {
  std::string text(name);
  for (size_t i = 0; i < text.size(); i += 2) {
    if (text[i] >= 'a' && text[i] <= 'z') text[i] = static_cast<char>(text[i] - 0x20);
  }
  return text;
}

TEST(CommandTable, FindsEveryRowInAnyCase) {
  for (const CommandSpec& row : CommandTable()) {
    EXPECT_EQ(FindCommand(row.name), &row);
    EXPECT_EQ(FindCommand(Swapped(row.name)), &row) << row.name;
    EXPECT_EQ(&SpecOf(row.id), &row);
    for (const CommandSpec& sub : Subcommands(row)) {
      EXPECT_EQ(FindSubcommand(row, Swapped(sub.name.substr(row.name.size() + 1))), &sub) << sub.name;
      EXPECT_EQ(sub.parent, row.id);
      EXPECT_TRUE(Subcommands(sub).empty());
    }
  }
}

// Every name with one byte changed, added or left out, and short strings of all bytes: unknown, unless it is a name.
TEST(CommandTable, FindsNothingElse) {
  std::set<std::string> names;
  for (const CommandSpec& row : CommandTable()) names.emplace(row.name);
  const auto lower = [](std::string text) {
    for (char& c : text) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    }
    return text;
  };
  for (const std::string& name : names) {
    for (size_t at = 0; at <= name.size(); ++at) {
      for (int byte = 0; byte < 256; ++byte) {
        std::string other = name;
        if (at < name.size()) {
          other[at] = static_cast<char>(byte);
        } else {
          other.push_back(static_cast<char>(byte));
        }
        EXPECT_EQ(FindCommand(other) != nullptr, names.contains(lower(other))) << testing::PrintToString(other);
      }
      if (at < name.size()) {
        std::string shorter = name;
        shorter.erase(at, 1);
        EXPECT_EQ(FindCommand(shorter) != nullptr, names.contains(shorter)) << shorter;
      }
    }
  }
  for (std::string_view odd : {"", "|", "client|id", "client id", "getgetgetgetgetget", "\xff"}) {
    EXPECT_EQ(FindCommand(odd), nullptr) << odd;
  }
  EXPECT_EQ(FindSubcommand(*FindCommand("client"), ""), nullptr);
  EXPECT_EQ(FindSubcommand(*FindCommand("client"), "i"), nullptr);
  EXPECT_EQ(FindSubcommand(*FindCommand("client"), "no\revict"), nullptr);
  EXPECT_EQ(FindSubcommand(*FindCommand("get"), "id"), nullptr);
}

TEST(CommandTable, RowsAreComplete) {
  std::set<std::string_view> seen;
  const auto check = [&](const CommandSpec& row) {
    EXPECT_TRUE(seen.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.summary.empty()) << row.name;
    EXPECT_FALSE(row.group.empty()) << row.name;
    EXPECT_FALSE(row.since.empty()) << row.name;
    // Redis: every command is fast or slow; reads and writes exclude each other and show as categories.
    const auto has = [&](std::string_view category) {
      return (" " + std::string(row.categories) + " ").find(" " + std::string(category) + " ") != std::string::npos;
    };
    EXPECT_NE(has("fast"), has("slow")) << row.name;
    EXPECT_EQ(has("fast"), (row.flags & kFast) != 0) << row.name;
    EXPECT_FALSE((row.flags & kWrite) && (row.flags & kReadOnly)) << row.name;
    EXPECT_EQ(has("write"), (row.flags & kWrite) != 0) << row.name;
    EXPECT_EQ(row.first_key == 0, row.key_step == 0) << row.name;
    const bool bare = row.arity == (row.is_subcommand() ? 2 : 1);
    EXPECT_TRUE(!bare || row.syntax.empty()) << row.name;
  };
  for (const CommandSpec& row : CommandTable()) {
    check(row);
    for (const CommandSpec& sub : Subcommands(row)) check(sub);
  }
  EXPECT_EQ(seen.size(), kCommandIdCount);
}

TEST(CommandTable, ResolvesCommandsAndSubcommands) {
  EXPECT_EQ(ResolveCommand(Words{"GET", "k"})->id, CommandId::kGet);
  EXPECT_EQ(ResolveCommand(Words{"Client", "ID"})->id, CommandId::kClientId);
  EXPECT_EQ(ResolveCommand(Words{"command"})->id, CommandId::kCommand);
  EXPECT_EQ(ResolveCommand(Words{"command", "count"})->id, CommandId::kCommandCount);
  EXPECT_EQ(ResolveCommand(Words{"cluster", "whatever"})->id, CommandId::kCluster);
  EXPECT_EQ(ResolveCommand(Words{}), nullptr);
  EXPECT_EQ(ResolveCommand(Words{"get"}), nullptr);
  EXPECT_EQ(ResolveCommand(Words{"client"}), nullptr);
  EXPECT_EQ(ResolveCommand(Words{"client", "id", "x"}), nullptr);
  EXPECT_EQ(ResolveCommand(Words{"client", "nope"}), nullptr);
}

std::string ResolveLine(const Words& words) { return ResolveError(words).ToString(); }

// Read off a redis-server 7.0.15.
TEST(CommandErrors, UnknownCommandsAsRedisWordsThem) {
  const std::string a200(200, 'a'), a124(124, 'a'), a125(125, 'a'), a100(100, 'a'), b100(100, 'b');
  const std::string head = "ERR unknown command 'foo', with args beginning with: ";
  EXPECT_EQ(ResolveLine({"foo"}), head);
  EXPECT_EQ(ResolveLine({"foo", "a", "b"}), head + "'a' 'b' ");
  EXPECT_EQ(ResolveLine({"foo", a200, "b"}), head + "'" + std::string(128, 'a') + "' ");
  EXPECT_EQ(ResolveLine({"foo", a100, b100, "c"}), head + "'" + a100 + "' '" + std::string(25, 'b') + "' ");
  EXPECT_EQ(ResolveLine({"foo", a125, b100, "c"}), head + "'" + a125 + "' ");
  EXPECT_EQ(ResolveLine({"foo", a124, b100, "c"}), head + "'" + a124 + "' 'b' ");
  EXPECT_EQ(ResolveLine({std::string(300, 'f'), "x"}),
            "ERR unknown command '" + std::string(128, 'f') + "', with args beginning with: 'x' ");
  EXPECT_EQ(ResolveLine({"fo\r\no", "x\ny"}), "ERR unknown command 'fo  o', with args beginning with: 'x y' ");
  EXPECT_EQ(ResolveLine({std::string_view("fo\0o", 4), std::string_view("x\0y", 3), "z"}),
            "ERR unknown command 'fo', with args beginning with: 'x' 'z' ");
  EXPECT_EQ(ResolveLine({""}), "ERR unknown command '', with args beginning with: ");
}

TEST(CommandErrors, SubcommandsAndArityAsRedisWordsThem) {
  EXPECT_EQ(ResolveLine({"client"}), "ERR wrong number of arguments for 'client' command");
  EXPECT_EQ(ResolveLine({"client", "foo"}), "ERR unknown subcommand 'foo'. Try CLIENT HELP.");
  EXPECT_EQ(ResolveLine({"cLient", "foo\nbar", "x"}), "ERR unknown subcommand 'foo bar'. Try CLIENT HELP.");
  EXPECT_EQ(ResolveLine({"client", std::string(200, 'x')}),
            "ERR unknown subcommand '" + std::string(128, 'x') + "'. Try CLIENT HELP.");
  EXPECT_EQ(ResolveLine({"client", "id", "x"}), "ERR wrong number of arguments for 'client|id' command");
  EXPECT_EQ(ResolveLine({"GET", "a", "b"}), "ERR wrong number of arguments for 'get' command");
  EXPECT_EQ(ResolveLine({"object", "encoding"}), "ERR wrong number of arguments for 'object|encoding' command");
}

TEST(CommandErrors, LinesThatNameSomething) {
  EXPECT_EQ(InvalidExpireLine("set"), "ERR invalid expire time in 'set' command");
  EXPECT_EQ(UnsupportedOptionLine("FOO"), "ERR Unsupported option FOO");
  EXPECT_EQ(HelloOptionLine("foo"), "ERR Syntax error in HELLO option 'foo'");
  EXPECT_EQ(UnknownConfigLine("nope"), "ERR Unknown option or number of arguments for CONFIG SET - 'nope'");
  EXPECT_EQ(ConfigSetFailedLine("maxmemory", "argument must be a memory value"),
            "ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value");
  EXPECT_EQ(UnknownClientTypeLine("x\r\n"), "ERR Unknown client type 'x  '");
}

std::vector<size_t> Keys(const Words& words) {
  const CommandSpec* spec = ResolveCommand(words);
  if (spec == nullptr) return {SIZE_MAX};
  const auto keys = ExtractKeys(*spec, words);
  if (!keys) return {SIZE_MAX - 1};
  std::vector<size_t> positions;
  for (size_t i = 0; i < keys->count; ++i) positions.push_back(keys->first + i * keys->step);
  return positions;
}

TEST(CommandKeys, PositionsOfKeys) {
  using testing::ElementsAre;
  EXPECT_THAT(Keys({"ping"}), ElementsAre());
  EXPECT_THAT(Keys({"get", "a"}), ElementsAre(1));
  EXPECT_THAT(Keys({"set", "a", "b", "NX"}), ElementsAre(1));
  EXPECT_THAT(Keys({"del", "a", "b", "c"}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Keys({"mset", "a", "1", "b", "2"}), ElementsAre(1, 3));
  EXPECT_THAT(Keys({"mset", "a", "1", "b"}), ElementsAre(1, 3));  // the command itself refuses an odd one
  EXPECT_THAT(Keys({"object", "encoding", "a"}), ElementsAre(2));
  EXPECT_THAT(Keys({"memory", "usage", "a", "samples", "0"}), ElementsAre(2));
  EXPECT_THAT(Keys({"report", "a", "1", "s.1", "2.3", "CORRUPT"}), ElementsAre(1));
  EXPECT_THAT(Keys({"putstart", "a", "100", "PARENT", "b"}), ElementsAre(1));
}

TEST(CommandKeys, CountedKeys) {
  using testing::ElementsAre;
  EXPECT_THAT(Keys({"mgetreplicas", "2", "a", "b", "NOLEASE"}), ElementsAre(2, 3));
  EXPECT_THAT(Keys({"prefixmatch", "3", "a", "b", "c"}), ElementsAre(2, 3, 4));
  for (const char* bad : {"0", "-1", "4", "x", "", "9223372036854775807", "18446744073709551615", "+1", "01"}) {
    EXPECT_THAT(Keys({"prefixmatch", bad, "a", "b", "c"}), ElementsAre(SIZE_MAX - 1)) << bad;
  }
  EXPECT_THAT(Keys({"prefixmatch", "1"}), ElementsAre(SIZE_MAX));
}

}  // namespace
}  // namespace tiercel::resp
