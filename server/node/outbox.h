// Outbox: what the store has to tell its master, until the master has taken it. Pure: no lock, no clock.
//
// A batch is taken, sent as one STORE DONE, and either acknowledged (forgotten) or put back (sent again, before
// what came later). Telling twice does no harm: a repeated CLOSED or UNPINNED changes nothing, a repeated ITEM is
// answered NOTASK. Signs of life (ALIVE) are not kept: the next ones say as much.
// Bounds: puts by whoever feeds them (the store stops fetching work while there are kMaxPending), items by the
// items that the master handed out, unpinned places by the range tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/node/control_wire.h"
#include "server/node/store_target.h"
#include "tiercel/types.h"

namespace tiercel::node {

struct ItemOutcome {
  uint64_t id = 0;
  std::string kind;
  std::optional<ErrorCode> failure;  // nullopt: OK
  uint64_t bytes = 0;
};

class Outbox {
 public:
  static constexpr size_t kMaxPending = 65'536;  // closed puts
  static constexpr size_t kPutsPerBatch = 16'384;
  static constexpr size_t kItemsPerBatch = 1'024;

  enum class Clause : uint8_t { kItem, kClosed, kClosedBelow, kAlive, kUnpinned };
  struct Batch {
    std::vector<ItemOutcome> items;
    std::vector<Version> closed;
    std::optional<Version> closed_below;
    std::vector<Version> alive;
    std::vector<StoreTarget::Unpinned> unpinned;
    bool empty() const { return items.empty() && closed.empty() && !closed_below && alive.empty() && unpinned.empty(); }
  };

  void AddItem(ItemOutcome outcome) { pending_.items.push_back(std::move(outcome)); }
  std::vector<Version>* closed() { return &pending_.closed; }  // to append to
  std::vector<StoreTarget::Unpinned>* unpinned() { return &pending_.unpinned; }
  void SetClosedBelow(Version floor) { pending_.closed_below = floor; }

  // Takes no unpinned places before all closed puts are taken: they count only behind them.
  Batch Take();
  void PutBack(Batch batch);
  bool empty() const { return pending_.empty(); }
  size_t closed_pending() const { return pending_.closed.size(); }

  // "STORE DONE ..." and the kind of each clause in order: the answer has one entry for each. An empty batch is
  // the bare command, a sign of life of the store itself.
  static Command ToCommand(const Batch& batch, std::vector<Clause>* clauses);

 private:
  Batch pending_;
};

}  // namespace tiercel::node
