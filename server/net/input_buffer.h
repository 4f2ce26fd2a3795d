// InputBuffer: bytes of one connection that were received and not yet consumed.
//
// While a turn runs they lie in the loop's shared buffer, which is warm in cache and costs an idle connection
// nothing; only what is left of a command at the turn's end moves into memory of the connection's own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "base/check.h"

namespace tiercel::net {

class InputBuffer {
 public:
  void BeginTurn(std::span<char> shared) {
    if (!empty()) return;
    own_.reset();
    base_ = shared.data();
    capacity_ = shared.size();
    begin_ = end_ = 0;
    shared_ = true;
  }
  void EndTurn() {
    if (!shared_) {
      if (empty()) Drop();
      return;
    }
    if (empty()) {
      Drop();
    } else {
      MoveToOwn(std::max<size_t>(kSmallest, size() * 2));
    }
  }

  // Where the next bytes may be received. REQUIRES: within a turn.
  std::span<char> Room() const { return {base_ + end_, capacity_ - end_}; }
  // Makes room when there is none: moves what is there to the front, or into twice the memory.
  void MakeRoom() {
    if (end_ < capacity_) return;
    if (begin_ > 0 && size() <= capacity_ / 2) {
      std::memmove(base_, base_ + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    } else {
      MoveToOwn(std::max<size_t>(kSmallest, capacity_ * 2));
    }
  }
  void Received(size_t n) {
    TIERCEL_CHECK(n <= capacity_ - end_);
    end_ += n;
  }
  void Append(std::string_view bytes) {
    while (Room().size() < bytes.size()) {
      if (end_ < capacity_) {
        MoveToOwn(std::max<size_t>(kSmallest, (size() + bytes.size()) * 2));
      } else {
        MakeRoom();
      }
    }
    std::memcpy(base_ + end_, bytes.data(), bytes.size());
    end_ += bytes.size();
  }

  std::span<const char> data() const { return {base_ + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  size_t own_bytes() const { return shared_ ? 0 : capacity_; }
  void Consume(size_t n) {
    TIERCEL_CHECK(n <= size());
    begin_ += n;
  }

 private:
  static constexpr size_t kSmallest = 4096;

  void Drop() {
    own_.reset();
    base_ = nullptr;
    capacity_ = begin_ = end_ = 0;
    shared_ = false;
  }
  void MoveToOwn(size_t capacity) {
    auto memory = std::make_unique_for_overwrite<char[]>(capacity);
    const size_t n = size();
    if (n > 0) std::memcpy(memory.get(), base_ + begin_, n);
    own_ = std::move(memory);
    base_ = own_.get();
    capacity_ = capacity;
    begin_ = 0;
    end_ = n;
    shared_ = false;
  }

  char* base_ = nullptr;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
  bool shared_ = false;
  std::unique_ptr<char[]> own_;
};

}  // namespace tiercel::net
