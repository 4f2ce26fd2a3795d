// Commands about keys whatever they hold: DEL UNLINK EXISTS TOUCH TYPE, OBJECT's and MEMORY USAGE.
#include <array>

#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/answer_value.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

// Keys hashed and brought into cache ahead of their use.
constexpr size_t kAhead = core::Master::kPrefetch;
// Keys of one command in one turn; then other connections of the loop have theirs.
constexpr size_t kTurnKeys = 4096;
// What an object costs besides its bytes and its key, for MEMORY USAGE: the record, its index entry, its replica.
constexpr uint64_t kObjectOverheadBytes = 130;

// Calls f(key) for every key argument, prefetched; lets others in every 256 keys and every turn. progress().count is
// for f to count in. kMore: run again.
template <typename F>
Outcome ForEachKey(CommandContext& c, F&& f) {
  Progress& progress = c.progress();
  size_t i = std::max<size_t>(1, progress.cursor);
  const size_t begun = i;
  if (c.argc() == 2) {
    if (c.KeyTooLong(1)) return Outcome::kDone;
    f(c.Key(1));
    return Outcome::kDone;
  }
  std::array<core::KeyRef, kAhead> keys;
  while (i < c.argc()) {
    if (i - begun >= kTurnKeys) {
      progress.cursor = i;
      return Outcome::kMore;
    }
    c.Breathe((i - begun) / kAhead * kAhead);
    const size_t n = std::min(kAhead, c.argc() - i);
    for (size_t k = 0; k < n; ++k) keys[k] = c.Key(i + k);
    c.master().Prefetch(std::span(keys).first(n));
    for (size_t k = 0; k < n; ++k) {
      if (keys[k].key.size() <= kMaxKeyBytes) f(keys[k]);
    }
    i += n;
  }
  return Outcome::kDone;
}

template <typename F>
Outcome CountKeys(CommandContext& c, F&& f) {
  const size_t start = c.reply.out()->size();
  const Outcome outcome = ForEachKey(c, [&](const core::KeyRef& key) { c.progress().count += f(key) ? 1 : 0; });
  if (outcome != Outcome::kDone || c.reply.out()->size() > start) return outcome;
  c.reply.Integer(static_cast<int64_t>(c.progress().count));
  c.progress().count = 0;
  return Outcome::kDone;
}

// The key of OBJECT and MEMORY USAGE is the third word.
bool LookUpThird(CommandContext& c, core::ObjectInfo* info) {
  core::LookupOptions options;
  options.lease = options.touch = false;
  return c.master().Lookup(c.Key(2), options, c.now, info);
}

// False: replied with null or an error.
bool Found(CommandContext& c, core::ObjectInfo* info) {
  if (c.KeyTooLong(2)) return false;
  if (LookUpThird(c, info)) return true;
  c.reply.Null();
  return false;
}

}  // namespace

Outcome DoDel(CommandContext& c) {
  if (c.IndexReadOnly()) return Outcome::kDone;
  const size_t start = c.reply.out()->size();
  bool refused = false;  // the lock is given away between keys
  const Outcome outcome = CountKeys(c, [&](const core::KeyRef& key) {
    refused = refused || c.master().index_read_only();
    return !refused && c.master().Delete(key, c.now);
  });
  if (!refused || outcome != Outcome::kDone) return outcome;
  c.reply.out()->resize(start);
  return c.Fail(IndexReadOnlyError());
}

Outcome DoExists(CommandContext& c) {
  return CountKeys(c, [&](const core::KeyRef& key) { return c.master().Exists(key, c.now); });
}

Outcome DoTouch(CommandContext& c) {
  core::LookupOptions options;
  options.lease = false;
  core::ObjectInfo& info = c.session().worker().object_scratch();
  return CountKeys(c, [&](const core::KeyRef& key) { return c.master().Lookup(key, options, c.now, &info); });
}

Outcome DoType(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  c.reply.Simple(c.master().Expiry(c.Key(1), c.now) ? "string" : "none");
  return Outcome::kDone;
}

Outcome DoMemoryUsage(CommandContext& c) {
  if (c.argc() == 5) {
    if (!EqualsIgnoreCase(c.arg(3), "samples")) return c.FailSyntax();
    const auto samples = ParseInt64(c.arg(4));
    if (!samples) return c.FailNotInteger();
    if (*samples < 0) return c.FailSyntax();
  } else if (c.argc() != 3) {
    return c.FailSyntax();
  }
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!Found(c, &info)) return Outcome::kDone;
  uint64_t bytes = kObjectOverheadBytes + c.arg(2).size();
  for (const core::ReplicaInfo& replica : info.replicas) bytes += replica.extents.bytes();
  c.reply.Integer(static_cast<int64_t>(bytes));
  return Outcome::kDone;
}

// What Redis would have made of the value: "int" for a 64-bit number, "embstr" up to 44 bytes, "raw".
Outcome DoObjectEncoding(CommandContext& c) {
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!Found(c, &info)) return Outcome::kDone;
  constexpr uint64_t kLongestNumber = 20, kLongestEmbedded = 44;
  std::string value;
  if (info.size <= kLongestNumber && ReadSmall(c, c.Key(2), info, &value) && ParseInt64(value)) {
    c.reply.Bulk("int");
  } else {
    c.reply.Bulk(info.size <= kLongestEmbedded ? "embstr" : "raw");
  }
  return Outcome::kDone;
}

Outcome DoObjectRefcount(CommandContext& c) {
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!Found(c, &info)) return Outcome::kDone;
  c.reply.Integer(1);
  return Outcome::kDone;
}

Outcome DoObjectIdletime(CommandContext& c) {
  if (c.KeyTooLong(2)) return Outcome::kDone;
  core::ObjectDetail detail;
  if (!c.master().Describe(c.Key(2), c.now, &detail) || detail.state != "live") {
    c.reply.Null();
  } else {
    c.reply.Integer(detail.idle_ms / 1000);
  }
  return Outcome::kDone;
}

Outcome DoObjectFreq(CommandContext& c) {
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (!Found(c, &info)) return Outcome::kDone;
  return c.FailLine(resp::kNoLfuLine);
}

}  // namespace tiercel::net
