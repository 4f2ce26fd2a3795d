// Incremental decoder of what clients send: RESP arrays of bulk strings, and inline commands.
//
// Push: the caller owns a read buffer and hands in what it has; the decoder consumes whole commands in place
// (arguments are views into the buffer) and remembers how far it looked, so that a command arriving byte by
// byte is never parsed from its start again. The buffer may move or grow between calls: a command that is not
// whole yet is remembered as offsets. A bulk argument of at least `direct_bytes` is not buffered: the decoder
// stops behind its header (kBulk) and the caller takes the payload from the socket itself.
//
// What is decoded does not depend on how the bytes were cut. Limits before and after authentication, and the
// error texts, are those of Redis 7.0; stricter than Redis in one thing: CRLF behind a bulk string is checked.
// No call allocates once the vectors have grown, except for quoted inline commands and around direct bulks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel::resp {

struct DecoderLimits {
  uint64_t max_bulk_bytes = uint64_t{512} << 20;  // proto-max-bulk-len
  uint64_t max_arguments = 1024 * 1024;
  uint64_t max_inline_bytes = 64 * 1024;           // also of a header line
  uint64_t max_command_bytes = uint64_t{1} << 30;  // buffered part of one command: client-query-buffer-limit
  uint64_t direct_bytes = 32 * 1024;               // bulk arguments of this length and more are not buffered
  bool authenticated = true;                       // else at most 10 arguments of at most 16 KiB
};

class Decoder {
 public:
  enum class Event {
    kNeedMore,  // `consumed` bytes are done with; the rest must be handed in again, with more behind it
    kCommand,   // arguments() is a whole command, at least one argument
    kBulk,      // arguments() holds what came before; bulk_bytes() of payload and CRLF follow at `consumed`
    kError,     // error() is a protocol error: flush earlier replies, send it, close. Empty: close silently
  };
  struct Step {
    Event event = Event::kNeedMore;
    size_t consumed = 0;  // of this call's buffer; views stay valid while the buffer is, until the next call
  };

  explicit Decoder(const DecoderLimits& limits) : limits_(limits) {}

  // `buffer` begins with the first byte not yet consumed. After kError it answers kError for good.
  Step Next(std::span<const char> buffer);
  // After kBulk: the caller has taken payload and CRLF (checked by it). The argument counts as present but empty
  // in arguments(), at bulk_index(). The command's next arguments follow by Next; when it was the last one, Next
  // answers kCommand even with an empty buffer. Between kBulk and this call Next must not be called.
  void BulkTaken();

  const std::vector<std::string_view>& arguments() const { return arguments_; }
  size_t bulk_index() const { return bulk_index_; }  // may be 0: a command name of that size is still a bulk
  uint64_t bulk_bytes() const { return bulk_bytes_; }
  // Of the command that is under way (also at kBulk); 0 between commands and for inline ones.
  size_t arguments_announced() const { return announced_; }
  // Without "-" and CRLF: "ERR Protocol error: ...". Empty for a browser's POST or Host: line (a page that was
  // made to speak to this port): nothing may be answered then.
  const std::string& error() const { return error_; }
  bool in_command() const { return announced_ != 0; }
  // After kNeedMore: at least so many bytes must follow those handed in before anything can come of it.
  size_t bytes_wanted() const { return wanted_; }
  // Takes effect with the next header line: run AUTH before decoding what follows it.
  void set_limits(const DecoderLimits& limits) { limits_ = limits; }

 private:
  struct Range {
    size_t offset;
    size_t size;
  };
  enum class Line { kWhole, kPartial, kTooLong, kMalformed };
  enum class Begun { kNothing, kPartial, kFailed, kInline, kArray };

  Begun BeginArray(std::span<const char> buffer, size_t* start);
  Begun BeginInline(std::span<const char> buffer, size_t* start);
  bool SplitLine(std::string_view line);
  Line ReadLength(const char* line, const char* end, int64_t* value, const char** after);
  Step NextArguments(std::span<const char> buffer, size_t start);
  bool AcceptLength(int64_t length, size_t offset);
  Step Partial(const char* command, size_t start, const char* at, size_t wanted);
  Step Whole(size_t consumed);
  Step Direct(const char* command, uint64_t bytes, size_t consumed);
  void RestoreViews(const char* command);
  void ForgetCommand();
  Begun Fail(std::string_view what);
  Step Failed(std::string_view what);
  Step Silent();

  DecoderLimits limits_;
  std::vector<std::string_view> arguments_;
  std::vector<Range> ranges_;              // arguments_[stable_ ...] of a command that is not whole yet
  std::vector<std::string> inline_words_;  // words of an inline command with quotes
  std::deque<std::string> kept_;           // arguments that outlive their buffer (around a direct bulk)
  size_t stable_ = 0;                      // so many of arguments_ do not point into the buffer
  uint64_t kept_bytes_ = 0;
  size_t announced_ = 0;
  size_t bulk_index_ = 0;
  uint64_t bulk_bytes_ = 0;
  // Offsets from the first byte not consumed:
  size_t position_ = 0;  // next byte of the command to parse
  size_t scanned_ = 0;   // no line end before this one
  int64_t length_ = -1;  // of the argument whose header has been read, or -1
  size_t wanted_ = 1;
  bool taking_bulk_ = false;
  bool failed_ = false;
  std::string error_;
};

}  // namespace tiercel::resp
