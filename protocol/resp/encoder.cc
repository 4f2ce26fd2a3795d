// Header lines are built backwards in a few bytes on the stack and appended in one piece. A bulk string makes room
// for header, payload and CRLF at once: growing a std::string three times is what a naive encoder spends its time on.
#include "protocol/resp/encoder.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "protocol/resp/number_text.h"

namespace tiercel::resp {
namespace {

constexpr size_t kMaxHeader = 1 + 1 + kMaxDigits + 2;  // type, sign, digits, CRLF

// A header line, ending at `end`.
struct HeaderText {
  char bytes[kMaxHeader];
  const char* begin;

  HeaderText(char type, uint64_t value, bool negative = false) {
    char* const end = bytes + kMaxHeader;
    end[-2] = '\r';
    end[-1] = '\n';
    char* at = WriteDigitsBefore(end - 2, value);
    if (negative) *--at = '-';
    *--at = type;
    begin = at;
  }
  size_t size() const { return static_cast<size_t>(bytes + kMaxHeader - begin); }
};

// Makes room for `bytes` more, uninitialised, and returns where they go. (The size is captured because libstdc++ 12
// hands the new capacity to the operation when it has to grow.)
char* Grow(std::string* out, size_t bytes) {
  const size_t before = out->size();
  const size_t after = before + bytes;
  out->resize_and_overwrite(after, [after](char*, size_t) noexcept { return after; });
  return out->data() + before;
}

char* Put(char* at, std::string_view text) {
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

void AppendBulk(std::string_view header, std::string_view prefix, std::string_view bytes, std::string* out) {
  char* at = Grow(out, header.size() + prefix.size() + bytes.size() + 2);
  at = Put(at, header);
  at = Put(at, prefix);
  at = Put(at, bytes);
  at[0] = '\r';
  at[1] = '\n';
}

void AppendCleaned(std::string_view text, std::string* out) {
  char* at = Grow(out, text.size());
  for (char c : text) *at++ = (c == '\r' || c == '\n') ? ' ' : c;
}

// As Redis prints doubles: shortest form that reads back the same; inf, -inf, nan by name.
std::string_view DoubleText(double value, char (&buffer)[32]) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return {buffer, error == std::errc() ? static_cast<size_t>(end - buffer) : 0};
}

}  // namespace

void Encoder::Header(char type, uint64_t value) {
  const HeaderText header(type, value);
  out_->append(header.begin, header.size());
}

void Encoder::Simple(std::string_view text) {
  if (text == "OK") {  // by far the most frequent
    out_->append("+OK\r\n", 5);
    return;
  }
  AppendBulk("+", {}, text, out_);
}

void Encoder::Error(const tiercel::Error& error) {
  out_->push_back('-');
  out_->append(error.word());
  out_->push_back(' ');
  AppendCleaned(error.message(), out_);
  out_->append("\r\n", 2);
}

void Encoder::ErrorLine(std::string_view line) {
  out_->push_back('-');
  AppendCleaned(line, out_);
  out_->append("\r\n", 2);
}

void Encoder::Integer(int64_t value) {
  if (value >= 0 && value < 10) {
    const char text[4] = {':', static_cast<char>('0' + value), '\r', '\n'};
    out_->append(text, 4);
    return;
  }
  const bool negative = value < 0;
  const auto magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const HeaderText header(':', magnitude, negative);
  out_->append(header.begin, header.size());
}

void Encoder::Bulk(std::string_view bytes) {
  const HeaderText header('$', bytes.size());
  AppendBulk({header.begin, header.size()}, {}, bytes, out_);
}

void Encoder::BulkHeader(uint64_t bytes) { Header('$', bytes); }

void Encoder::Null() {
  if (protocol_ >= 3) {
    out_->append("_\r\n", 3);
  } else {
    out_->append("$-1\r\n", 5);
  }
}

void Encoder::NullArray() {
  if (protocol_ >= 3) {
    out_->append("_\r\n", 3);
  } else {
    out_->append("*-1\r\n", 5);
  }
}

void Encoder::Array(size_t count) { Header('*', count); }

void Encoder::Map(size_t pairs) {
  if (protocol_ >= 3) {
    Header('%', pairs);
  } else {
    Header('*', pairs * 2);
  }
}

void Encoder::Set(size_t count) { Header(protocol_ >= 3 ? '~' : '*', count); }

void Encoder::Push(size_t count) { Header(protocol_ >= 3 ? '>' : '*', count); }

void Encoder::Double(double value) {
  char buffer[32];
  const std::string_view text = DoubleText(value, buffer);
  if (protocol_ < 3) {
    Bulk(text);
  } else {
    AppendBulk(",", {}, text, out_);
  }
}

void Encoder::Boolean(bool value) {
  if (protocol_ >= 3) {
    out_->append(value ? "#t\r\n" : "#f\r\n", 4);
  } else {
    Integer(value ? 1 : 0);
  }
}

void Encoder::Verbatim(std::string_view text) {
  if (protocol_ < 3) {
    Bulk(text);
    return;
  }
  const HeaderText header('=', text.size() + 4);
  AppendBulk({header.begin, header.size()}, "txt:", text, out_);
}

void Encoder::BigNumber(std::string_view digits) {
  if (protocol_ < 3) {
    Bulk(digits);
  } else {
    AppendBulk("(", {}, digits, out_);
  }
}

void AppendCommandHeader(size_t arguments, std::string* out) {
  const HeaderText header('*', arguments);
  out->append(header.begin, header.size());
}

void AppendArgument(std::string_view argument, std::string* out) {
  const HeaderText header('$', argument.size());
  AppendBulk({header.begin, header.size()}, {}, argument, out);
}

void AppendArgumentHeader(uint64_t bytes, std::string* out) {
  const HeaderText header('$', bytes);
  out->append(header.begin, header.size());
}

}  // namespace tiercel::resp
