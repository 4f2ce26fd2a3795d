// A bar on standard error while many bytes move; nothing at all when that is not a terminal.
#pragma once

#include <cstdint>

namespace tiercel::cli {

class Progress {
 public:
  Progress(bool wanted, uint64_t total_bytes);
  ~Progress();  // removes the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(uint64_t bytes);

 private:
  void Draw(int64_t now_ns);

  const bool shown_;
  const uint64_t total_;
  const int64_t start_ns_;
  uint64_t done_ = 0;
  int64_t drawn_ns_ = 0;
};

}  // namespace tiercel::cli
