#include "client/op_failure.h"

#include <fmt/format.h>

namespace tiercel::client {

using transfer::OpResult;

std::optional<Error> Failure(const transfer::Batch& batch, size_t i) {
  OpResult result = batch.result(i);
  switch (result.state) {
    case OpResult::State::kOk: return std::nullopt;
    case OpResult::State::kFailed: return Error(result.code, std::move(result.message));
    case OpResult::State::kCancelled:
    case OpResult::State::kPending: break;
  }
  return Error(ErrorCode::kCancelled, "the transfer was cancelled");
}

std::optional<Error> FirstFailure(const transfer::Batch& batch, size_t first, size_t count) {
  if (batch.all_ok()) return std::nullopt;
  for (size_t i = first; i < first + count; ++i) {
    if (auto failure = Failure(batch, i)) return failure;
  }
  return std::nullopt;
}

uint64_t BytesMoved(const transfer::Batch& batch, size_t first, size_t count) {
  uint64_t bytes = 0;
  for (size_t i = first; i < first + count; ++i) bytes += batch.result(i).bytes;
  return bytes;
}

ErrorAction ActionOfFailure(const Error& error) {
  if (error.code() == ErrorCode::kCancelled) return ErrorAction::kNextReplica;
  return error.action();
}

Error OfDeadline(Error error) {
  if (error.code() == ErrorCode::kChecksum || error.code() == ErrorCode::kLength) return error;
  if (error.code() == ErrorCode::kDeadline) return error;
  return Error(ErrorCode::kDeadline, fmt::format("the call's time is over; the last failure was {}", error.ToString()));
}

}  // namespace tiercel::client
