// MADV_POPULATE_WRITE (Linux 5.14) fails where touching a page would raise SIGBUS, so running out of memory is an
// error here and not the end of the process. Older kernels get their pages on first use.
#include "tiers/dram/populate.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/log.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tiercel::tiers {
namespace {

// Some 10 to 30 ms of work: how long a shutdown may wait for it.
constexpr size_t kStepBytes = size_t{64} << 20;

// 0 or the error number.
int PopulateStep(std::span<std::byte> step) {
  while (madvise(step.data(), step.size(), MADV_POPULATE_WRITE) != 0) {
    if (errno != EINTR && errno != EAGAIN) return errno;
  }
  return 0;
}

}  // namespace

Populator::~Populator() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Populator::Start(std::span<std::byte> memory, Progress progress) {
  TIERCEL_CHECK(!thread_.joinable());
  thread_ = std::thread([this, memory, progress = std::move(progress)] { Run(memory, progress); });
}

void Populator::Run(std::span<std::byte> memory, const Progress& progress) {
  pthread_setname_np(pthread_self(), "populate");
  uint64_t done = 0;
  while (done < memory.size() && !stopping_) {
    const std::span<std::byte> step = memory.subspan(done, std::min(kStepBytes, memory.size() - done));
    if (const int error = PopulateStep(step); error != 0) {
      Log(LogLevel::kWarning, "memory of a segment could not be populated after {} of {} bytes: {}", done,
          memory.size(), std::strerror(error));
      break;
    }
    done += step.size();
    populated_bytes_.store(done, std::memory_order_relaxed);
    if (progress && done < memory.size()) progress(done, false);
  }
  if (progress) progress(done, true);
}

}  // namespace tiercel::tiers
