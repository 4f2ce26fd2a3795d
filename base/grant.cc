// Seals and text forms of grants and tickets.
//
// What a MAC covers is a fixed layout, little-endian, without gaps, so that no two grants serialise alike:
//   grant:  'G' | right 1 | key id 4 | user 8 | version 8 | store 8 | segment 4 | epoch 4 | expiry 8 | extents 4 |
//           (offset 8 | length 8) each
//   ticket: 'T' | key id 4 | user 8 | client 8 | expiry 8
// The first byte keeps one kind from passing as the other should they ever share a key.
#include "base/grant.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"

namespace tiercel {
namespace {

constexpr size_t kGrantFixedBytes = 1 + 1 + 4 + 8 + 8 + 8 + 4 + 4 + 8 + 4;
constexpr size_t kGrantMaxBytes = kGrantFixedBytes + size_t{kMaxExtents} * 16;
constexpr size_t kTicketBytes = 1 + 4 + 8 + 8 + 8;

class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}
  template <typename T>
  Writer& Put(T value) {
    std::memcpy(at_, &value, sizeof(value));  // little-endian, as every machine this is built for
    at_ += sizeof(value);
    return *this;
  }
  const std::byte* at() const { return at_; }

 private:
  std::byte* at_;
};

// REQUIRES: at most kMaxExtents extents.
Mac128 MacOf(const SipKey& key, const Grant& grant) {
  std::byte message[kGrantMaxBytes];
  Writer writer(message);
  writer.Put('G').Put(static_cast<char>(grant.right)).Put(grant.key_id).Put(grant.user).Put(grant.version.value);
  writer.Put(grant.store.value).Put(grant.place.segment).Put(grant.place.epoch).Put(grant.expiry_ms);
  writer.Put(grant.extents.size());
  for (const Extent& extent : grant.extents) writer.Put(extent.offset).Put(extent.length);
  const auto size = static_cast<size_t>(writer.at() - message);
  TIERCEL_CHECK(size == kGrantFixedBytes + size_t{grant.extents.size()} * 16);
  return SipHash24Mac(key, {message, size});
}

Mac128 MacOf(const SipKey& key, const Ticket& ticket) {
  std::byte message[kTicketBytes];
  Writer writer(message);
  writer.Put('T').Put(ticket.key_id).Put(ticket.user).Put(ticket.client).Put(ticket.expiry_ms);
  TIERCEL_CHECK(writer.at() == message + kTicketBytes);
  return SipHash24Mac(key, message);
}

constexpr char kDigits[] = "0123456789abcdef";

void AppendHex(uint64_t value, std::string* out) {
  char digits[16];
  size_t n = 0;
  do {
    digits[n++] = kDigits[value & 15];
    value >>= 4;
  } while (value != 0);
  std::reverse(digits, digits + n);
  out->append(digits, n);
}

void AppendMac(const Mac128& mac, std::string* out) {
  char digits[32];
  for (size_t i = 0; i < mac.size(); ++i) {
    digits[2 * i] = kDigits[static_cast<unsigned>(mac[i]) >> 4];
    digits[2 * i + 1] = kDigits[static_cast<unsigned>(mac[i]) & 15];
  }
  out->append(digits, sizeof(digits));
}

std::optional<unsigned> Digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

