// What a command costs once it is parsed: handler, core and reply, under the core's lock, over a million objects.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "server/core/master.h"
#include "server/net/command_context.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"

namespace tiercel::net {
namespace {

constexpr uint64_t kObjects = 1'000'000;

std::string KeyName(uint64_t i) { return "model-7b/layer-12/block-" + std::to_string(i); }

class World {
 public:
  static World& Get() {
    static World world;
    return world;
  }

  std::string& Run(Handler handler, const std::vector<std::string_view>& args) {
    out_.clear();
    MasterHost::Hold hold(&host_);
    master_.BeginCommand();
    CommandContext context(nullptr, &state_, &shared_, &hold, clock_.Now(), &out_);
    context.args = args;
    benchmark::DoNotOptimize(handler(context));
    return out_;
  }

 private:
  World() : master_(Options(), {.generation = 1, .random = 1, .grant_master_key = {}}), host_(&master_, &clock_) {
    shared_.host = &host_;
    shared_.clock = &clock_;
    state_.id = 1;
    state_.user_id = UserId("default");
    state_.store_right = state_.in_process = true;
    Run(DoStoreJoin,
        {"STORE", "JOIN", "node-1.example", "abc", "disk", "boot/node-1", "10.0.0.1:7380", "-", "0", "1", "1"});
    Run(DoStoreSegment, {"STORE", "SEGMENT", "dram", "0", "dram-0", "1", "1099511627776"});
    const std::string& ready = Run(DoStoreReady, {"STORE", "READY", "CLOSEDBELOW", "1099511627776"});
    TIERCEL_CHECK(ready == "+OK\r\n");
    core::PutOptions options;
    options.in_process = true;  // closed with their end, not by the store
    for (uint64_t i = 0; i < kObjects; ++i) {
      const std::string key = KeyName(i);
      MasterHost::Hold hold(&host_);
      master_.BeginCommand();
      const core::Caller caller{state_.user_id, state_.id};
      const auto plan = master_.PutStart(caller, core::MakeKey(0, key), 262'144, options, clock_.Now());
      TIERCEL_CHECK(plan.ok());
      TIERCEL_CHECK(master_.PutEnd(caller, plan->put, 1, {}, clock_.Now()).ok());
    }
  }
  static core::Options Options() {
    core::Options options;
    options.lease_max_ratio = 1.0;
    return options;
  }

  ManualClock clock_;
  core::Master master_;
  MasterHost host_;
  ServerShared shared_;
  SessionState state_;
  std::string out_;
};

// Keys in a random order, made beforehand.
std::vector<std::string> RandomKeys() {
  Random random(7);
  std::vector<std::string> keys(100'000);
  for (std::string& key : keys) key = KeyName(random.Below(kObjects));
  return keys;
}

void RunOverKeys(benchmark::State& state, Handler handler, const char* name, const char* option) {
  World& world = World::Get();
  static const std::vector<std::string> keys = RandomKeys();
  std::vector<std::string_view> args = {name, ""};
  if (option != nullptr) args.push_back(option);
  size_t i = 0, bytes = 0;
  for (auto _ : state) {
    args[1] = keys[i];
    if (++i == keys.size()) i = 0;
    bytes += world.Run(handler, args).size();
  }
  state.counters["reply"] = static_cast<double>(bytes) / static_cast<double>(state.iterations());
}
void ExistsOne(benchmark::State& state) { RunOverKeys(state, DoExists, "EXISTS", nullptr); }
void GetReplicasOne(benchmark::State& state) { RunOverKeys(state, DoGetReplicas, "GETREPLICAS", nullptr); }
void GetReplicasNoLease(benchmark::State& state) { RunOverKeys(state, DoGetReplicas, "GETREPLICAS", "NOLEASE"); }
BENCHMARK(ExistsOne);
BENCHMARK(GetReplicasOne);
BENCHMARK(GetReplicasNoLease);

void MGetReplicas64(benchmark::State& state) {
  World& world = World::Get();
  const std::vector<std::string> keys = RandomKeys();
  size_t at = 0;
  for (auto _ : state) {
    std::vector<std::string_view> args = {"MGETREPLICAS", "64"};
    for (int i = 0; i < 64; ++i) args.push_back(keys[at++ % keys.size()]);
    benchmark::DoNotOptimize(world.Run(DoMGetReplicas, args));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * 64);
}
BENCHMARK(MGetReplicas64);

void PutStartAndRevoke(benchmark::State& state) {
  World& world = World::Get();
  for (auto _ : state) {
    const std::string& reply = world.Run(DoPutStart, {"PUTSTART", "a-new-key", "262144"});
    const size_t at = reply.find("put\r\n:") + 6;
    const std::string put = reply.substr(at, reply.find('\r', at) - at);
    benchmark::DoNotOptimize(world.Run(DoPutRevoke, {"PUTREVOKE", put}));
    benchmark::DoNotOptimize(world.Run(DoStoreWork, {"STORE", "WORK", "16", "0"}));
    benchmark::DoNotOptimize(world.Run(DoStoreDone, {"STORE", "DONE", "CLOSED", "1", put}));
  }
}
BENCHMARK(PutStartAndRevoke);

}  // namespace
}  // namespace tiercel::net
