// Incremental decoder of what clients send: RESP arrays of bulk strings, and inline commands.
//
// Push: the caller owns a read buffer and hands in what it has; the decoder consumes whole commands in place
// (arguments are views into the buffer) and remembers how far it looked, so that a command arriving byte by
// byte is never parsed from its start again. A bulk argument of at least `direct_bytes` is not buffered: the
// decoder stops behind its header (kBulk) and the caller takes the payload from the socket itself.
//
// Limits before and after authentication, and the error texts, are those of Redis 7.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel::resp {

struct DecoderLimits {
  uint64_t max_bulk_bytes = uint64_t{512} << 20;  // proto-max-bulk-len
  uint64_t max_arguments = 1024 * 1024;
  uint64_t max_inline_bytes = 64 * 1024;
  uint64_t direct_bytes = 32 * 1024;  // bulk arguments of this length and more are not buffered
  bool authenticated = true;          // else at most 10 arguments of at most 16 KiB
};

class Decoder {
 public:
  enum class Event {
    kNeedMore,  // `consumed` bytes are done with; the rest must be handed in again, with more behind it
    kCommand,   // arguments() is a whole command
    kBulk,      // arguments() holds what came before; bulk_bytes() of payload and CRLF follow at `consumed`
    kError,     // error() is a protocol error: flush earlier replies, send it, close
  };
  struct Step {
    Event event = Event::kNeedMore;
    size_t consumed = 0;  // of this call's buffer; views stay valid while the buffer is
  };

  explicit Decoder(const DecoderLimits& limits) : limits_(limits) {}

  // `buffer` begins with the first byte not yet consumed.
  Step Next(std::span<const char> buffer);
  // After kBulk: the caller has taken payload and CRLF (checked by it). The argument counts as present but empty
  // in arguments(), at bulk_index(). The command's next arguments follow by Next.
  void BulkTaken();

  const std::vector<std::string_view>& arguments() const { return arguments_; }
  size_t bulk_index() const { return bulk_index_; }
  uint64_t bulk_bytes() const { return bulk_bytes_; }
  size_t arguments_announced() const { return announced_; }
  // Without "-" and CRLF: "ERR Protocol error: ..."
  const std::string& error() const { return error_; }
  bool in_command() const { return announced_ != 0; }
  void set_limits(const DecoderLimits& limits) { limits_ = limits; }

 private:
  DecoderLimits limits_;
  std::vector<std::string_view> arguments_;
  std::vector<std::string> inline_words_;  // words of an inline command
  std::vector<std::string> kept_;          // arguments that outlive their buffer (around a direct bulk)
  size_t announced_ = 0;
  size_t bulk_index_ = 0;
  uint64_t bulk_bytes_ = 0;
  size_t scanned_ = 0;
  std::string error_;
  // The decoder's author adds private state here as needed.
};

}  // namespace tiercel::resp
