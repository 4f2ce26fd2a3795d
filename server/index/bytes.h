// Little readers and writers for the index's own files and values: varints in their shortest form only, fixed numbers
// little-endian, all reads checked against the end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tiercel::index {

inline void AppendFixed32(uint32_t value, std::string* out) {
  char bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, sizeof(bytes));
}
inline void AppendFixed64(uint64_t value, std::string* out) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, sizeof(bytes));
}
inline void AppendBig32(uint32_t value, std::string* out) {
  char bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (8 * (3 - i)));
  out->append(bytes, sizeof(bytes));
}
inline void AppendBig64(uint64_t value, std::string* out) {
  AppendBig32(static_cast<uint32_t>(value >> 32), out);
  AppendBig32(static_cast<uint32_t>(value), out);
}
inline void AppendVarint(uint64_t value, std::string* out) {
  char bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<char>(value);
  out->append(bytes, n);
}
inline void AppendBytes(std::string_view bytes, std::string* out) {
  AppendVarint(bytes.size(), out);
  out->append(bytes);
}
// Signed numbers with small ones short in either direction.
constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Reads from the front. After a failure all further reads fail too, so that callers check once.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

  uint8_t Byte() {
    if (!Need(1)) return 0;
    const auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  uint32_t Fixed32() { return static_cast<uint32_t>(Little(4)); }
  uint64_t Fixed64() { return Little(8); }
  uint32_t Big32() { return static_cast<uint32_t>(Big(4)); }
  uint64_t Big64() { return Big(8); }
  // At most `max`.
  uint64_t Varint(uint64_t max = UINT64_MAX) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = Byte();
      if (!ok_) return 0;
      const uint64_t bits = byte & 0x7f;
      // The tenth byte has room for one bit; a last byte of 0 makes a longer form of a shorter number.
      if ((shift == 63 && bits > 1) || (byte == 0 && shift > 0)) return Fail();
      value |= bits << shift;
      if ((byte & 0x80) == 0) break;
      if (shift == 63) return Fail();
    }
    return value <= max ? value : Fail();
  }
  std::string_view Bytes(uint64_t min, uint64_t max) {
    const uint64_t length = Varint(max);
    if (length < min || !Need(length)) {
      Fail();
      return {};
    }
    const std::string_view bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return bytes;
  }
  uint64_t Fail() {
    ok_ = false;
    rest_ = {};
    return 0;
  }

 private:
  bool Need(uint64_t n) {
    if (ok_ && rest_.size() >= n) return true;
    Fail();
    return false;
  }
  uint64_t Little(size_t n) {
    if (!Need(n)) return 0;
    uint64_t value = 0;
    for (size_t i = n; i > 0; --i) value = value << 8 | static_cast<uint8_t>(rest_[i - 1]);
    rest_.remove_prefix(n);
    return value;
  }
  uint64_t Big(size_t n) {
    if (!Need(n)) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < n; ++i) value = value << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(n);
    return value;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tiercel::index
