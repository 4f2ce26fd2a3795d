// GETREPLICAS, MGETREPLICAS, PREFIXMATCH: where bytes are, under a lease.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/replica_reply.h"

namespace tiercel::net {
namespace {

// Keys that are hashed and prefetched before they are looked up.
constexpr size_t kAhead = core::Master::kPrefetch;
// Keys of a prefix that are matched at once.
constexpr size_t kPrefixStep = kAhead;

Status ReadLookupOption(OptionReader& reader, core::LookupOptions* options) {
  if (reader.Is("NOLEASE")) {
    options->lease = false;
    options->touch = false;
  } else if (reader.Is("LEASE")) {
    TIERCEL_ASSIGN(options->lease_ms, reader.Integer(0, INT64_MAX));
  } else {
    return reader.Unknown();
  }
  return Ok();
}

// "numkeys key...": how many keys, all of them short enough. The options begin behind them.
Result<size_t> ReadKeyCount(const CommandContext& c) {
  const std::optional<int64_t> count = ParseInt64(c.arg(1));
  if (!count || *count <= 0) return Error(ErrorCode::kInvalid, "numkeys should be greater than 0");
  if (static_cast<uint64_t>(*count) > c.argc() - 2) {
    return Error(ErrorCode::kInvalid, "Number of keys can't be greater than number of args");
  }
  for (const std::string_view key : c.args.subspan(2, static_cast<size_t>(*count))) {
    if (key.size() > kMaxKeyBytes) return CheckKey("key", key).error();
  }
  return static_cast<size_t>(*count);
}

// Calls f(i, key) for each key argument in [first, first + count), with its place in the table on its way to the
// cache; others get the lock now and then.
template <typename F>
void ForEachKey(CommandContext& c, size_t first, size_t count, F&& f) {
  std::array<core::KeyRef, kAhead> ahead;
  for (size_t done = 0; done < count; done += kAhead) {
    c.Breathe(done);
    const size_t n = std::min(kAhead, count - done);
    for (size_t i = 0; i < n; ++i) ahead[i] = c.Key(first + done + i);
    c.master().Prefetch(std::span(ahead).first(n));
    for (size_t i = 0; i < n; ++i) f(ahead[i]);
  }
}

struct PrefixState {
  uint32_t matched = 0, leased = 0;
  int64_t lease_ms = 0;
};

// In steps, so that a long prefix does not keep others waiting. Leased ones are always the leading ones.
PrefixState MatchPrefix(CommandContext& c, size_t count, core::LookupOptions options) {
  PrefixState state;
  std::array<core::KeyRef, kPrefixStep> keys;
  for (size_t done = 0; done < count; done += kPrefixStep) {
    c.Breathe(done);
    const size_t n = std::min(kPrefixStep, count - done);
    for (size_t i = 0; i < n; ++i) keys[i] = c.Key(2 + done + i);
    c.master().Prefetch(std::span(keys).first(n));
    const core::Master::PrefixAnswer answer = c.master().PrefixMatch(std::span(keys).first(n), options, c.now);
    state.matched += answer.matched;
    state.leased += answer.leased;
    if (answer.leased > 0) {
      state.lease_ms = state.lease_ms == 0 ? answer.lease_ms : std::min(state.lease_ms, answer.lease_ms);
    }
    if (answer.leased < n) options.lease = false;
    if (answer.matched < n) break;
  }
  return state;
}

}  // namespace

Outcome DoGetReplicas(CommandContext& c) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  core::LookupOptions options;
  OptionReader reader(c.args, 2);
  while (reader.Next()) {
    if (reader.Is("TIER")) {
      const Result<Tier> tier = reader.TierName();
      if (!tier.ok()) return c.Fail(tier.error());
      options.tier = *tier;
    } else if (const Status read = ReadLookupOption(reader, &options); !read.ok()) {
      return c.Fail(read.error());
    }
  }
  core::ObjectInfo& object = ScratchObject();
  if (c.master().Lookup(c.Key(1), options, c.now, &object)) {
    ReplyObject(c, &object);
  } else {
    c.reply.Null();
  }
  return Outcome::kDone;
}

Outcome DoMGetReplicas(CommandContext& c) {
  const Result<size_t> count = ReadKeyCount(c);
  if (!count.ok()) return c.Fail(count.error());
  core::LookupOptions options;
  OptionReader reader(c.args, 2 + *count);
  while (reader.Next()) {
    if (const Status read = ReadLookupOption(reader, &options); !read.ok()) return c.Fail(read.error());
  }
  c.reply.Array(*count);
  ForEachKey(c, 2, *count, [&](const core::KeyRef& key) {
    core::ObjectInfo& object = ScratchObject();
    if (c.master().Lookup(key, options, c.now, &object)) {
      ReplyObject(c, &object);
    } else {
      c.reply.Null();
    }
  });
  return Outcome::kDone;
}

Outcome DoPrefixMatch(CommandContext& c) {
  const Result<size_t> count = ReadKeyCount(c);
  if (!count.ok()) return c.Fail(count.error());
  core::LookupOptions options;
  bool with_replicas = false;
  OptionReader reader(c.args, 2 + *count);
  while (reader.Next()) {
    if (reader.Is("WITHREPLICAS")) {
      with_replicas = true;
    } else if (const Status read = ReadLookupOption(reader, &options); !read.ok()) {
      return c.Fail(read.error());
    }
  }
  const PrefixState prefix = MatchPrefix(c, *count, options);
  c.reply.Array(with_replicas ? 4 : 3);
  c.reply.Integer(prefix.matched);
  c.reply.Integer(prefix.leased);
  c.reply.Integer(prefix.lease_ms);
  if (!with_replicas) return Outcome::kDone;
  // Leased and counted as used already. One that went meanwhile (only unleased ones can) is null.
  const core::LookupOptions look{.lease = false, .lease_ms = {}, .tier = {}, .from_exists = false, .touch = false};
  c.reply.Array(prefix.matched);
  ForEachKey(c, 2, prefix.matched, [&](const core::KeyRef& key) {
    core::ObjectInfo& object = ScratchObject();
    if (c.master().Lookup(key, look, c.now, &object)) {
      ReplyObject(c, &object);
    } else {
      c.reply.Null();
    }
  });
  return Outcome::kDone;
}

}  // namespace tiercel::net
