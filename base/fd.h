// Ownership of file descriptors and mappings.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "tiercel/result.h"

namespace tiercel {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { Reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();
  Result<UniqueFd> Duplicate() const;

 private:
  int fd_ = -1;
};

// A mapping of memory, unmapped by its destructor.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, size_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data(), size_}; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The error of a failed system call: kNoMemory for ENOMEM, kUnreachable for network errors, else kIo; the
// message is "WHAT: strerror".
Error SystemError(std::string_view what, int error_number);

}  // namespace tiercel
