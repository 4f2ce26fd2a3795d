#include "tools/tiercel/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "base/units.h"

namespace tiercel::cli {
namespace {
constexpr int kWidth = 30;
constexpr int64_t kRedrawNs = 100'000'000;
}  // namespace

Progress::Progress(bool wanted, uint64_t total_bytes)
    : shown_(wanted && isatty(STDERR_FILENO) != 0), total_(total_bytes), start_ns_(MonotonicNanos()) {}

Progress::~Progress() {
  if (drawn_ns_ != 0) fmt::print(stderr, "\r\x1b[K");
}

void Progress::Add(uint64_t bytes) {
  done_ += bytes;
  const int64_t now_ns = MonotonicNanos();
  if (shown_ && now_ns - drawn_ns_ >= kRedrawNs) Draw(now_ns);
}

void Progress::Draw(int64_t now_ns) {
  drawn_ns_ = now_ns;
  const double part = total_ == 0 ? 1 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double seconds = static_cast<double>(std::max<int64_t>(now_ns - start_ns_, 1)) / 1e9;
  const std::string bar(static_cast<size_t>(part * kWidth), '#');
  fmt::print(stderr, "\r[{:<{}}] {:3.0f} %  {} of {}  {}/s \x1b[K", bar, kWidth, part * 100, HumanBytes(done_),
             HumanBytes(total_), HumanBytes(static_cast<uint64_t>(static_cast<double>(done_) / seconds)));
  std::fflush(stderr);
}

}  // namespace tiercel::cli
