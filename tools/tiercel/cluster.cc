// tiercel nodes, segments, ping
#include <fmt/format.h>

#include <memory>

#include "base/units.h"
#include "tools/tiercel/commands.h"

namespace tiercel::cli {
namespace {

ExitCode Nodes(Session& session) {
  auto stores = session.client().Stores();
  if (!stores.ok()) return session.Report("nodes", stores.error());
  if (!session.json()) {
    fmt::print("{:<16} {:<8} {:>12} {:>12} {:<24} {}\n", "store", "state", "used", "size", "data", "socket");
  }
  for (const StoreStat& store : *stores) {
    if (session.json()) {
      session.Print({{"name", store.name},
                     {"incarnation", FormatHex64(store.incarnation.value)},
                     {"state", store.state},
                     {"host", store.host},
                     {"address", store.address},
                     {"socket", store.socket},
                     {"transports", store.transports},
                     {"capacity", store.capacity_bytes},
                     {"used", store.used_bytes},
                     {"free", store.free_bytes}});
      continue;
    }
    fmt::print("{:<16} {:<8} {:>12} {:>12} {:<24} {}\n", store.name, store.state, HumanBytes(store.used_bytes),
               HumanBytes(store.capacity_bytes), store.address.empty() ? "-" : store.address,
               store.socket.empty() ? "-" : store.socket);
  }
  return kDone;
}

ExitCode Ping(Session& session, int count) {
  for (int i = 0; i < count; ++i) {
    auto micros = session.client().PingMicros();
    if (!micros.ok()) return session.Report("ping", micros.error());
    session.json() ? session.Print({{"micros", *micros}}) : fmt::print("{} us\n", *micros);
  }
  return kDone;
}

}  // namespace

void AddNodes(CLI::App* app, Chosen* chosen) {
  app->add_subcommand("nodes", "list the stores: state, space, and where clients reach them")->callback([chosen] {
    *chosen = Nodes;
  });
}

void AddPing(CLI::App* app, Chosen* chosen) {
  auto count = std::make_shared<int>(1);
  CLI::App* command = app->add_subcommand("ping", "time a round trip to the master");
  command->add_option("-c,--count", *count, "how many round trips")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->callback([count, chosen] { *chosen = [count](Session& session) { return Ping(session, *count); }; });
}

}  // namespace tiercel::cli
