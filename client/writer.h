// Puts many keys: PUTSTARTs in one write, data in one batch of operations, PUTENDs in one write; failures are
// handled key by key, and what was begun and not ended is given back.
//
// At most `batch_parallel` keys and `step_bytes` are under way at a time. One call's writer; not shared.
#pragma once

#include <span>
#include <vector>

#include "client/write_task.h"

namespace tiercel::client {

class Writer {
 public:
  static constexpr size_t kMaxOperations = 2048;  // a task may add one batch of its own beyond

  Writer(Parts* parts, const PutOptions& options);
  // All tasks are kDone afterwards.
  void Run(std::span<WriteTask> tasks);

 private:
  using Phase = WriteTask::Phase;

  void RunChunk(std::span<WriteTask> tasks);
  bool StartReady(std::span<WriteTask> tasks);
  bool MoveReady(std::span<WriteTask> tasks);
  bool EndReady(std::span<WriteTask> tasks);
  bool RevokeReady(std::span<WriteTask> tasks);
  void Await(std::span<WriteTask> tasks);
  int64_t RenewDue(std::span<WriteTask* const> moving);
  // Sends one command per task in one write; calls done(task, reply) for each.
  template <typename MakeWords, typename Done>
  void Ask(std::span<WriteTask* const> tasks, Control::Again again, const Deadline& deadline, MakeWords&& make,
           Done&& done);

  Parts* const parts_;
  const PutOptions options_;
  const transfer::TransportMask transports_;
  const Deadline deadline_;
};

}  // namespace tiercel::client
