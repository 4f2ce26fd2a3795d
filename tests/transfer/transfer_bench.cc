// Rates of the engine over TCP and shared memory, one client thread, sums of all blocks taken on the way as a client
// takes them. Ratios to iperf3 and to memcpy are for whoever runs it: both drift with the machine's load.
//
//   transfer_bench [tcp-get|tcp-put|shm-get|shm-put|shm-view|memcpy] [BYTES] [SECONDS] [THREADS]
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "tests/transfer/test_target.h"
#include "transfer/engine.h"
#include "transfer/shm/server.h"
#include "transfer/shm/shm_transport.h"
#include "transfer/tcp/server.h"
#include "transfer/tcp/tcp_transport.h"
#include "transfer/transport.h"

namespace tiercel::transfer {
namespace {

class Sums final : public PieceObserver {
 public:
  explicit Sums(uint64_t size) : hasher_(size) {}
  void OnPiece(uint64_t offset, std::span<const std::byte> piece) override { hasher_.Feed(offset, piece); }
  void OnRestart(uint64_t offset, uint64_t) override { hasher_.ResetBlock(offset / kBlockBytes); }
  void OnHashed(uint64_t offset, uint64_t, uint64_t sum) override { hasher_.SetBlock(offset / kBlockBytes, sum); }
  std::vector<uint64_t> Finish(std::span<const std::byte> all) { return hasher_.Finish(all); }

 private:
  BlockHasher hasher_;
};

struct Setup {
  TestTarget target{SystemClock::Get()};
  SegmentRef place{1, 1};
  std::unique_ptr<Server> tcp_server, shm_server;
  std::unique_ptr<Engine> engine;
  PeerHandle peer;
};

constexpr uint64_t kSegmentBytes = 1 << 30;

void Run(Setup& s, const std::string& what, uint64_t bytes, double seconds, int thread, std::vector<double>* micros,
         std::atomic<uint64_t>* moved) {
  const bool put = what.ends_with("put");
  const bool view = what.ends_with("view");
  std::span<std::byte> memory = *s.engine->AllocateRegistered(bytes);
  std::memset(memory.data(), 1, bytes);
  SubmitOptions options;
  options.transports = MaskOf(what.starts_with("tcp") ? TransportKind::kTcp : TransportKind::kShm);
  const uint64_t slots = kSegmentBytes / 4 / bytes;
  const uint64_t base = static_cast<uint64_t>(thread) * (kSegmentBytes / 4);
  const int64_t end = MonotonicNanos() + static_cast<int64_t>(seconds * 1e9);
  for (uint64_t i = 0; MonotonicNanos() < end; ++i) {
    const uint64_t offset = base + i % slots * bytes;
    const int64_t begin = MonotonicNanos();
    auto grant = s.target.MakeGrant(put ? Right::kWrite : Right::kRead, s.place, {offset, bytes});
    if (view) {
      auto v = s.engine->MapView(s.peer, s.place, {offset, bytes}, grant, 1000);
      if (!v.ok()) std::abort();
    } else {
      Sums sums(bytes);
      std::vector<Operation> ops(1);
      ops[0] = {.kind = put ? OpKind::kWrite : OpKind::kRead,
                .peer = s.peer,
                .place = s.place,
                .offset = offset,
                .memory = memory,
                .grant = grant,
                .observer = &sums,
                .registered = false};
      auto batch = s.engine->Submit(std::move(ops), options);
      if (!batch.ok() || !(*batch)->Wait().ok() || !(*batch)->all_ok()) {
        fmt::print("failed: {}\n", batch.ok() ? (*batch)->result(0).message : batch.error().message());
        std::abort();
      }
      if (sums.Finish(memory).empty()) std::abort();
    }
    micros->push_back(static_cast<double>(MonotonicNanos() - begin) / 1e3);
    moved->fetch_add(bytes);
  }
  s.engine->FreeRegistered(memory);
}

double MemcpyRate(double seconds) {
  std::vector<std::byte> a(256 << 20, std::byte{1}), b(256 << 20, std::byte{2});
  uint64_t moved = 0;
  const int64_t begin = MonotonicNanos();
  while (MonotonicNanos() - begin < seconds * 1e9) {
    for (size_t at = 0; at < a.size(); at += 1 << 20) std::memcpy(b.data() + at, a.data() + at, 1 << 20);
    moved += a.size();
  }
  return static_cast<double>(moved) / static_cast<double>(MonotonicNanos() - begin);
}

}  // namespace
}  // namespace tiercel::transfer

int main(int argc, char** argv) {
  using namespace tiercel::transfer;
  const std::string what = argc > 1 ? argv[1] : "tcp-get";
  const uint64_t bytes = argc > 2 ? std::stoull(argv[2]) : 1 << 20;
  const double seconds = argc > 3 ? std::stod(argv[3]) : 2;
  const int threads = argc > 4 ? std::stoi(argv[4]) : 1;
  if (what == "memcpy") {
    fmt::print("memcpy {:.2f} GB/s\n", MemcpyRate(seconds));
    return 0;
  }
  Setup s;
  auto segment = s.target.AddSegment(s.place, kSegmentBytes);
  std::memset(segment.data(), 3, segment.size());
  const std::string path = fmt::format("/tmp/transfer-bench-{}.sock", getpid());
  s.tcp_server = std::move(*tcp::MakeServer({}, &s.target));
  s.shm_server = std::move(*shm::MakeServer({.path = path}, &s.target));
  std::vector<std::unique_ptr<Transport>> transports;
  transports.push_back(tcp::MakeTransport());
  transports.push_back(shm::MakeTransport());
  EngineOptions options;
  options.connections_per_peer = argc > 5 ? std::stoul(argv[5]) : 1;
  s.engine = std::move(*Engine::Create(options, std::move(transports),
                                       [&] { return tiercel::Result<tiercel::Ticket>(s.target.MakeTicket()); }));
  s.peer = s.engine->AddPeer({.name = "bench",
                              .incarnation = s.target.incarnation(),
                              .data_address = s.tcp_server->address(),
                              .data_socket = path});
  std::vector<std::thread> pool;
  std::vector<std::vector<double>> micros(static_cast<size_t>(threads));
  std::atomic<uint64_t> moved{0};
  const int64_t begin = tiercel::MonotonicNanos();
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] { Run(s, what, bytes, seconds, t, &micros[static_cast<size_t>(t)], &moved); });
  }
  for (auto& t : pool) t.join();
  const double took = static_cast<double>(tiercel::MonotonicNanos() - begin);
  std::vector<double> all;
  for (auto& m : micros) all.insert(all.end(), m.begin(), m.end());
  std::sort(all.begin(), all.end());
  fmt::print("{} {} bytes x{}: {:.2f} GB/s, p50 {:.1f} us, p99 {:.1f} us\n", what, bytes, threads,
             static_cast<double>(moved.load()) / took, all[all.size() / 2], all[all.size() * 99 / 100]);
  s.engine.reset();
  s.tcp_server.reset();
  s.shm_server.reset();
  return 0;
}
