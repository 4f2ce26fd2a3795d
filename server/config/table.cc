#include <limits>

#include "base/check.h"
#include "server/config/rows.h"

namespace tiercel::config {
namespace {

constexpr SectionInfo kSections[] = {
    {Section::kRoles, "Roles"},
    {Section::kResp, "RESP: clients"},
    {Section::kUsers, "Users"},
    {Section::kGeneral, "General"},
    {Section::kData, "Bulk data"},
    {Section::kAdmin, "Admin port"},
    {Section::kMemory, "Memory"},
    {Section::kLeases, "Reading: leases, grants, verification"},
    {Section::kPins, "Pins"},
    {Section::kPuts, "Puts"},
    {Section::kEviction, "Eviction and placement"},
    {Section::kStores, "Stores, as the master sees them"},
    {Section::kIndex, "Index"},
    {Section::kCompatibility, "For tools made for Redis; each has the one value that is true here"},
};

std::vector<Option> MakeTable() {
  std::vector<Option> table;
  Rows rows(&table);
  AddServerRows(&rows);
  AddCacheRows(&rows);
  AddCompatibilityRows(&rows);
  return table;
}

// "user" "stores on >secret" in one argument of a command line, or in a CONFIG SET.
bool HoldsSeveralWords(const Option& option, Words words) {
  return words.size() == 1 && option.max_words > 1 && words[0].find_first_of(" \t\"'") != std::string::npos;
}

}  // namespace

std::span<const SectionInfo> Sections() { return kSections; }

const std::vector<Option>& OptionTable() {
  static const std::vector<Option> table = MakeTable();
  return table;
}

const Option* FindOption(std::string_view name) {
  for (const Option& option : OptionTable()) {
    if (EqualNames(option.name, name) || (!option.alias.empty() && EqualNames(option.alias, name))) return &option;
  }
  return nullptr;
}

std::string Shown(const Option& option, const Settings& settings) {
  if (option.shown) return option.shown(settings);
  const std::vector<std::string> lines = option.lines(settings);
  // A single word is shown as it is; quotes belong to the syntax of files.
  if (lines.size() == 1 && option.max_words == 1) return (*Tokenize(lines[0]))[0];
  return fmt::format("{}", fmt::join(lines, " "));
}

Status SetOption(const Option& option, Words words, Settings* settings) {
  std::vector<std::string> split;
  if (HoldsSeveralWords(option, words)) {
    Result<std::vector<std::string>> tokens = Tokenize(words[0]);
    if (!tokens.ok()) return Bad("unbalanced quotes");
    split = std::move(*tokens);
    words = split;
  }
  if (words.size() < option.min_words || words.size() > option.max_words) {
    return Bad(fmt::format("wrong number of arguments: {} given", words.size()));
  }
  return option.set(words, settings);
}

Settings TableDefaults() {
  Settings settings;
  for (const Option& option : OptionTable()) {
    if (option.default_words.empty()) continue;
    const Result<std::vector<std::string>> words = Tokenize(option.default_words);
    TIERCEL_CHECK(words.ok() && SetOption(option, *words, &settings).ok(), "defaults must be allowed");
  }
  return settings;
}

}  // namespace tiercel::config
