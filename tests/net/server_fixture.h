// A server in this process: real core, real sessions, stores that are only memory.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "server/config/live_config.h"
#include "server/config/option.h"
#include "server/core/master.h"
#include "server/index/committer.h"
#include "server/net/master_host.h"
#include "server/net/server.h"
#include "tests/net/fake_store.h"
#include "tests/net/raw_client.h"

namespace tiercel::net::test {

// CONFIG over the real option table; nothing follows from a change.
class TableConfig final : public ConfigPort {
 public:
  std::vector<Row> Get(std::string_view pattern) const override { return live_.Get({&pattern, 1}); }
  Status Set(std::span<const Row> changes) override { return live_.Set(changes); }

 private:
  config::LiveConfig live_{config::TableDefaults()};
};

struct TestServer {
  struct Setup {
    core::Options core;
    ServerOptions server;
    std::string requirepass;
    std::vector<UserSpec> users;
    ConfigPort* config = nullptr;  // nullptr: the option table's defaults
    ProcessPort* process = nullptr;
    const Clock* clock = &SystemClock::Get();
    uint64_t local_bytes = uint64_t{64} << 20;  // 0: no store in this process
    uint64_t remote_bytes = 0;                  // 0: no other store
    bool master_role = true;
    bool segments_outlive_master = false;  // then their objects have records
    core::Index* index = nullptr;          // keeps them; needs core.journal and the line above
  };

  explicit TestServer(Setup setup)
      : master(WithoutSilence(setup.core), {.generation = 1, .random = 1}),
        host(&master, setup.clock),
        segments_outlive_master(setup.segments_outlive_master),
        io_threads(setup.server.io_threads) {
    if (setup.index != nullptr) {
      committer = std::make_unique<index::Committer>(
          setup.index, &master, &host.lock(), setup.clock, [this] { Progressed(); }, /*resume_every_ms=*/1);
      host.SetCommitterWake([wake = committer.get()] { wake->Wake(); });
    }
    if (setup.local_bytes > 0) Join("local", 1, setup.local_bytes, true);
    if (setup.remote_bytes > 0) Join("remote", 2, setup.remote_bytes, false);
    setup.server.binds = {"127.0.0.1"};
    auto table = Users::Create(setup.requirepass, setup.users);
    TIERCEL_CHECK(table.ok());
    const Ports ports{.payload = &payload,
                      .config = setup.config != nullptr ? setup.config : &table_config,
                      .process = setup.process};
    auto created = Server::Create(setup.server, ports, std::move(*table), setup.master_role ? &host : nullptr);
    if (!created.ok()) ADD_FAILURE() << created.error().message();
    server = std::move(*created);
    server->Start();
  }
  TestServer() : TestServer(Setup()) {}
  ~TestServer() {
    server.reset();
    host.SetCommitterWake([] {});
    committer.reset();
    host.With([](core::Master& m, Times now) {
      EXPECT_EQ(m.open_puts(), 0u) << "every put of a connection ends with it";
      m.CheckInvariants(now);
    });
  }

  // These stores give no signs of life, and tests may take their time.
  static core::Options WithoutSilence(core::Options options) {
    options.store_suspect_after_ms = options.store_timeout_ms = int64_t{24} * 3600'000;
    return options;
  }

  void Join(const std::string& name, uint64_t incarnation, uint64_t size, bool local) {
    host.With([&](core::Master& m, Times now) {
      core::StoreJoinRequest request;
      request.store.name = name;
      request.store.incarnation = Incarnation{incarnation};
      request.store.storage_id = "storage-" + name;
      request.store.host = name;
      request.store.data_address = "127.0.0.1:1";
      request.store.proto_min = request.store.proto_max = 1;
      request.store.in_process = local;
      auto joined = m.StoreJoin(request, now);
      TIERCEL_CHECK(joined.ok());
      core::SegmentJoin segment;
      segment.id = 1;
      segment.epoch = 1;
      segment.name = name + "-1";
      segment.size = size;
      segment.outlives_master = segments_outlive_master;
      segment.in_process = local;
      TIERCEL_CHECK(m.StoreSegments(joined->slot, Incarnation{incarnation}, {&segment, 1}, now).ok());
      TIERCEL_CHECK(m.StoreReady(joined->slot, Incarnation{incarnation}, joined->floor, now).ok());
      payload.AddSegment(Incarnation{incarnation}, SegmentRef{1, 1}, size, local);
    });
  }

  // Blocks until this is so of the core; looked at whenever the index has made a step.
  template <typename Predicate>
  void AwaitIndex(Predicate predicate) {
    std::unique_lock lock(progress_mutex);
    progress_made.wait(lock, [&] { return host.With([&](core::Master& m, Times) { return predicate(m); }); });
  }
  void Progressed() {
    host.Progressed();
    std::lock_guard lock(progress_mutex);
    progress_made.notify_all();
  }
  // Everything that the server's loops had to do before this call is done when it returns: connections are dealt out to
  // them in turn, and each has answered one that came later. REQUIRES: no password.
  void PassLoops() {
    for (uint32_t i = 0; i < io_threads; ++i) EXPECT_EQ(RawClient(server->port()).Text({"PING"}), "+PONG");
  }
  // The server has forgotten the connection when this returns: our side is closed, and it has closed its own.
  static void End(RawClient& client) {
    client.ShutdownWrite();
    client.ReadAll();
    client.Close();
  }

  core::Master master;
  MasterHost host;
  std::mutex progress_mutex;
  std::condition_variable progress_made;
  std::unique_ptr<index::Committer> committer;
  FakePayload payload;
  TableConfig table_config;
  const bool segments_outlive_master;
  const uint32_t io_threads;
  std::unique_ptr<Server> server;
};

}  // namespace tiercel::net::test
