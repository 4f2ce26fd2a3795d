// Submits a batch of operations and stays with it until it is terminal, doing on the way what keeps it going
// (renewals). Closing the client cancels what is under way. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "client/deadline.h"
#include "transfer/engine.h"

namespace tiercel::client {

class Mover {
 public:
  explicit Mover(transfer::Engine* engine) : engine_(engine) {}

  // `tend` is called at once and then whenever the time that it returned (ms, -1: never again) has passed while
  // the batch is under way. Returns a terminal batch; its operations' results tell what became of each.
  Result<std::unique_ptr<transfer::Batch>> Move(std::vector<transfer::Operation> operations,
                                                const transfer::SubmitOptions& options,
                                                const std::function<int64_t()>& tend);
  // Cancels all batches, now and from now on.
  void Close();

 private:
  bool Enter(transfer::Batch* batch);
  void Leave(transfer::Batch* batch);

  transfer::Engine* const engine_;
  std::mutex mutex_;
  bool closed_ = false;
  std::unordered_set<transfer::Batch*> moving_;
};

}  // namespace tiercel::client
