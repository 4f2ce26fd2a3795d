// tiercel segments: the space of every store, tier by tier.
#include <fmt/format.h>

#include "base/units.h"
#include "tools/tiercel/commands.h"

namespace tiercel::cli {
namespace {

ExitCode Segments(Session& session) {
  auto stores = session.client().Stores();
  if (!stores.ok()) return session.Report("segments", stores.error());
  if (!session.json()) {
    fmt::print("{:<16} {:<5} {:>12} {:>12} {:>12} {:>12}\n", "store", "tier", "size", "used", "free", "quarantined");
  }
  for (const StoreStat& store : *stores) {
    for (const StoreStat::Space& space : store.tiers) {
      if (session.json()) {
        session.Print({{"store", store.name},
                       {"tier", space.tier},
                       {"size", space.size},
                       {"used", space.used},
                       {"free", space.free},
                       {"quarantined", space.quarantined}});
        continue;
      }
      fmt::print("{:<16} {:<5} {:>12} {:>12} {:>12} {:>12}\n", store.name, space.tier, HumanBytes(space.size),
                 HumanBytes(space.used), HumanBytes(space.free), HumanBytes(space.quarantined));
    }
  }
  return kDone;
}

}  // namespace

void AddSegments(CLI::App* app, Chosen* chosen) {
  app->add_subcommand("segments", "show the space of every store, tier by tier")->callback([chosen] {
    *chosen = Segments;
  });
}

}  // namespace tiercel::cli
