// A star remembers where it stands; on a mismatch behind it, it takes one more byte and the rest is tried again.
// Only the last star is ever retried: what an earlier one could take instead, the last one can take as well.
#include "base/glob.h"

#include <utility>

namespace tiercel {
namespace {

unsigned char Lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c - 'A' + 'a') : c; }

class Matcher {
 public:
  Matcher(std::string_view pattern, bool ignore_case) : pattern_(pattern), ignore_case_(ignore_case) {}

  bool Match(std::string_view text) {
    // As in Redis, the empty text matches only the empty pattern.
    if (text.empty()) return pattern_.empty();
    size_t p = 0, t = 0, retry_text = 0;
    size_t retry_pattern = std::string_view::npos;  // behind the last star
    while (t < text.size()) {
      if (p < pattern_.size() && pattern_[p] == '*') {
        retry_pattern = ++p;
        retry_text = t;
        if (p == pattern_.size()) return true;
      } else if (p < pattern_.size() && MatchOne(&p, static_cast<unsigned char>(text[t]))) {
        ++t;
      } else if (retry_pattern != std::string_view::npos) {
        p = retry_pattern;
        t = ++retry_text;
      } else {
        return false;
      }
    }
    while (p < pattern_.size() && pattern_[p] == '*') ++p;
    return p == pattern_.size();
  }

 private:
  unsigned char At(size_t p) const { return static_cast<unsigned char>(pattern_[p]); }
  bool Same(unsigned char a, unsigned char b) const { return ignore_case_ ? Lower(a) == Lower(b) : a == b; }

  // One element that stands for one byte. Moves *p behind the element when it matches.
  bool MatchOne(size_t* p, unsigned char c) const {
    switch (At(*p)) {
      case '?': ++*p; return true;
      case '[': return MatchSet(p, c);
      case '\\':
        if (*p + 1 < pattern_.size()) {
          if (!Same(At(*p + 1), c)) return false;
          *p += 2;
          return true;
        }
        [[fallthrough]];
      default:
        if (!Same(At(*p), c)) return false;
        ++*p;
        return true;
    }
  }

  // [abc], [^abc], [a-z], ends of ranges in either order, \ escapes (and is then case-sensitive, as in Redis).
  // A set that is not closed ends with the pattern.
  bool MatchSet(size_t* p, unsigned char c) const {
    size_t at = *p + 1;
    const size_t end = pattern_.size();
    const bool negated = at < end && pattern_[at] == '^';
    if (negated) ++at;
    bool found = false;
    for (; at < end && pattern_[at] != ']'; ++at) {
      if (pattern_[at] == '\\' && at + 1 < end) {
        found |= At(++at) == c;
      } else if (at + 2 < end && pattern_[at + 1] == '-') {
        found |= InRange(At(at), At(at + 2), c);
        at += 2;
      } else {
        found |= Same(At(at), c);
      }
    }
    if (found == negated) return false;
    *p = at < end ? at + 1 : end;
    return true;
  }

  bool InRange(unsigned char first, unsigned char last, unsigned char c) const {
    if (first > last) std::swap(first, last);
    if (ignore_case_) {
      first = Lower(first);
      last = Lower(last);
      c = Lower(c);
    }
    return first <= c && c <= last;
  }

  const std::string_view pattern_;
  const bool ignore_case_;
};

}  // namespace

bool GlobMatch(std::string_view pattern, std::string_view text, bool ignore_case) {
  return Matcher(pattern, ignore_case).Match(text);
}

}  // namespace tiercel
