// The bytes of one or more commands on their way to a socket. Large arguments are not copied: they are sent from the
// caller's memory, which must stay until everything is sent.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiercel::resp {

class Request {
 public:
  // `copy_all`: the arguments may go away after this call.
  void Add(std::span<const std::string_view> arguments, bool copy_all);

  // Fills in what is still to be sent, in order, as far as `pieces` reaches; returns how many were used.
  size_t Fill(std::span<iovec> pieces) const;
  void Advance(size_t bytes);
  size_t total_bytes() const { return total_; }
  size_t sent_bytes() const { return sent_; }
  size_t left_bytes() const { return total_ - sent_; }

 private:
  struct Large {
    size_t at;  // stands in front of text_[at]
    std::string_view bytes;
  };
  std::string text_;  // everything else
  std::vector<Large> large_;
  size_t total_ = 0;
  size_t sent_ = 0;
  // Where sent_ is: in front of large_[large_at_], or within it.
  size_t text_at_ = 0, large_at_ = 0, within_ = 0;
};

}  // namespace tiercel::resp
