// One suite over every transport: a target, its servers, an engine with the wire in question, plain or through the
// faulty wrapper.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/transfer/raw.h"
#include "tests/transfer/test_target.h"
#include "transfer/engine.h"
#include "transfer/faulty/faulty_transport.h"
#include "transfer/local/local_transport.h"
#include "transfer/shm/server.h"
#include "transfer/shm/shm_transport.h"
#include "transfer/tcp/server.h"
#include "transfer/tcp/tcp_transport.h"
#include "transfer/transport.h"

namespace tiercel::transfer {

#ifdef TIERCEL_SANITIZED
inline constexpr bool kSanitized = true;
inline constexpr int64_t kGuardMs = 300'000;
#else
inline constexpr bool kSanitized = false;
inline constexpr int64_t kGuardMs = 60'000;
#endif

// Waits for an effect, with a guard against hanging.
template <typename Done>
bool Eventually(Done done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kGuardMs);
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

inline std::vector<std::byte> Pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> out(bytes + 8);
  Random random(seed);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random.Next();
    std::memcpy(out.data() + i, &word, 8);
  }
  out.resize(bytes);
  return out;
}

inline bool Same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

struct Wire {
  TransportKind kind = TransportKind::kTcp;
  bool through_faulty = false;
};

inline std::string WireName(const testing::TestParamInfo<Wire>& info) {
  return std::string(TransportName(info.param.kind)) + (info.param.through_faulty ? "_faulty" : "");
}

inline const auto kAllWires = testing::Values(Wire{TransportKind::kLocal, false}, Wire{TransportKind::kLocal, true},
                                              Wire{TransportKind::kShm, false}, Wire{TransportKind::kShm, true},
                                              Wire{TransportKind::kTcp, false}, Wire{TransportKind::kTcp, true});

// A store: target and servers.
class Store {
 public:
  explicit Store(const Clock& clock, uint64_t incarnation = 0x1001, const SessionLimits& limits = {})
      : target(clock, incarnation), socket_path(TemporarySocketPath()) {
    auto tcp = tcp::MakeServer({.limits = limits}, &target);
    auto shm = shm::MakeServer({.path = socket_path, .limits = limits}, &target);
    EXPECT_TRUE(tcp.ok() && shm.ok());
    tcp_server = std::move(tcp).value();
    shm_server = std::move(shm).value();
  }
  PeerAddress address(TransportKind kind) const {
    PeerAddress a{.name = "store", .incarnation = target.incarnation(), .data_address = {}, .data_socket = {}};
    if (kind == TransportKind::kTcp) a.data_address = tcp_server->address();
    if (kind == TransportKind::kShm) a.data_socket = socket_path;
    return a;
  }

  TestTarget target;
  std::string socket_path;
  std::unique_ptr<Server> tcp_server;
  std::unique_ptr<Server> shm_server;
};

inline std::unique_ptr<Transport> MakeWire(TransportKind kind, TestTarget* target) {
  switch (kind) {
    case TransportKind::kLocal: return local::MakeTransport(target);
    case TransportKind::kShm: return shm::MakeTransport();
    default: return tcp::MakeTransport();
  }
}

inline EngineOptions TestOptions() {
  EngineOptions options;
  options.slice_bytes = 64 * 1024;
  options.jitter = 0;
  return options;
}

inline OpResult RunOne(Engine& engine, const Operation& op, SubmitOptions options = {}) {
  options.timeout_ms = std::max<int64_t>(options.timeout_ms, kSanitized ? 60'000 : options.timeout_ms);
  auto batch = engine.Submit({op}, options);
  if (!batch.ok()) {
    return {.state = OpResult::State::kFailed,
            .bytes = 0,
            .code = batch.error().code(),
            .message = batch.error().message()};
  }
  EXPECT_TRUE((*batch)->Wait(kGuardMs).ok());
  return (*batch)->result(0);
}

class Conformance : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override { Build(TestOptions()); }
  void TearDown() override {
    engine_.reset();
    EXPECT_TRUE(Eventually([&] { return store_->target.live() == 0; }));
    if (script_) {
      EXPECT_EQ(script_->regions(), 0U);
    }
    store_.reset();
  }
  void Build(const EngineOptions& options) {
    engine_.reset();
    if (store_ == nullptr) {
      store_ = std::make_unique<Store>(SystemClock::Get());
      segment_ = store_->target.AddSegment(kPlace, kSegmentBytes);
    }
    std::vector<std::unique_ptr<Transport>> transports;
    auto wire = MakeWire(GetParam().kind, &store_->target);
    if (GetParam().through_faulty) {
      script_ = std::make_shared<faulty::Script>();
      wire = faulty::MakeTransport(std::move(wire), script_);
    }
    transports.push_back(std::move(wire));
    auto engine =
        Engine::Create(options, std::move(transports), [this] { return Result<Ticket>(store_->target.MakeTicket()); });
    ASSERT_TRUE(engine.ok());
    engine_ = std::move(engine).value();
    peer_ = engine_->AddPeer(store_->address(GetParam().kind));
  }
  TestTarget& target() { return store_->target; }
  Operation Op(OpKind kind, uint64_t offset, std::span<std::byte> memory, SegmentRef place = kPlace) {
    const Right right = kind == OpKind::kRead ? Right::kRead : Right::kWrite;
    return {.kind = kind,
            .peer = peer_,
            .place = place,
            .offset = offset,
            .memory = memory,
            .grant = target().MakeGrant(right, place, {0, UINT64_MAX}),
            .registered = false};
  }
  OpResult Run(const Operation& op, const SubmitOptions& options = {}) { return RunOne(*engine_, op, options); }

  static constexpr SegmentRef kPlace{1, 4};
  static constexpr uint64_t kSegmentBytes = 256 << 20;
  std::unique_ptr<Store> store_;
  std::shared_ptr<faulty::Script> script_;
  std::unique_ptr<Engine> engine_;
  PeerHandle peer_;
  std::span<std::byte> segment_;
};

}  // namespace tiercel::transfer
