#include "server/node/outbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace tiercel::node {

namespace {

template <typename T>
std::vector<T> TakeFront(std::vector<T>* from, size_t max) {
  if (from->size() <= max) return std::exchange(*from, {});
  const auto end = from->begin() + static_cast<std::ptrdiff_t>(max);
  std::vector<T> taken(std::make_move_iterator(from->begin()), std::make_move_iterator(end));
  from->erase(from->begin(), end);
  return taken;
}

template <typename T>
void PutFront(std::vector<T>* to, std::vector<T> front) {
  front.insert(front.end(), std::make_move_iterator(to->begin()), std::make_move_iterator(to->end()));
  *to = std::move(front);
}

void AppendPuts(const char* word, const std::vector<Version>& puts, Command* command) {
  command->push_back(word);
  command->push_back(std::to_string(puts.size()));
  for (Version put : puts) command->push_back(std::to_string(put.value));
}

}  // namespace

Outbox::Batch Outbox::Take() {
  Batch batch;
  batch.items = TakeFront(&pending_.items, kItemsPerBatch);
  batch.closed = TakeFront(&pending_.closed, kPutsPerBatch);
  batch.closed_below = std::exchange(pending_.closed_below, std::nullopt);
  if (pending_.closed.empty()) batch.unpinned = TakeFront(&pending_.unpinned, kItemsPerBatch);
  return batch;
}

void Outbox::PutBack(Batch batch) {
  PutFront(&pending_.items, std::move(batch.items));
  PutFront(&pending_.closed, std::move(batch.closed));
  PutFront(&pending_.unpinned, std::move(batch.unpinned));
  if (!pending_.closed_below) pending_.closed_below = batch.closed_below;
}

Command Outbox::ToCommand(const Batch& batch, std::vector<Clause>* clauses) {
  Command command{"STORE", "DONE"};
  clauses->clear();
  for (const ItemOutcome& item : batch.items) {
    command.insert(command.end(),
                   {"ITEM", std::to_string(item.id), item.kind,
                    item.failure ? std::string(InfoOf(*item.failure).name) : "OK", std::to_string(item.bytes)});
    clauses->push_back(Clause::kItem);
  }
  if (!batch.closed.empty()) {
    AppendPuts("CLOSED", batch.closed, &command);
    clauses->push_back(Clause::kClosed);
  }
  if (batch.closed_below) {
    command.insert(command.end(), {"CLOSEDBELOW", std::to_string(batch.closed_below->value)});
    clauses->push_back(Clause::kClosedBelow);
  }
  if (!batch.alive.empty()) {
    AppendPuts("ALIVE", batch.alive, &command);
    clauses->push_back(Clause::kAlive);
  }
  for (const StoreTarget::Unpinned& u : batch.unpinned) {
    command.insert(command.end(), {"UNPINNED", fmt::format("{}.{}", u.place.segment, u.place.epoch),
                                   fmt::format("{}+{}", u.range.offset, u.range.length)});
    clauses->push_back(Clause::kUnpinned);
  }
  return command;
}

}  // namespace tiercel::node
