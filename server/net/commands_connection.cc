// PING ECHO HELLO AUTH SELECT QUIT RESET.
#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

// The connection does not speak for a store any longer: what hung on it is settled as if it had closed.
void DropStore(CommandContext& c) {
  c.state.store.reset();
  const auto on_close = std::exchange(c.state.on_close, nullptr);
  if (!on_close) return;
  MasterHost::Hold hold(c.server.host);
  on_close(hold.master(), c.now);
}

// REQUIRES: without the core's lock.
void BecomeUser(CommandContext& c, const Users::Identity& identity) {
  // A store is its user's: under another name, or without the right, nothing of it may be said here.
  const bool same = identity.name == c.state.user && (identity.store_right || c.state.in_process);
  if (c.state.store && !same) DropStore(c);
  c.state.authenticated = true;
  c.state.user = identity.name;
  c.state.user_id = UserId(identity.name);
  c.state.store_right = identity.store_right || c.state.in_process;
}

struct HelloOptions {
  int protocol = 0;  // 0: as it is
  std::optional<std::pair<std::string_view, std::string_view>> login;
  std::optional<std::string_view> name;
};

// Checks everything before anything changes. False: replied.
bool ParseHello(CommandContext& c, HelloOptions* options) {
  if (c.argc() >= 2) {
    const auto version = ParseInt64(c.arg(1));
    if (!version) {
      c.FailLine(resp::kProtoNotAnIntegerLine);
      return false;
    }
    if (*version < 2 || *version > 3) {
      c.FailLine(resp::kNoProtoLine);
      return false;
    }
    options->protocol = static_cast<int>(*version);
  }
  for (size_t i = 2; i < c.argc(); ++i) {
    const size_t behind = c.argc() - i - 1;
    if (EqualsIgnoreCase(c.arg(i), "auth") && behind >= 2) {
      options->login = {c.arg(i + 1), c.arg(i + 2)};
      i += 2;
    } else if (EqualsIgnoreCase(c.arg(i), "setname") && behind >= 1) {
      options->name = c.arg(++i);
      if (!IsPlainName(*options->name)) {
        c.FailLine(resp::kClientNameLine);
        return false;
      }
    } else {
      c.FailLine(resp::HelloOptionLine(c.arg(i)));
      return false;
    }
  }
  return true;
}

}  // namespace

Outcome DoPing(CommandContext& c) {
  if (c.argc() > 2) return c.FailArity();
  if (c.argc() == 2) {
    c.reply.Bulk(c.arg(1));
  } else {
    c.reply.Simple("PONG");
  }
  return Outcome::kDone;
}

Outcome DoEcho(CommandContext& c) {
  c.reply.Bulk(c.arg(1));
  return Outcome::kDone;
}

Outcome DoHello(CommandContext& c) {
  HelloOptions options;
  if (!ParseHello(c, &options)) return Outcome::kDone;
  if (options.login) {
    const auto identity = c.server.users->Login(options.login->first, options.login->second);
    if (!identity) return c.FailLine(resp::kWrongPassLine);
    BecomeUser(c, *identity);
  }
  if (!c.state.authenticated) return c.FailLine(resp::kNoAuthHelloLine);
  if (options.protocol != 0) c.state.protocol = options.protocol;
  if (options.name) c.state.name = *options.name;
  c.session().MarkPublishedUser();

  resp::Encoder reply(c.reply.out(), c.state.protocol);  // already in the new protocol
  reply.Map(7);
  reply.Bulk("server");
  reply.Bulk("redis");  // some clients look no further when this is another word
  reply.Bulk("version");
  reply.Bulk(kRedisVersion);
  reply.Bulk("proto");
  reply.Integer(c.state.protocol);
  reply.Bulk("id");
  reply.Integer(static_cast<int64_t>(c.state.id));
  reply.Bulk("mode");
  reply.Bulk("standalone");
  reply.Bulk("role");
  reply.Bulk("master");
  reply.Bulk("modules");
  reply.Array(0);
  return Outcome::kDone;
}

Outcome DoAuth(CommandContext& c) {
  if (c.argc() > 3) return c.FailSyntax();
  const bool named = c.argc() == 3;
  if (!named && !c.server.users->default_has_password()) return c.FailLine(resp::kNoPasswordSetLine);
  const auto identity = c.server.users->Login(named ? c.arg(1) : "default", c.arg(named ? 2 : 1));
  if (!identity) return c.FailLine(resp::kWrongPassLine);
  BecomeUser(c, *identity);
  c.session().MarkPublishedUser();
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoSelect(CommandContext& c) {
  const auto index = ParseInt64(c.arg(1));
  if (!index) return c.FailNotInteger();
  if (*index < INT32_MIN || *index > INT32_MAX) {
    return c.FailLine("ERR value is out of range, value must between -2147483648 and 2147483647");
  }
  if (*index < 0 || *index >= static_cast<int64_t>(c.server.options.databases)) return c.FailLine(resp::kDbIndexLine);
  c.state.name_space = static_cast<uint32_t>(*index);
  c.session().row().name_space.store(c.state.name_space, std::memory_order_relaxed);
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoQuit(CommandContext& c) {
  c.reply.Simple("OK");
  return Outcome::kClose;
}

// Back to how the connection began: for a store it has lost its connection. An open put stays what it is.
Outcome DoReset(CommandContext& c) {
  SessionState& state = c.state;
  DropStore(c);
  state.protocol = 2;
  state.name_space = 0;
  state.reply_mode = SessionState::ReplyMode::kOn;
  state.name.clear();
  state.no_evict = state.no_touch = false;
  if (!state.in_process) {
    state.authenticated = state.store_right = false;
    state.user = "default";
    if (const auto identity = c.server.users->Default()) BecomeUser(c, *identity);
    state.user_id = UserId(state.user);
  }
  c.session().MarkPublishedUser();
  c.reply.Simple("RESET");
  return Outcome::kDone;
}

}  // namespace tiercel::net
