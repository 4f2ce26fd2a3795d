#include "tools/tiercel-bench/machine.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <thread>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/fd.h"
#include "tools/tiercel-bench/histogram.h"

namespace tiercel::bench {
namespace {

constexpr size_t kCallBytes = 1 << 20;
constexpr size_t kAreaBytes = 256 << 20;  // source and target: 512 MiB together

Mapping TouchedMemory() {
  void* memory = mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  std::memset(memory, 1, kAreaBytes);
  return {memory, kAreaBytes};
}

template <typename F>
double BytesPerSecond(F&& call) {
  const int64_t start = MonotonicNanos();
  for (size_t at = 0; at < kAreaBytes; at += kCallBytes) call(at);
  return static_cast<double>(kAreaBytes) * 1e9 / static_cast<double>(MonotonicNanos() - start);
}

struct SocketPair {
  UniqueFd client, server;
};

SocketPair LoopbackPair() {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return {};
  }
  SocketPair pair;
  pair.client = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(pair.client.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return {};
  pair.server = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  for (int fd : {pair.client.get(), pair.server.get()}) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return pair;
}

}  // namespace

MemoryFigures MeasureMemory(int rounds, const std::atomic<bool>& stop) {
  Mapping source = TouchedMemory(), target = TouchedMemory();
  MemoryFigures best;
  if (!source || !target) return best;
  uint64_t sums = 0;
  for (int round = 0; round < rounds && !stop; ++round) {
    const double plain = BytesPerSecond([&](size_t at) {
      std::memcpy(target.data() + at, source.data() + at, kCallBytes);
      asm volatile("" : : "r"(target.data()) : "memory");
    });
    const double hashed =
        BytesPerSecond([&](size_t at) { sums += CopyAndHash(target.data() + at, source.data() + at, kCallBytes); });
    if (hashed / plain > best.ratio) {
      best = {.memcpy_bytes_per_second = plain, .copy_hash_bytes_per_second = hashed, .ratio = hashed / plain};
    }
  }
  asm volatile("" : : "r"(sums));
  return best;
}

uint64_t MeasureRoundTrip(int round_trips, const std::atomic<bool>& stop) {
  SocketPair pair = LoopbackPair();
  if (!pair.server) return 0;
  std::thread echo([fd = pair.server.get()] {
    char byte = 0;
    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1) {
    }
  });
  Histogram latency;
  for (int i = 0; i < round_trips && !stop; ++i) {
    const int64_t start = MonotonicNanos();
    char byte = 1;
    if (write(pair.client.get(), &byte, 1) != 1 || read(pair.client.get(), &byte, 1) != 1) break;
    latency.Add(static_cast<uint64_t>(MonotonicNanos() - start));
  }
  shutdown(pair.client.get(), SHUT_RDWR);
  echo.join();
  return latency.Quantile(0.5);
}

}  // namespace tiercel::bench
