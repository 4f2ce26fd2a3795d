// GET MGET GETDEL STRLEN GETRANGE SUBSTR.
#include <algorithm>

#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/answer_value.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

constexpr size_t kStep = 256;  // keys looked up under one hold

}  // namespace

Outcome DoGet(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const core::KeyRef key = c.Key(1);
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!c.master().Lookup(key, PlainRead(c), c.now, &info)) {
    c.reply.Null();
    return Outcome::kDone;
  }
  return AnswerValue(c, key, info, 0, info.size);
}

// Answers key by key, each a value of one moment but not all of the same: a snapshot of any number of large values
// would pin them all for as long as the client reads. progress().cursor: the next argument, 0 before the first.
Outcome DoMget(CommandContext& c) {
  Progress& progress = c.progress();
  if (progress.cursor == 0) {
    progress.cursor = 1;
    c.reply.Array(c.argc() - 1);
  }
  const uint64_t budget = c.server.limits.reply_budget_bytes.load(std::memory_order_relaxed);
  const size_t begun = progress.cursor;
  core::ObjectInfo& info = c.session().worker().object_scratch();
  while (progress.cursor < c.argc()) {
    const size_t i = progress.cursor;
    if (i - begun >= kStep || c.reply.out()->size() >= budget) return Outcome::kMore;
    ++progress.cursor;
    const core::KeyRef key = c.Key(i);
    if (c.arg(i).size() > kMaxKeyBytes || !c.master().Lookup(key, PlainRead(c), c.now, &info)) {
      c.reply.Null();
      continue;
    }
    const Outcome outcome = AnswerValue(c, key, info, 0, info.size, true);
    if (outcome != Outcome::kMore) return outcome;
  }
  return Outcome::kDone;
}

Outcome DoGetdel(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const core::KeyRef key = c.Key(1);
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!c.master().Lookup(key, PlainRead(c), c.now, &info)) {
    c.reply.Null();
    return Outcome::kDone;
  }
  if (c.IndexReadOnly()) return Outcome::kDone;
  // The pin of a streamed value keeps its bytes although the object goes now.
  const size_t start = c.reply.out()->size();
  const Outcome outcome = AnswerValue(c, key, info, 0, info.size);
  const bool failed = c.reply.out()->size() > start && (*c.reply.out())[start] == '-';
  if (!failed) c.master().Delete(key, c.now);
  return outcome;
}

Outcome DoStrlen(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  core::ObjectInfo& info = c.session().worker().object_scratch();
  core::LookupOptions options = PlainRead(c);
  const bool there = c.master().Lookup(c.Key(1), options, c.now, &info);
  c.reply.Integer(there ? static_cast<int64_t>(info.size) : 0);
  return Outcome::kDone;
}

Outcome DoGetrange(CommandContext& c) {
  const auto first = ParseInt64(c.arg(2)), last = ParseInt64(c.arg(3));
  if (!first || !last) return c.FailNotInteger();
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const core::KeyRef key = c.Key(1);
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!c.master().Lookup(key, PlainRead(c), c.now, &info)) {
    c.reply.Bulk({});
    return Outcome::kDone;
  }
  const auto size = static_cast<int64_t>(info.size);
  int64_t from = *first, to = *last;
  if (from < 0 && to < 0 && from > to) {
    c.reply.Bulk({});
    return Outcome::kDone;
  }
  if (from < 0) from = std::max<int64_t>(0, size + std::max(from, -size));
  if (to < 0) to = std::max<int64_t>(0, size + std::max(to, -size));
  to = std::min(to, size - 1);
  if (size == 0 || from > to) {
    c.reply.Bulk({});
    return Outcome::kDone;
  }
  return AnswerValue(c, key, info, static_cast<uint64_t>(from), static_cast<uint64_t>(to - from + 1));
}

}  // namespace tiercel::net
