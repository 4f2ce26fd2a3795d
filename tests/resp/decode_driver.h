// A decoder's caller for tests: hands in a stream piece by piece, in a buffer that moves with every piece, and takes
// direct bulks as a session does. What it saw is plain strings, so that ways of cutting can be compared.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/resp/decoder.h"

namespace tiercel::resp {

struct Decoded {
  std::vector<std::vector<std::string>> commands;
  bool failed = false;
  std::string error;
  size_t left = 0;  // bytes handed in and not consumed, unless it failed
  bool operator==(const Decoded&) const = default;
};

class DecodeDriver {
 public:
  explicit DecodeDriver(const DecoderLimits& limits) : decoder_(limits) {}

  // False once the stream has failed.
  bool Feed(std::string_view piece) {
    if (seen_.failed) return false;
    Append(piece);
    while (Turn()) {
    }
    seen_.left = seen_.failed ? 0 : size_;
    return !seen_.failed;
  }

  const Decoded& seen() const { return seen_; }
  Decoder& decoder() { return decoder_; }
  // Wrong behaviour that cannot be told from the commands alone; empty when all was well.
  const std::string& complaint() const { return complaint_; }

 private:
  // A block of exactly the right size each time: a view kept into the old one is a use after free.
  void Append(std::string_view piece) {
    auto grown = std::make_unique<char[]>(size_ + piece.size());
    if (size_ > 0) std::memcpy(grown.get(), buffer_.get(), size_);
    if (!piece.empty()) std::memcpy(grown.get() + size_, piece.data(), piece.size());
    buffer_ = std::move(grown);
    size_ += piece.size();
  }

  void Drop(size_t bytes) {
    auto rest = std::make_unique<char[]>(size_ - bytes);
    if (size_ > bytes) std::memcpy(rest.get(), buffer_.get() + bytes, size_ - bytes);
    buffer_ = std::move(rest);
    size_ -= bytes;
  }

  bool Turn() {
    if (taking_) return TakeBulk();
    const Decoder::Step step = decoder_.Next({buffer_.get(), size_});
    if (step.consumed > size_) complaint_ = "consumed more than there was";
    switch (step.event) {
      case Decoder::Event::kNeedMore:
        if (decoder_.bytes_wanted() == 0) complaint_ = "wants no bytes";
        Drop(step.consumed);
        return false;
      case Decoder::Event::kError:
        seen_.failed = true;
        seen_.error = decoder_.error();
        return false;
      case Decoder::Event::kBulk:
        if (decoder_.arguments().size() != decoder_.bulk_index()) complaint_ = "wrong bulk index";
        if (!decoder_.in_command()) complaint_ = "a bulk outside a command";
        taking_ = true;
        Drop(step.consumed);
        return true;
      case Decoder::Event::kCommand: Collect(); break;
    }
    Drop(step.consumed);
    return true;
  }

  bool TakeBulk() {
    const uint64_t bytes = decoder_.bulk_bytes();
    if (size_ < bytes + 2) return false;
    bulks_.push_back({decoder_.bulk_index(), std::string(buffer_.get(), bytes)});
    if (std::string_view(buffer_.get() + bytes, 2) != "\r\n") {
      seen_.failed = true;
      seen_.error = "no CRLF behind a direct bulk";
      return false;
    }
    Drop(bytes + 2);
    decoder_.BulkTaken();
    taking_ = false;
    return true;
  }

  void Collect() {
    std::vector<std::string> command(decoder_.arguments().begin(), decoder_.arguments().end());
    if (command.empty()) complaint_ = "an empty command";
    for (const Bulk& bulk : bulks_) {
      if (!command.at(bulk.index).empty()) complaint_ = "a direct bulk is not empty";
      command[bulk.index] = bulk.bytes;
    }
    bulks_.clear();
    seen_.commands.push_back(std::move(command));
  }

  struct Bulk {
    size_t index;
    std::string bytes;
  };
  Decoder decoder_;
  std::unique_ptr<char[]> buffer_ = std::make_unique<char[]>(0);
  size_t size_ = 0;
  bool taking_ = false;
  std::vector<Bulk> bulks_;
  Decoded seen_;
  std::string complaint_;
};

inline Decoded DecodeWhole(std::string_view stream, const DecoderLimits& limits) {
  DecodeDriver driver(limits);
  driver.Feed(stream);
  return driver.seen();
}

}  // namespace tiercel::resp