// Reads the text form field by field. One text per grant: no upper case, no leading zeros.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::string_view Field() {
    const size_t dot = rest_.find('.');
    const std::string_view field = rest_.substr(0, dot);
    ended_ = dot == std::string_view::npos;
    rest_ = ended_ ? std::string_view() : rest_.substr(dot + 1);
    return field;
  }

  template <typename T>
  void Hex(T* out, uint64_t largest) {
    const std::string_view field = Field();
    uint64_t value = 0;
    if (field.empty() || field.size() > 16 || (field.size() > 1 && field[0] == '0')) return Fail();
    for (const char c : field) {
      const std::optional<unsigned> digit = Digit(c);
      if (!digit) return Fail();
      value = value << 4 | *digit;
    }
    if (value > largest) return Fail();
    *out = static_cast<T>(value);
  }

  void Mac(Mac128* out) {
    const std::string_view field = Field();
    if (field.size() != 2 * out->size()) return Fail();
    for (size_t i = 0; i < out->size(); ++i) {
      const std::optional<unsigned> high = Digit(field[2 * i]), low = Digit(field[2 * i + 1]);
      if (!high || !low) return Fail();
      (*out)[i] = static_cast<std::byte>(*high << 4 | *low);
    }
  }

  void Fail() { good_ = false; }
  bool Finished() const { return good_ && ended_; }

 private:
  std::string_view rest_;
  bool ended_ = false;
  bool good_ = true;
};

}  // namespace

void Seal(const GrantKey& key, Grant* grant) {
  TIERCEL_CHECK(grant->extents.size() <= kMaxExtents);
  grant->key_id = key.id;
  grant->mac = MacOf(key.key, *grant);
}

void Seal(const GrantKey& key, Ticket* ticket) {
  ticket->key_id = key.id;
  ticket->mac = MacOf(key.key, *ticket);
}

bool MacIsRight(const GrantKey& key, const Grant& grant) {
  if (grant.key_id != key.id || grant.extents.size() > kMaxExtents) return false;
  return EqualConstantTime(MacOf(key.key, grant), grant.mac);
}

bool MacIsRight(const GrantKey& key, const Ticket& ticket) {
  if (ticket.key_id != key.id) return false;
  return EqualConstantTime(MacOf(key.key, ticket), ticket.mac);
}

void AppendGrantText(const Grant& grant, std::string* out) {
  AppendHex(grant.key_id, out);
  out->push_back('.');
  out->push_back(static_cast<char>(grant.right));
  for (const uint64_t field : {grant.user, grant.version.value, static_cast<uint64_t>(grant.expiry_ms)}) {
    out->push_back('.');
    AppendHex(field, out);
  }
  out->push_back('.');
  AppendMac(grant.mac, out);
}

std::string TicketText(const Ticket& ticket) {
  std::string text;
  AppendHex(ticket.key_id, &text);
  for (const uint64_t field : {ticket.user, ticket.client, static_cast<uint64_t>(ticket.expiry_ms)}) {
    text.push_back('.');
    AppendHex(field, &text);
  }
  text.push_back('.');
  AppendMac(ticket.mac, &text);
  return text;
}

std::optional<Grant> ParseGrantText(std::string_view text) {
  Grant grant;
  Reader reader(text);
  reader.Hex(&grant.key_id, UINT32_MAX);
  const std::string_view right = reader.Field();
  if (right != "R" && right != "W") return std::nullopt;
  grant.right = static_cast<Right>(right[0]);
  reader.Hex(&grant.user, UINT64_MAX);
  reader.Hex(&grant.version.value, UINT64_MAX);
  reader.Hex(&grant.expiry_ms, INT64_MAX);
  reader.Mac(&grant.mac);
  if (!reader.Finished()) return std::nullopt;
  return grant;
}

std::optional<Ticket> ParseTicketText(std::string_view text) {
  Ticket ticket;
  Reader reader(text);
  reader.Hex(&ticket.key_id, UINT32_MAX);
  reader.Hex(&ticket.user, UINT64_MAX);
  reader.Hex(&ticket.client, UINT64_MAX);
  reader.Hex(&ticket.expiry_ms, INT64_MAX);
  reader.Mac(&ticket.mac);
  if (!reader.Finished()) return std::nullopt;
  return ticket;
}

uint64_t UserId(std::string_view name) { return HashBytes(std::as_bytes(std::span(name))); }

bool CoversObjectRange(const Grant& grant, uint64_t offset, uint64_t length) {
  uint64_t total = 0;
  for (const Extent& extent : grant.extents) {
    if (__builtin_add_overflow(total, extent.length, &total)) return false;
  }
  return offset <= total && length <= total - offset;
}

}  // namespace tiercel
