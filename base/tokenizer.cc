// The rules are those of Redis's configuration files and inline commands, corner cases included: a quoted part
// may start in the middle of a word (a"b c" is one word), an unquoted backslash is itself, a NUL ends the line.
#include "base/tokenizer.h"

#include <fmt/format.h>

namespace tiercel {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
// White space that ends an unquoted word. Vertical tab and form feed only count between words.
bool EndsWord(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char Unescape(char c) {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

// Cursor over the line. Each reader starts behind the opening quote and returns false on unbalanced quotes.
class Reader {
 public:
  explicit Reader(std::string_view line) : line_(line.substr(0, line.find('\0'))) {}

  bool AtEnd() {
    while (at_ < line_.size() && IsSpace(line_[at_])) ++at_;
    return at_ == line_.size();
  }

  bool ReadWord(std::string* word) {
    while (at_ < line_.size() && !EndsWord(line_[at_])) {
      const char c = line_[at_++];
      if (c == '"') return ReadDoubleQuoted(word);
      if (c == '\'') return ReadSingleQuoted(word);
      word->push_back(c);
    }
    return true;
  }

 private:
  bool ReadDoubleQuoted(std::string* word) {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == '"') return ClosedWell();
      if (c != '\\' || at_ == line_.size()) {
        word->push_back(c);
      } else if (line_[at_] == 'x' && at_ + 2 < line_.size() && HexDigit(line_[at_ + 1]) >= 0 &&
                 HexDigit(line_[at_ + 2]) >= 0) {
        word->push_back(static_cast<char>(HexDigit(line_[at_ + 1]) * 16 + HexDigit(line_[at_ + 2])));
        at_ += 3;
      } else {
        word->push_back(Unescape(line_[at_++]));
      }
    }
    return false;
  }

  bool ReadSingleQuoted(std::string* word) {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == '\'') return ClosedWell();
      if (c == '\\' && at_ < line_.size() && line_[at_] == '\'') {
        word->push_back('\'');
        ++at_;
      } else {
        word->push_back(c);
      }
    }
    return false;
  }

  bool ClosedWell() const { return at_ == line_.size() || IsSpace(line_[at_]); }

  std::string_view line_;
  size_t at_ = 0;
};

bool IsPlain(std::string_view word) {
  if (word.empty()) return false;
  for (char c : word) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f || c == '"' || c == '\'') return false;
  }
  return true;
}

std::string DoubleQuoted(std::string_view word) {
  std::string out = "\"";
  for (char c : word) {
    switch (c) {
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      case '\b': out += "\\b"; break;
      case '\a': out += "\\a"; break;
      case '"':
      case '\\':
        out += '\\';
        out += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
  return out;
}

}  // namespace

Result<std::vector<std::string>> Tokenize(std::string_view line) {
  std::vector<std::string> words;
  Reader reader(line);
  while (!reader.AtEnd()) {
    if (!reader.ReadWord(&words.emplace_back())) {
      return Error(ErrorCode::kSyntax, "unbalanced quotes in request");
    }
  }
  return words;
}

std::string QuoteWord(std::string_view word) {
  if (IsPlain(word)) return std::string(word);
  std::string quoted = DoubleQuoted(word);
  // Single quotes know no escape but \', so they cannot hold control bytes or a backslash at the end.
  size_t single = 2;
  for (char c : word) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return quoted;
    single += c == '\'' ? 2 : 1;
  }
  if (single >= quoted.size() || word.ends_with('\\')) return quoted;
  std::string out = "'";
  for (char c : word) {
    if (c == '\'') out += '\\';
    out += c;
  }
  out += '\'';
  return out;
}

}  // namespace tiercel
