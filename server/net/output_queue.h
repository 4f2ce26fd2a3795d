// OutputQueue: encoded replies of one connection, in order, and which of them must wait for the journal.
//
// A tag covers the bytes of one reply whose records are not durable yet. Replies leave in order, so nothing behind
// the first tag leaves either. When a command was undone its reply is replaced by an error.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/core/types.h"

namespace tiercel::net {

class OutputQueue {
 public:
  std::string& bytes() { return bytes_; }
  size_t size() const { return bytes_.size(); }
  size_t unsent() const { return bytes_.size() - sent_; }
  bool empty() const { return sent_ == bytes_.size(); }
  bool waiting() const { return !tags_.empty(); }

  // What may leave now.
  std::string_view Sendable() const {
    const size_t end = tags_.empty() ? bytes_.size() : tags_.front().begin;
    return std::string_view(bytes_).substr(sent_, end - sent_);
  }
  void Sent(size_t n) {
    sent_ += n;
    TIERCEL_CHECK(sent_ <= bytes_.size());
    if (sent_ == bytes_.size() && tags_.empty()) {
      bytes_.clear();
      sent_ = 0;
      if (bytes_.capacity() > kKept) std::string().swap(bytes_);
    } else if (sent_ >= kCompact) {
      bytes_.erase(0, sent_);
      for (Tag& tag : tags_) tag.begin -= sent_, tag.end -= sent_;
      sent_ = 0;
    }
  }
  // Forgets the bytes from `start` on, and what they wait for: a reply that must not be sent.
  void Mute(size_t start) {
    bytes_.resize(start);
    if (!tags_.empty() && tags_.back().begin >= start) tags_.pop_back();
  }

  // The bytes from `begin` on are a reply (or, unless `whole`, a part of one) that waits for `wait`.
  void Hold(size_t begin, core::Seq wait, bool whole) { tags_.push_back({begin, bytes_.size(), wait, whole}); }

  enum class Released {
    kFine,
    kLastUndone,  // the last reply was undone: a payload that follows it must not start
    kBroken,      // a part of a reply was undone: the connection is of no use any more
  };
  // Takes off the tags that wait no longer. `undone` says of a position whether its command was undone.
  template <typename Undone>
  Released Release(core::Seq durable, const Undone& undone, std::string_view error_line) {
    Released result = Released::kFine;
    while (!tags_.empty()) {
      const Tag tag = tags_.front();
      const bool was_undone = undone(tag.wait);
      if (!was_undone && tag.wait > durable) break;
      tags_.pop_front();
      if (!was_undone) continue;
      if (!tag.whole) return Released::kBroken;
      if (tag.end == bytes_.size()) result = Released::kLastUndone;
      Replace(tag, error_line);
    }
    return result;
  }

 private:
  struct Tag {
    size_t begin, end;
    core::Seq wait;
    bool whole;
  };
  static constexpr size_t kKept = 16 * 1024;     // capacity that an idle connection keeps
  static constexpr size_t kCompact = 64 * 1024;  // sent bytes in front that are worth moving the rest for

  void Replace(const Tag& tag, std::string_view line) {
    bytes_.replace(tag.begin, tag.end - tag.begin, line);
    const auto shift = static_cast<ptrdiff_t>(line.size()) - static_cast<ptrdiff_t>(tag.end - tag.begin);
    for (Tag& later : tags_) {
      later.begin = static_cast<size_t>(static_cast<ptrdiff_t>(later.begin) + shift);
      later.end = static_cast<size_t>(static_cast<ptrdiff_t>(later.end) + shift);
    }
  }

  std::string bytes_;
  size_t sent_ = 0;
  std::deque<Tag> tags_;
};

}  // namespace tiercel::net
