// Builders of the option table's rows, one for each kind of value. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tokenizer.h"
#include "base/units.h"
#include "server/config/option.h"

namespace tiercel::config {

// Access to a member of const and of other settings alike.
#define TIERCEL_FIELD(member) [](auto& settings) -> auto& { return settings.member; }

inline Error Bad(std::string message) { return Error(ErrorCode::kInvalid, std::move(message)); }

bool EqualNames(std::string_view a, std::string_view b);  // in any case
bool HasControlBytes(std::string_view text);
std::string JoinWords(Words words);  // quoted where needed

class Rows {
 public:
  explicit Rows(std::vector<Option>* table) : table_(table) {}
  void In(Section section) { section_ = section; }
  Option& Add(Option option) {
    option.section = section_;
    return table_->emplace_back(std::move(option));
  }

 private:
  std::vector<Option>* const table_;
  Section section_ = Section::kGeneral;
};

// The rows, by group of sections. In this order.
void AddServerRows(Rows* rows);
void AddCacheRows(Rows* rows);
void AddCompatibilityRows(Rows* rows);

template <typename Parse, typename Format, typename Value, typename Field>
Option Ranged(std::string_view name, std::string_view default_words, std::string_view syntax, std::string_view expected,
              Parse parse, Format format, Value min, Value max, Field field, std::string_view help) {
  Option option{.name = std::string(name),
                .syntax = std::string(syntax),
                .default_words = std::string(default_words),
                .allowed = format(min) + " to " + format(max),
                .help = std::string(help)};
  option.set = [=, why = std::string(expected)](Words words, Settings* settings) -> Status {
    const auto value = parse(words[0]);
    if (!value) return Bad(why);
    if (*value < min || *value > max) {
      return Bad(fmt::format("argument must be between {} and {} inclusive", format(min), format(max)));
    }
    auto& member = field(*settings);
    member = static_cast<std::remove_reference_t<decltype(member)>>(*value);
    return Ok();
  };
  option.lines = [=](const Settings& settings) {
    return std::vector<std::string>{format(static_cast<Value>(field(settings)))};
  };
  return option;
}

template <typename Field>
Option Integer(std::string_view name, std::string_view default_words, int64_t min, int64_t max, Field field,
               std::string_view help) {
  return Ranged(
      name, default_words, "NUMBER", "argument couldn't be parsed into an integer", &ParseInt64,
      [](int64_t value) { return fmt::format("{}", value); }, min, max, field, help);
}

// Sizes stand in files as "64mb" and are shown by CONFIG GET as bytes, as Redis does.
template <typename Field>
Option Size(std::string_view name, std::string_view default_words, uint64_t min, uint64_t max, Field field,
            std::string_view help) {
  Option option = Ranged(name, default_words, "SIZE", "argument must be a memory value", &ParseSize, &FormatSize, min,
                         max, field, help);
  option.shown = [=](const Settings& settings) { return fmt::format("{}", field(settings)); };
  return option;
}

template <typename Field>
Option Time(std::string_view name, std::string_view default_words, int64_t min_ms, int64_t max_ms, Field field,
            std::string_view help) {
  return Ranged(name, default_words, "TIME", "argument must be a time, such as 500ms, 10s, 5m or 24h", &ParseMillis,
                &FormatMillis, min_ms, max_ms, field, help);
}

template <typename Field>
Option Ratio(std::string_view name, std::string_view default_words, double min, double max, Field field,
             std::string_view help) {
  return Ranged(name, default_words, "RATIO", "argument must be a ratio from 0 to 1", &ParseRatio, &FormatRatio, min,
                max, field, help);
}

template <typename Value>
using Names = std::vector<std::pair<std::string, Value>>;

template <typename Value>
std::string JoinNames(const Names<Value>& names, std::string_view separator) {
  std::string text;
  for (const auto& [name, value] : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

template <typename Value, typename Field>
Option Choice(std::string_view name, std::string_view default_words, const Names<Value>& names, Field field,
              std::string_view help) {
  Option option{.name = std::string(name),
                .syntax = JoinNames(names, "|"),
                .default_words = std::string(default_words),
                .allowed = JoinNames(names, ", "),
                .help = std::string(help)};
  option.set = [=](Words words, Settings* settings) -> Status {
    for (const auto& [word, value] : names) {
      if (!EqualNames(word, words[0])) continue;
      field(*settings) = value;
      return Ok();
    }
    return Bad("argument(s) must be one of the following: " + JoinNames(names, ", "));
  };
  option.lines = [=](const Settings& settings) {
    std::vector<std::string> lines;
    for (const auto& [word, value] : names) {
      if (value == field(settings) && lines.empty()) lines.push_back(word);
    }
    return lines;
  };
  return option;
}

template <typename Field>
Option Bool(std::string_view name, std::string_view default_words, Field field, std::string_view help) {
  Option option = Choice(name, default_words, Names<bool>{{"yes", true}, {"no", false}}, field, help);
  option.set = [set = std::move(option.set)](Words words, Settings* settings) -> Status {
    if (!set(words, settings).ok()) return Bad("argument must be 'yes' or 'no'");
    return Ok();
  };
  return option;
}

// One word; empty is "not set".
template <typename Field>
Option Text(std::string_view name, std::string_view default_words, std::string_view syntax, size_t max_size,
            Field field, std::string_view help) {
  Option option{.name = std::string(name),
                .syntax = std::string(syntax),
                .default_words = std::string(default_words),
                .allowed = fmt::format("up to {} bytes without control characters", max_size),
                .help = std::string(help)};
  option.set = [=](Words words, Settings* settings) -> Status {
    if (words[0].size() > max_size) return Bad(fmt::format("argument is longer than {} bytes", max_size));
    if (HasControlBytes(words[0])) return Bad("argument contains control characters");
    field(*settings) = words[0];
    return Ok();
  };
  option.lines = [=](const Settings& settings) {
    std::vector<std::string> lines;
    if (!field(settings).empty()) lines.push_back(QuoteWord(field(settings)));
    return lines;
  };
  return option;
}

// Several words on one line, each checked by `check` (an empty string, or what is wrong).
template <typename Field, typename Check>
Option List(std::string_view name, std::string_view default_words, std::string_view syntax, std::string_view allowed,
            size_t max_words, Check check, Field field, std::string_view help) {
  Option option{.name = std::string(name),
                .syntax = std::string(syntax),
                .default_words = std::string(default_words),
                .allowed = std::string(allowed),
                .help = std::string(help),
                .max_words = max_words};
  option.set = [=](Words words, Settings* settings) -> Status {
    for (const std::string& word : words) {
      if (std::string why = check(word); !why.empty()) return Bad(std::move(why));
    }
    field(*settings).assign(words.begin(), words.end());
    return Ok();
  };
  option.lines = [=](const Settings& settings) {
    std::vector<std::string> lines;
    if (!field(settings).empty()) lines.push_back(JoinWords(field(settings)));
    return lines;
  };
  return option;
}

// A directive that has one value in this version: known, so that tools that ask for it and files that state it are
// served, and refused when something else is wanted.
Option Fixed(std::string_view name, std::string_view value, std::string_view help);

}  // namespace tiercel::config
