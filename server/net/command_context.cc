#include "server/net/command_context.h"

#include <fmt/format.h>

#include "protocol/resp/errors.h"
#include "server/net/session.h"

namespace tiercel::net {

bool CommandContext::KeyTooLong(size_t i) {
  if (args[i].size() <= kMaxKeyBytes) return false;
  Fail(ErrorCode::kTooBig, fmt::format("a key of {} bytes is longer than {}", args[i].size(), kMaxKeyBytes));
  return true;
}

Outcome CommandContext::Fail(const Error& error) {
  reply.Error(error);
  return Outcome::kDone;
}

Outcome CommandContext::FailLine(std::string_view line) {
  reply.ErrorLine(line);
  return Outcome::kDone;
}

Outcome CommandContext::FailSyntax() { return FailLine(resp::kSyntaxErrorLine); }

Outcome CommandContext::FailNotInteger() { return FailLine(resp::kNotAnIntegerLine); }

Outcome CommandContext::FailArity() { return Fail(resp::ArityError(*spec)); }

Error IndexReadOnlyError() { return Error(ErrorCode::kIndexReadOnly, "the index cannot be written at the moment"); }

bool CommandContext::IndexReadOnly() {
  if (!master().index_read_only()) return false;
  Fail(IndexReadOnlyError());
  return true;
}

Outcome CommandContext::Finish(const Status& status) {
  if (!status.ok()) return Fail(status.error());
  reply.Simple("OK");
  return Outcome::kDone;
}

Outcome CommandContext::ParkFor(WakeReason reason, int64_t wait_ms) { return session_->ParkFor(reason, wait_ms, now); }

Outcome CommandContext::ParkForDialBack(const std::string& address, int64_t timeout_ms) {
  return session_->ParkForDialBack(address, timeout_ms);
}

}  // namespace tiercel::net
