#include "server/net/option_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace tiercel::net {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// What a client sent, as far as an error may repeat it.
std::string_view Shown(std::string_view text) { return text.substr(0, 64); }

Error Invalid(std::string message) { return Error(ErrorCode::kInvalid, std::move(message)); }

}  // namespace

bool SameWord(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

Result<int64_t> ReadInteger(std::string_view argument, std::string_view text, int64_t least, int64_t most) {
  const std::optional<int64_t> value = ParseInt64(text);
  if (!value || *value < least || *value > most) {
    return Invalid(fmt::format("{} is '{}', allowed are {} to {}", argument, Shown(text), least, most));
  }
  return *value;
}

Result<uint64_t> ReadValueSize(std::string_view text) {
  const std::optional<uint64_t> size = ParseUint64(text);
  if (!size) return Invalid(fmt::format("size is '{}', allowed are 0 to {}", Shown(text), kMaxValueBytes));
  if (*size > kMaxValueBytes) {
    return Error(ErrorCode::kTooBig, fmt::format("size is {} bytes, the limit is {}", *size, kMaxValueBytes));
  }
  return *size;
}

Result<Version> ReadVersion(std::string_view argument, std::string_view text) {
  const std::optional<uint64_t> value = ParseUint64(text);
  if (!value || *value == 0 || *value > INT64_MAX) {
    return Invalid(fmt::format("{} is '{}', allowed are 1 to {}", argument, Shown(text), INT64_MAX));
  }
  return Version{*value};
}

Result<uint64_t> ReadSum(std::string_view text) {
  const std::optional<uint64_t> sum = text.size() == 16 ? ParseHex64(text) : std::nullopt;
  if (!sum) return Invalid(fmt::format("sum is '{}', it has 16 hexadecimal digits", Shown(text)));
  return *sum;
}

Result<Incarnation> ReadIncarnation(std::string_view text) {
  const std::optional<uint64_t> value = ParseHex64(text);
  if (!value || *value == 0) {
    return Invalid(fmt::format("incarnation is '{}', it has 1 to 16 hexadecimal digits and is not 0", Shown(text)));
  }
  return Incarnation{*value};
}

Result<Tier> ReadTier(std::string_view argument, std::string_view text) {
  for (const Tier tier : {Tier::kDram, Tier::kSsd, Tier::kDfs}) {
    if (SameWord(text, TierName(tier))) return tier;
  }
  return Invalid(fmt::format("{} is '{}', allowed are dram, ssd and dfs", argument, Shown(text)));
}

Result<std::string_view> ReadName(std::string_view argument, std::string_view text, size_t most) {
  const bool printable = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text.empty() || text.size() > most || !printable) {
    return Invalid(
        fmt::format("{} has {} bytes, allowed are 1 to {} printable ones without spaces", argument, text.size(), most));
  }
  return text;
}

Status CheckKey(std::string_view argument, std::string_view key) {
  if (key.empty()) return Invalid(fmt::format("{} is empty, allowed are 1 to {} bytes", argument, kMaxKeyBytes));
  if (key.size() > kMaxKeyBytes) {
    return Error(ErrorCode::kTooBig,
                 fmt::format("{} has {} bytes, the limit is {}", argument, key.size(), kMaxKeyBytes));
  }
  return Ok();
}

bool OptionReader::Next() {
  if (next_ >= args_.size()) return false;
  option_ = args_[next_++];
  return true;
}

Result<std::string_view> OptionReader::Text() {
  if (next_ >= args_.size()) {
    return Error(ErrorCode::kSyntax, fmt::format("syntax error: {} needs a value", Shown(option_)));
  }
  return args_[next_++];
}

Result<int64_t> OptionReader::Integer(int64_t least, int64_t most) {
  const std::string_view option = option_;
  TIERCEL_ASSIGN(const std::string_view text, Text());
  return ReadInteger(Shown(option), text, least, most);
}

Result<Tier> OptionReader::TierName() {
  const std::string_view option = option_;
  TIERCEL_ASSIGN(const std::string_view text, Text());
  return ReadTier(Shown(option), text);
}

Error OptionReader::Unknown() const {
  return Error(ErrorCode::kSyntax, fmt::format("syntax error at '{}'", Shown(option_)));
}

std::span<const std::string_view> OptionReader::Take(size_t count) {
  TIERCEL_CHECK(count <= left());
  const auto words = args_.subspan(next_, count);
  next_ += count;
  return words;
}

}  // namespace tiercel::net
