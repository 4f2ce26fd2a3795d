// The line is built and read word by word; nothing in it is optional and nothing is skipped, so that a line that
// parses is one that AppendReplica could have written (but for the number of leading hexadecimal zeros).
#include "protocol/resp/descriptor.h"

#include <algorithm>
#include <cstring>
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

// Writes behind a cursor into room that was made for the longest line: one growth of the string instead of twenty.
class LineWriter {
 public:
  explicit LineWriter(char* at) : at_(at) {}
  void Put(char c) { *at_++ = c; }
  void Put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  void Decimal(uint64_t value) {
    char digits[kMaxDigits];
    char* const end = digits + kMaxDigits;
    const char* begin = WriteDigitsBefore(end, value);
    Put(std::string_view(begin, static_cast<size_t>(end - begin)));
  }
  void Hex16(uint64_t value) {
    constexpr char kHex[] = "0123456789abcdef";
    for (int i = 15; i >= 0; --i, value >>= 4) at_[i] = kHex[value & 15];
    at_ += 16;
  }
  char* at() const { return at_; }

 private:
  char* at_;
};

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
  constexpr size_t kFixed = 8 + 1 + 16 + 1 + 2 * kMaxDigits + 8;  // all but the name and the extents, generously
  constexpr size_t kPerExtent = 2 * kMaxDigits + 2;
  const size_t before = out->size();
  const size_t room = kFixed + store.size() + std::max<size_t>(extents.size(), 1) * kPerExtent;
  out->resize_and_overwrite(before + room, [&](char* bytes, size_t) noexcept {
    LineWriter line(bytes + before);
    line.Put(TierName(tier));
    line.Put(' ');
    line.Put(store);
    line.Put('.');
    line.Hex16(incarnation.value);
    line.Put(' ');
    line.Decimal(place.segment);
    line.Put('.');
    line.Decimal(place.epoch);
    line.Put(' ');
    if (extents.empty()) line.Put("0+0");
    for (const Extent& extent : extents) {
      if (&extent != extents.begin()) line.Put(',');
      line.Decimal(extent.offset);
      line.Put('+');
      line.Decimal(extent.length);
    }
    line.Put(' ');
    if (grant == nullptr) line.Put('-');
    return static_cast<size_t>(line.at() - bytes);
  });
  if (grant != nullptr) AppendGrantText(*grant, out);
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
