// Reads many keys: look-ups in one write, data in one batch of operations, failures handled key by key.
//
// At most `batch_parallel` keys and `step_bytes` are under way at a time. While bytes move, leases are renewed when
// half of them has passed. One call's reader; not shared between threads.
#pragma once

#include <span>
#include <vector>

#include "client/read_task.h"

namespace tiercel::client {

class Reader {
 public:
  static constexpr size_t kMaxOperations = 4096;  // of one batch; below the engine's own bound

  Reader(Parts* parts, const GetOptions& options);
  // All tasks are kDone afterwards.
  void Run(std::span<ReadTask> tasks);

  // Look-ups of many keys in one write, one result per key, in order.
  static std::vector<Result<std::optional<Found>>> LookUp(Parts* parts, std::span<const std::string_view> keys,
                                                          const std::optional<int64_t>& lease_ms, bool lease,
                                                          const Deadline& deadline);

 private:
  void RunChunk(std::span<ReadTask> tasks);
  bool LookUpReady(std::span<ReadTask> tasks);
  bool MoveReady(std::span<ReadTask> tasks);
  void Await(std::span<ReadTask> tasks);
  int64_t RenewDue(std::span<ReadTask* const> moving);
  transfer::SubmitOptions Attempt(std::span<ReadTask* const> moving) const;

  Parts* const parts_;
  const GetOptions options_;
  const transfer::TransportMask transports_;
  const Deadline deadline_;
};

}  // namespace tiercel::client
