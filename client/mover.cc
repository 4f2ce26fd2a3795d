#include "client/mover.h"

namespace tiercel::client {

bool Mover::Enter(transfer::Batch* batch) {
  std::lock_guard lock(mutex_);
  moving_.insert(batch);
  return !closed_;
}

void Mover::Leave(transfer::Batch* batch) {
  std::lock_guard lock(mutex_);
  moving_.erase(batch);
}

void Mover::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (transfer::Batch* batch : moving_) batch->Cancel();
}

Result<std::unique_ptr<transfer::Batch>> Mover::Move(std::vector<transfer::Operation> operations,
                                                     const transfer::SubmitOptions& options,
                                                     const std::function<int64_t()>& tend) {
  TIERCEL_ASSIGN(std::unique_ptr<transfer::Batch> batch, engine_->Submit(std::move(operations), options));
  if (!Enter(batch.get())) batch->Cancel();
  while (!batch->terminal()) {
    // The engine ends the batch at its own deadline; waiting is bounded by that.
    const int64_t wait_ms = tend();
    (void)batch->Wait(wait_ms);
  }
  Leave(batch.get());
  return batch;
}

}  // namespace tiercel::client
