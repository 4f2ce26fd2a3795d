// A server in this process: real core, real sessions, stores that are only memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "server/core/master.h"
#include "server/net/master_host.h"
#include "server/net/server.h"
#include "tests/net/fake_store.h"

namespace tiercel::net::test {

struct TestServer {
  struct Setup {
    core::Options core;
    ServerOptions server;
    std::string requirepass;
    std::vector<UserSpec> users;
    ConfigPort* config = nullptr;
    ProcessPort* process = nullptr;
    const Clock* clock = &SystemClock::Get();
    uint64_t local_bytes = uint64_t{64} << 20;  // 0: no store in this process
    uint64_t remote_bytes = 0;                  // 0: no other store
    bool master_role = true;
    bool segments_outlive_master = false;  // then their objects have records
  };

  explicit TestServer(Setup setup)
      : master(setup.core, {.generation = 1, .random = 1}),
        host(&master, setup.clock),
        segments_outlive_master(setup.segments_outlive_master) {
    if (setup.local_bytes > 0) Join("local", 1, setup.local_bytes, true);
    if (setup.remote_bytes > 0) Join("remote", 2, setup.remote_bytes, false);
    setup.server.binds = {"127.0.0.1"};
    auto table = Users::Create(setup.requirepass, setup.users);
    TIERCEL_CHECK(table.ok());
    const Ports ports{&payload, setup.config, setup.process, nullptr};
    auto created = Server::Create(setup.server, ports, std::move(*table), setup.master_role ? &host : nullptr);
    if (!created.ok()) ADD_FAILURE() << created.error().message();
    server = std::move(*created);
    server->Start();
  }
  TestServer() : TestServer(Setup()) {}
  ~TestServer() {
    server.reset();
    host.With([](core::Master& m, Times now) {
      EXPECT_EQ(m.open_puts(), 0u) << "every put of a connection ends with it";
      m.CheckInvariants(now);
    });
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

  core::Master master;
  MasterHost host;
  FakePayload payload;
  const bool segments_outlive_master;
  std::unique_ptr<Server> server;
};

}  // namespace tiercel::net::test
