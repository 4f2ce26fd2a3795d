// Reading the outcome of operations of a batch. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tiercel/result.h"
#include "transfer/engine.h"

namespace tiercel::client {

// Why operation i of a terminal batch did not do all that it should; nullopt when it did.
std::optional<Error> Failure(const transfer::Batch& batch, size_t i);
// Why the first of operations [first, first + count) that failed did so.
std::optional<Error> FirstFailure(const transfer::Batch& batch, size_t first, size_t count);
// Bytes that these operations moved.
uint64_t BytesMoved(const transfer::Batch& batch, size_t first, size_t count);

// What a call that goes on does after an operation's failure. An attempt that was cut short or cancelled by
// someone else's end is a path that did not work.
ErrorAction ActionOfFailure(const Error& error);

// The call's time is over: an error that only says that an attempt was cut short becomes kDeadline.
Error OfDeadline(Error error);

}  // namespace tiercel::client
