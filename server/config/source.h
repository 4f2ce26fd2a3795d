// Directives as they were written, with where. Files and command lines become the same list.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/config/settings.h"
#include "tiercel/result.h"

namespace tiercel::config {

struct Directive {
  std::string file;  // empty: the command line
  size_t line = 0;
  std::string name;
  std::vector<std::string> words;

  std::string Where() const;  // "FILE:LINE" or "command line"
};

// One line of a file; nullopt for comments and blank lines. kInvalid on unbalanced quotes.
Result<std::optional<Directive>> ParseLine(const std::string& file, size_t number, const std::string& text);

// Follows `include`, whose relative paths and patterns start at the including file's directory. kIo or kInvalid with
// file and line. Bounds: 1 MiB a file, 10,000 directives in all, 16 levels.
Result<std::vector<Directive>> ReadFileDirectives(const std::string& file);

struct Arguments {
  std::string file;  // empty: none given
  std::vector<Directive> directives;
};
Result<Arguments> ReadArguments(std::span<const std::string> arguments);

// Sets what the directives of one source say; the first value of a repeatable one replaces those of earlier sources.
// The error names place, directive, value and what is allowed.
Status ApplyAll(std::span<const Directive> directives, const Environment& environment, Settings* settings);

// The file's lines, without line ends.
Result<std::vector<std::string>> ReadLines(const std::string& file);

}  // namespace tiercel::config
