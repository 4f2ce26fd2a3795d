// The line is built and read word by word; nothing in it is optional and nothing is skipped, so that a line that
// parses is one that AppendReplica could have written (but for the number of leading hexadecimal zeros).
#include "protocol/resp/descriptor.h"

#include <limits>
#include <optional>

#include "base/units.h"
#include "protocol/resp/number_text.h"

namespace tiercel::resp {
namespace {

constexpr size_t kMaxStoreName = 255;

Error Bad(std::string_view what, std::string_view text) {
  constexpr size_t kShown = 64;
  std::string shown(text.substr(0, kShown));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return {ErrorCode::kPeerProtocol, "bad " + std::string(what) + " '" + shown + "' in a replica's description"};
}

void AppendDecimal(uint64_t value, std::string* out) {
  char digits[kMaxDigits];
  char* const end = digits + kMaxDigits;
  const char* begin = WriteDigitsBefore(end, value);
  out->append(begin, static_cast<size_t>(end - begin));
}

void AppendHex16(uint64_t value, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  char digits[16];
  for (int i = 15; i >= 0; --i, value >>= 4) digits[i] = kHex[value & 15];
  out->append(digits, sizeof(digits));
}

// Up to the next single space, which is taken as well; the last word ends with the line.
std::string_view TakeWord(std::string_view* line) {
  const size_t space = line->find(' ');
  const std::string_view word = line->substr(0, space);
  *line = space == std::string_view::npos ? std::string_view() : line->substr(space + 1);
  return word;
}

std::optional<Tier> ParseTier(std::string_view word) {
  for (int i = 0; i < kTierCount; ++i) {
    if (TierName(static_cast<Tier>(i)) == word) return static_cast<Tier>(i);
  }
  return std::nullopt;
}

bool IsStoreName(std::string_view name) {
  if (name.empty() || name.size() > kMaxStoreName) return false;
  for (char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte >= 0x7f) return false;
  }
  return true;
}

std::optional<uint32_t> ParseUint32(std::string_view text) {
  const std::optional<uint64_t> value = ParseUint64(text);
  if (!value || *value > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(*value);
}

}  // namespace

void AppendReplica(Tier tier, std::string_view store, Incarnation incarnation, SegmentRef place,
                   const ExtentList& extents, const Grant* grant, std::string* out) {
  out->append(TierName(tier)).push_back(' ');
  out->append(store).push_back('.');
  AppendHex16(incarnation.value, out);
  out->push_back(' ');
  AppendDecimal(place.segment, out);
  out->push_back('.');
  AppendDecimal(place.epoch, out);
  out->push_back(' ');
  if (extents.empty()) out->append("0+0");
  for (const Extent& extent : extents) {
    if (&extent != extents.begin()) out->push_back(',');
    AppendDecimal(extent.offset, out);
    out->push_back('+');
    AppendDecimal(extent.length, out);
  }
  out->push_back(' ');
  if (grant == nullptr) {
    out->push_back('-');
  } else {
    AppendGrantText(*grant, out);
  }
}

Result<std::pair<std::string, Incarnation>> ParseStoreRef(std::string_view text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || !IsStoreName(text.substr(0, dot))) return Bad("store", text);
  const std::optional<uint64_t> incarnation = ParseHex64(text.substr(dot + 1));
  if (!incarnation || *incarnation == 0) return Bad("incarnation", text);
  return std::pair{std::string(text.substr(0, dot)), Incarnation{*incarnation}};
}

Result<SegmentRef> ParseSegmentRef(std::string_view text) {
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return Bad("segment", text);
  const std::optional<uint32_t> segment = ParseUint32(text.substr(0, dot));
  const std::optional<uint32_t> epoch = ParseUint32(text.substr(dot + 1));
  if (!segment || !epoch) return Bad("segment", text);
  return SegmentRef{*segment, *epoch};
}

Result<ExtentList> ParseExtents(std::string_view text) {
  ExtentList extents;
  if (text == "0+0") return extents;
  uint64_t total = 0;
  std::string_view rest = text;
  while (true) {
    if (extents.size() == kMaxExtents) return Bad("extent list (too long)", text);
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    const size_t plus = one.find('+');
    if (plus == std::string_view::npos) return Bad("extent", one);
    const std::optional<uint64_t> offset = ParseUint64(one.substr(0, plus));
    const std::optional<uint64_t> length = ParseUint64(one.substr(plus + 1));
    uint64_t end = 0;
    if (!offset || !length || *length == 0 || __builtin_add_overflow(*offset, *length, &end) ||
        __builtin_add_overflow(total, *length, &total)) {
      return Bad("extent", one);
    }
    extents.push_back({*offset, *length});
    if (comma == std::string_view::npos) return extents;
    rest = rest.substr(comma + 1);
  }
}

Result<ReplicaDescriptor> ParseReplica(std::string_view line) {
  ReplicaDescriptor replica;
  std::string_view rest = line;
  const std::string_view tier_word = TakeWord(&rest);
  const std::optional<Tier> tier = ParseTier(tier_word);
  if (!tier) return Bad("tier", tier_word);
  replica.tier = *tier;
  TIERCEL_ASSIGN(auto store, ParseStoreRef(TakeWord(&rest)));
  replica.store = std::move(store.first);
  replica.incarnation = store.second;
  TIERCEL_ASSIGN(replica.place, ParseSegmentRef(TakeWord(&rest)));
  TIERCEL_ASSIGN(replica.extents, ParseExtents(TakeWord(&rest)));
  if (rest == "-") return replica;
  const std::optional<Grant> grant = ParseGrantText(rest);
  if (!grant) return Bad("grant", "...");  // it may be a good one's secret with a typing error
  replica.has_grant = true;
  replica.grant = *grant;
  replica.grant.store = replica.incarnation;
  replica.grant.place = replica.place;
  replica.grant.extents = replica.extents;
  return replica;
}

}  // namespace tiercel::resp
