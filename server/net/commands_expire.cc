// Times to live: TTL PTTL EXPIRETIME PEXPIRETIME EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST.
#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/expire_time.h"
#include "server/net/handlers.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

constexpr int64_t kAbsent = -2, kForever = -1;

// The moment of expiry, or kAbsent, kForever.
int64_t MomentOf(CommandContext& c) {
  const std::optional<int64_t> at = c.master().Expiry(c.Key(1), c.now);
  if (!at) return kAbsent;
  return *at == 0 ? kForever : *at;
}

Outcome ReplyLeft(CommandContext& c, bool seconds) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const int64_t at = MomentOf(c);
  if (at < 0) {
    c.reply.Integer(at);
    return Outcome::kDone;
  }
  const int64_t left = std::max<int64_t>(0, at - c.now.wall_ms);
  c.reply.Integer(seconds ? (left + 500) / 1000 : left);
  return Outcome::kDone;
}

Outcome ReplyMoment(CommandContext& c, bool seconds) {
  if (c.KeyTooLong(1)) return Outcome::kDone;
  const int64_t at = MomentOf(c);
  c.reply.Integer(at < 0 || !seconds ? at : (at + 500) / 1000);
  return Outcome::kDone;
}

struct Conditions {
  bool nx = false, xx = false, gt = false, lt = false;

  // A key without a time to live counts as one that lives for ever.
  bool Allow(int64_t current_ms, int64_t wanted_ms) const {
    if (nx && current_ms != 0) return false;
    if (xx && current_ms == 0) return false;
    if (gt && (current_ms == 0 || wanted_ms <= current_ms)) return false;
    if (lt && current_ms != 0 && wanted_ms >= current_ms) return false;
    return true;
  }
};

// False: replied.
bool ParseConditions(CommandContext& c, Conditions* conditions) {
  for (size_t i = 3; i < c.argc(); ++i) {
    const std::string_view word = c.arg(i);
    if (EqualsIgnoreCase(word, "nx")) {
      conditions->nx = true;
    } else if (EqualsIgnoreCase(word, "xx")) {
      conditions->xx = true;
    } else if (EqualsIgnoreCase(word, "gt")) {
      conditions->gt = true;
    } else if (EqualsIgnoreCase(word, "lt")) {
      conditions->lt = true;
    } else {
      c.FailLine(resp::UnsupportedOptionLine(word));
      return false;
    }
  }
  if (conditions->nx && (conditions->xx || conditions->gt || conditions->lt)) {
    c.FailLine(resp::kExpireNxLine);
    return false;
  }
  if (conditions->gt && conditions->lt) {
    c.FailLine(resp::kExpireGtLtLine);
    return false;
  }
  return true;
}

Outcome RunExpire(CommandContext& c, ExpireForm form) {
  Conditions conditions;
  if (!ParseConditions(c, &conditions)) return Outcome::kDone;
  const auto value = ParseInt64(c.arg(2));
  if (!value) return c.FailNotInteger();
  const auto moment = ExpireMoment(*value, form, c.now.wall_ms);
  if (!moment) return c.FailLine(resp::InvalidExpireLine(c.spec->name));
  if (c.KeyTooLong(1) || c.IndexReadOnly()) return Outcome::kDone;
  const core::KeyRef key = c.Key(1);
  const std::optional<int64_t> current = c.master().Expiry(key, c.now);
  const bool done = current && conditions.Allow(*current, *moment) && c.master().ExpireAt(key, *moment, c.now);
  c.reply.Integer(done ? 1 : 0);
  return Outcome::kDone;
}

}  // namespace

Outcome DoTtl(CommandContext& c) { return ReplyLeft(c, true); }
Outcome DoPttl(CommandContext& c) { return ReplyLeft(c, false); }
Outcome DoExpiretime(CommandContext& c) { return ReplyMoment(c, true); }
Outcome DoPexpiretime(CommandContext& c) { return ReplyMoment(c, false); }
Outcome DoExpire(CommandContext& c) { return RunExpire(c, ExpireForm::kSeconds); }
Outcome DoPexpire(CommandContext& c) { return RunExpire(c, ExpireForm::kMillis); }
Outcome DoExpireat(CommandContext& c) { return RunExpire(c, ExpireForm::kUnixSeconds); }
Outcome DoPexpireat(CommandContext& c) { return RunExpire(c, ExpireForm::kUnixMillis); }

Outcome DoPersist(CommandContext& c) {
  if (c.KeyTooLong(1) || c.IndexReadOnly()) return Outcome::kDone;
  c.reply.Integer(c.master().Persist(c.Key(1), c.now) ? 1 : 0);
  return Outcome::kDone;
}

}  // namespace tiercel::net
