// Writes replies in RESP2 or RESP3 into a growing byte buffer.
//
// Maps are maps in RESP3 and flat arrays in RESP2; null is $-1 (or *-1 for arrays) in RESP2 and _ in RESP3.
// Every call appends once and formats no string on the way, so that a pipelined batch costs little more than
// copying its bytes. An encoder is two words: make one where it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tiercel/error.h"

namespace tiercel::resp {

class Encoder {
 public:
  // Appends to `out`; protocol is 2 or 3.
  Encoder(std::string* out, int protocol) : out_(out), protocol_(protocol) {}

  void Simple(std::string_view text);       // +OK; text without CR and LF
  void Error(const tiercel::Error& error);  // -WORD message; CR and LF become spaces
  void ErrorLine(std::string_view line);    // whole line as given, cleaned likewise
  void Integer(int64_t value);
  void Bulk(std::string_view bytes);
  void BulkHeader(uint64_t bytes);  // the caller sends payload and CRLF
  void Null();
  void NullArray();
  void Array(size_t count);
  void Map(size_t pairs);
  void Set(size_t count);
  void Push(size_t count);
  void Double(double value);
  void Boolean(bool value);
  void Verbatim(std::string_view text);  // =N:txt:... in RESP3, bulk in RESP2
  void BigNumber(std::string_view digits);

  void Raw(std::string_view bytes) { out_->append(bytes); }  // already encoded

  int protocol() const { return protocol_; }
  std::string* out() { return out_; }

 private:
  void Header(char type, uint64_t value);

  std::string* out_;
  int protocol_;
};

// Appends one command as a client sends it: an array of bulk strings.
void AppendCommandHeader(size_t arguments, std::string* out);
void AppendArgument(std::string_view argument, std::string* out);
// Only "$N\r\n": the argument's bytes and CRLF go another way.
void AppendArgumentHeader(uint64_t bytes, std::string* out);

}  // namespace tiercel::resp
