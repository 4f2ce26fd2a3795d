#include "server/config/rows.h"

namespace tiercel::config {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool EqualNames(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

bool HasControlBytes(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

std::string JoinWords(Words words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += QuoteWord(word);
  }
  return text;
}

Option Fixed(std::string_view name, std::string_view value, std::string_view help) {
  const std::string quoted = QuoteWord(value);
  Option option{.name = std::string(name),
                .syntax = quoted,
                .default_words = quoted,
                .allowed = quoted,
                .help = std::string(help)};
  option.set = [value = std::string(value), quoted](Words words, Settings*) -> Status {
    if (EqualNames(words[0], value)) return Ok();
    return Bad("argument(s) must be one of the following: " + quoted);
  };
  option.lines = [quoted](const Settings&) { return std::vector<std::string>{quoted}; };
  option.shown = [value = std::string(value)](const Settings&) { return value; };
  return option;
}

}  // namespace tiercel::config
