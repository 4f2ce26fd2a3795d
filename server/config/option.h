// The option table: one row a directive. Parsing, ranges, defaults, CONFIG, --help and conf/tiercel.conf derive from
// it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/settings.h"
#include "tiercel/result.h"

namespace tiercel::config {

enum class Section : uint8_t {
  kRoles,
  kResp,
  kUsers,
  kGeneral,
  kData,
  kAdmin,
  kMemory,
  kLeases,
  kPins,
  kPuts,
  kEviction,
  kStores,
  kIndex,
  kCompatibility,
};
struct SectionInfo {
  Section section;
  std::string_view title;
};
std::span<const SectionInfo> Sections();  // in the order of the documentation

using Words = std::span<const std::string>;

struct Option {
  std::string name{};
  std::string alias{};          // empty: none
  std::string syntax{};         // "TIME", "yes|no", "HOST PORT"
  std::string default_words{};  // as it stands in a file; empty: see default_note
  std::string default_note{};   // a computed default, for people; empty: none
  std::string allowed{};        // "100ms to 24h"
  std::string help{};
  Section section = Section::kGeneral;
  size_t min_words = 1, max_words = 1;
  bool immutable = false;   // CONFIG SET is refused
  bool repeatable = false;  // each line adds a value
  bool secret = false;      // values are never shown in errors, nor by CONFIG GET for `listed` == false
  bool listed = true;       // CONFIG GET

  // Reads the words into the settings. The message of a failure says what is wrong, never the value itself.
  std::function<Status(Words words, Settings* settings)> set{};
  // Repeatable options: forgets all values.
  std::function<void(Settings* settings)> clear{};
  // The values as lines of a file, without the name; none when it is not set.
  std::function<std::vector<std::string>(const Settings&)> lines{};
  // As CONFIG GET shows it, and under its alias; empty functions: the lines, joined.
  std::function<std::string(const Settings&)> shown{}, alias_shown{};
};

const std::vector<Option>& OptionTable();
// By name or alias in any case; nullptr when there is none.
const Option* FindOption(std::string_view name);
std::string Shown(const Option& option, const Settings& settings);

// The settings that the table's defaults give, before computed ones are filled in.
Settings TableDefaults();

// Counts the words, splits a single one that holds several, and sets. The message names what is allowed.
Status SetOption(const Option& option, Words words, Settings* settings);

// Fills in computed defaults.
void Complete(const Environment& environment, Settings* settings);

// Two directives that do not go together, in one sentence.
struct Conflict {
  std::string first, second;  // names
  std::string message;        // names both, with their values
};
std::vector<Conflict> FindConflicts(const Settings& settings);

}  // namespace tiercel::config
