// The table against itself, and what derives from it.
#include <set>

#include "base/tokenizer.h"
#include "tests/config/config_fixture.h"

namespace tiercel::config {
namespace {

using testing::HasSubstr;
using TableTest = ConfigFixture;

std::vector<std::string> AllLines(const Settings& settings) {
  std::vector<std::string> all;
  for (const Option& option : OptionTable()) {
    for (const std::string& line : option.lines(settings)) all.push_back(option.name + " " + line);
  }
  return all;
}

TEST_F(TableTest, RowsAreComplete) {
  std::set<std::string> names;
  for (const Option& option : OptionTable()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    if (!option.alias.empty()) {
      EXPECT_TRUE(names.insert(option.alias).second) << option.alias;
    }
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_TRUE(option.help.ends_with('.')) << option.name;
    EXPECT_FALSE(option.syntax.empty()) << option.name;
    EXPECT_FALSE(option.allowed.empty()) << option.name;
    EXPECT_TRUE(option.set && option.lines) << option.name;
    EXPECT_EQ(option.repeatable, static_cast<bool>(option.clear)) << option.name;
    EXPECT_LE(option.min_words, option.max_words);
    EXPECT_EQ(option.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
    EXPECT_EQ(FindOption(option.name), &option);
  }
  EXPECT_EQ(FindOption("MaxMemory"), FindOption("dram"));
  EXPECT_EQ(FindOption("nothing-like-this"), nullptr);
}

// What the table says is the default is what reading it gives, and what is written back.
TEST_F(TableTest, DefaultsReadBackAsTheyStand) {
  const Settings defaults = TableDefaults();
  for (const Option& option : OptionTable()) {
    const std::vector<std::string> lines = option.lines(defaults);
    if (option.default_words.empty()) continue;
    ASSERT_EQ(lines.size(), 1u) << option.name;
    const auto written = Tokenize(lines[0]);
    const auto stated = Tokenize(option.default_words);
    Settings again;
    ASSERT_TRUE(SetOption(option, *written, &again).ok()) << option.name;
    EXPECT_EQ(option.lines(again), lines) << option.name;
    EXPECT_EQ(written->size(), stated->size()) << option.name;
  }
}

// Two homes of one fact, held together: the core's own defaults are used by its tests.
TEST_F(TableTest, DefaultsAreTheCores) {
  const Settings table = TableDefaults();
  Settings core = table;
  core.core = core::Options{};
  EXPECT_EQ(AllLines(table), AllLines(core));
}

TEST_F(TableTest, NamesThatToolsAskForAreThere) {
  for (const char* name :
       {"save", "appendonly", "databases", "maxmemory", "maxmemory-policy", "maxclients", "timeout", "requirepass",
        "notify-keyspace-events", "slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold",
        "client-output-buffer-limit", "client-query-buffer-limit", "proto-max-bulk-len", "hz", "port", "bind", "dir"}) {
    EXPECT_NE(FindOption(name), nullptr) << name;
  }
}

TEST_F(TableTest, ConfFileInTheTreeIsTheTables) {
  std::ostringstream text;
  text << std::ifstream(std::string(TIERCEL_SOURCE_DIR) + "/conf/tiercel.conf").rdbuf();
  EXPECT_EQ(text.str(), ConfText()) << "write it again: tiercel-server --print-conf > conf/tiercel.conf";
}

TEST_F(TableTest, ConfTextMeansTheDefaults) {
  const std::string file = Write("tiercel.conf", ConfText());
  EXPECT_TRUE(CheckFile(file, environment_).ok());
  EXPECT_EQ(AllLines(MustLoad({file})), AllLines(MustLoad({})));
  for (const Option& option : OptionTable()) EXPECT_THAT(ConfText(), HasSubstr(option.name + " "));
}

TEST_F(TableTest, HelpNamesEveryDirective) {
  const std::string help = HelpText();
  for (const Option& option : OptionTable()) EXPECT_THAT(help, HasSubstr("--" + option.name + " "));
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

}  // namespace
}  // namespace tiercel::config
