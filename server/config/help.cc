#include <fmt/format.h>

#include "server/config/rows.h"

namespace tiercel::config {
namespace {

constexpr size_t kWidth = 100;

// Breaks text into lines of at most kWidth bytes that start with `indent`.
void AppendWrapped(std::string_view text, std::string_view indent, std::string* out) {
  std::string line(indent);
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kWidth) {
      *out += line + "\n";
      line = indent;
    }
    if (line.size() > indent.size()) line += ' ';
    line += word;
    at = end + 1;
  }
  *out += line + "\n";
}

std::string DefaultOf(const Option& option) {
  if (!option.default_words.empty()) return option.default_words;
  return option.default_note.empty() ? "not set" : option.default_note;
}

// "Allowed: ... Default: ..." and what else is to be known.
std::string Facts(const Option& option) {
  std::string facts = "Allowed: " + option.allowed + ".";
  if (option.default_words.empty()) facts += " Default: " + DefaultOf(option) + ".";
  if (option.repeatable) facts += " May be given several times.";
  if (!option.alias.empty()) facts += " Also called " + option.alias + ".";
  if (!option.immutable && option.syntax != option.default_words) facts += " CONFIG SET changes it at once.";
  return facts;
}

}  // namespace

std::string HelpText() {
  std::string text =
      "tiercel-server [FILE] [--directive value ...] ...   runs a server\n"
      "tiercel-server --check FILE                         says whether one would start with this file\n"
      "tiercel-server --print-conf                         prints an annotated configuration file\n"
      "tiercel-server --help | --version\n"
      "\n"
      "Without a file, a master and a store run in one process on this host. What the command line says wins over the\n"
      "file. SIZE: 64mb, 4gb, ... TIME: 500ms, 10s, 5m, 24h; a bare number is seconds. RATIO: 0 to 1.\n";
  for (const SectionInfo& section : Sections()) {
    text += fmt::format("\n{}:\n", section.title);
    for (const Option& option : OptionTable()) {
      if (option.section != section.section) continue;
      text += fmt::format("  --{} {}  ({})\n", option.name, option.syntax, DefaultOf(option));
      AppendWrapped(option.help, "      ", &text);
    }
  }
  return text;
}

std::string ConfText() {
  std::string text =
      "# Configuration of tiercel-server: every directive, what it does, what is allowed, and its default.\n"
      "# This file is printed by `tiercel-server --print-conf`.\n"
      "#\n"
      "#   tiercel-server tiercel.conf\n"
      "#   tiercel-server tiercel.conf --port 7000 --dram 8gb     the command line wins over the file\n"
      "#   tiercel-server --check tiercel.conf\n"
      "#\n"
      "# One directive a line, in the syntax of redis.conf. Words may stand in quotes: \"...\" knows \\n \\r \\t \\b "
      "\\a \\\\ \\\" \\xHH,\n"
      "# '...' knows \\'. What stands later wins, but for directives that may be given several times. `include "
      "FILE...` reads\n"
      "# other files, found from this file's directory; patterns such as conf.d/*.conf may match none.\n"
      "#\n"
      "# Sizes: 17, 64kb, 64mb, 4gb, 1tb in powers of 1024; k, m, g, t in powers of 1000. Times: 500ms, 10s, 5m, 24h, "
      "7d; a bare\n"
      "# number is seconds. Ratios: 0 to 1.\n";
  for (const SectionInfo& section : Sections()) {
    text += fmt::format("\n\n# ---- {} ----\n", section.title);
    for (const Option& option : OptionTable()) {
      if (option.section != section.section) continue;
      text += '\n';
      AppendWrapped(option.help, "# ", &text);
      AppendWrapped(Facts(option), "# ", &text);
      if (option.default_words.empty()) {
        text += fmt::format("# {} {}\n", option.name, option.syntax);
      } else {
        text += fmt::format("{} {}\n", option.name, option.default_words);
      }
    }
  }
  return text;
}

}  // namespace tiercel::config
