#include "protocol/resp/conn/request.h"

#include <algorithm>

#include "base/check.h"
#include "protocol/resp/encoder.h"

namespace tiercel::resp {
namespace {

// Below this, copying costs less than one more piece for the kernel to gather.
constexpr size_t kLargeBytes = 8 * 1024;
constexpr size_t kHeaderBytes = 16;  // a guess for one argument's header and CRLF, to allocate once

}  // namespace

void Request::Add(std::span<const std::string_view> arguments, bool copy_all) {
  const auto by_reference = [&](std::string_view argument) { return !copy_all && argument.size() >= kLargeBytes; };
  size_t small = kHeaderBytes;
  for (std::string_view argument : arguments) small += kHeaderBytes + (by_reference(argument) ? 0 : argument.size());
  if (text_.empty()) text_.reserve(small);

  const size_t before = text_.size();
  AppendCommandHeader(arguments.size(), &text_);
  for (std::string_view argument : arguments) {
    if (by_reference(argument)) {
      AppendArgumentHeader(argument.size(), &text_);
      large_.push_back({text_.size(), argument});
      total_ += argument.size();
      text_.append("\r\n", 2);
    } else {
      AppendArgument(argument, &text_);
    }
  }
  total_ += text_.size() - before;
}

size_t Request::Fill(std::span<iovec> pieces) const {
  size_t used = 0;
  const auto put = [&](const char* data, size_t size) {
    if (size > 0 && used < pieces.size()) pieces[used++] = {const_cast<char*>(data), size};
  };
  size_t text = text_at_;
  size_t within = within_;
  for (size_t i = large_at_; i < large_.size() && used < pieces.size(); ++i) {
    put(text_.data() + text, large_[i].at - text);
    text = large_[i].at;
    put(large_[i].bytes.data() + within, large_[i].bytes.size() - within);
    within = 0;
  }
  put(text_.data() + text, text_.size() - text);
  return used;
}

void Request::Advance(size_t bytes) {
  TIERCEL_CHECK(bytes <= left_bytes());
  sent_ += bytes;
  while (bytes > 0) {
    const size_t text_end = large_at_ < large_.size() ? large_[large_at_].at : text_.size();
    const size_t text = std::min(bytes, text_end - text_at_);
    text_at_ += text;
    bytes -= text;
    if (large_at_ == large_.size() || text_at_ < text_end) continue;
    const size_t large = std::min(bytes, large_[large_at_].bytes.size() - within_);
    within_ += large;
    bytes -= large;
    if (within_ == large_[large_at_].bytes.size()) {
      ++large_at_;
      within_ = 0;
    }
  }
}

}  // namespace tiercel::resp
