// CLIENT and its subcommands.
#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

void AppendClient(const ClientRow& row, Times now, std::string* out) {
  std::string user, name, lib_name, lib_version;
  {
    std::lock_guard lock(row.mutex);
    user = row.user, name = row.name, lib_name = row.lib_name, lib_version = row.lib_version;
  }
  const auto load = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  const resp::CommandSpec* command = load(row.last_command);
  const uint64_t query = load(row.query_bytes), output = load(row.output_bytes);
  std::string flags;
  if (load(row.parked)) flags += 'b';
  if (load(row.no_evict)) flags += 'e';
  if (flags.empty()) flags = "N";
  fmt::format_to(std::back_inserter(*out),
                 "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 multi=-1 "
                 "qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} oll=0 omem={} tot-mem={} events=r "
                 "cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={}\n",
                 row.id, row.peer_address, row.local_address, row.fd, name, (now.boot_ms - row.connected_ms) / 1000,
                 std::max<int64_t>(0, now.boot_ms - load(row.last_active_ms)) / 1000, flags, load(row.name_space),
                 query, output, output, sizeof(Session) + query + output, command == nullptr ? "NULL" : command->name,
                 user, load(row.protocol), lib_name, lib_version);
}

bool IsTypeName(std::string_view type) {
  return EqualsIgnoreCase(type, "normal") || EqualsIgnoreCase(type, "master") || EqualsIgnoreCase(type, "replica") ||
         EqualsIgnoreCase(type, "slave") || EqualsIgnoreCase(type, "pubsub");
}

// Every connection here is a normal one.
bool TypeMatches(std::string_view type) { return EqualsIgnoreCase(type, "normal"); }

struct KillFilter {
  std::optional<int64_t> id;
  std::optional<std::string_view> user, address, local_address, type;
  bool skip_me = true;

  bool Matches(const ClientRow& row, core::ConnectionId me) const {
    if (skip_me && row.id == me) return false;
    if (id && static_cast<core::ConnectionId>(*id) != row.id) return false;
    if (address && *address != row.peer_address) return false;
    if (local_address && *local_address != row.local_address) return false;
    if (type && !TypeMatches(*type)) return false;
    if (user) {
      std::lock_guard lock(row.mutex);
      if (*user != row.user) return false;
    }
    return true;
  }
};

// False: replied.
bool ParseKill(CommandContext& c, KillFilter* filter) {
  if (c.argc() % 2 != 0) {
    c.FailSyntax();
    return false;
  }
  for (size_t i = 2; i + 1 < c.argc(); i += 2) {
    const std::string_view name = c.arg(i), value = c.arg(i + 1);
    if (EqualsIgnoreCase(name, "id")) {
      filter->id = ParseInt64(value);
      if (!filter->id || *filter->id < 1) {
        c.FailLine(resp::kClientIdTooSmallLine);
        return false;
      }
    } else if (EqualsIgnoreCase(name, "type")) {
      if (!IsTypeName(value)) {
        c.FailLine(resp::UnknownClientTypeLine(value));
        return false;
      }
      filter->type = value;
    } else if (EqualsIgnoreCase(name, "addr")) {
      filter->address = value;
    } else if (EqualsIgnoreCase(name, "laddr")) {
      filter->local_address = value;
    } else if (EqualsIgnoreCase(name, "user")) {
      if (!c.server.users->Exists(value)) {
        c.FailLine(fmt::format("ERR No such user '{}'", resp::CleanForError(value)));
        return false;
      }
      filter->user = value;
    } else if (EqualsIgnoreCase(name, "skipme")) {
      if (!EqualsIgnoreCase(value, "yes") && !EqualsIgnoreCase(value, "no")) {
        c.FailSyntax();
        return false;
      }
      filter->skip_me = EqualsIgnoreCase(value, "yes");
    } else {
      c.FailSyntax();
      return false;
    }
  }
  return true;
}

}  // namespace

Outcome DoClientId(CommandContext& c) {
  c.reply.Integer(static_cast<int64_t>(c.state.id));
  return Outcome::kDone;
}

Outcome DoClientGetname(CommandContext& c) {
  if (c.state.name.empty()) {
    c.reply.Null();
  } else {
    c.reply.Bulk(c.state.name);
  }
  return Outcome::kDone;
}

Outcome DoClientSetname(CommandContext& c) {
  if (!IsPlainName(c.arg(2))) return c.FailLine(resp::kClientNameLine);
  c.state.name = c.arg(2);
  c.session().MarkPublishedUser();
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoClientSetinfo(CommandContext& c) {
  const bool name = EqualsIgnoreCase(c.arg(2), "lib-name");
  if (!name && !EqualsIgnoreCase(c.arg(2), "lib-ver")) {
    return c.FailLine(fmt::format("ERR Unrecognized option '{}'", resp::CleanForError(c.arg(2))));
  }
  if (!IsPlainName(c.arg(3))) {
    return c.FailLine(
        fmt::format("ERR {} cannot contain spaces, newlines or special characters.", name ? "lib-name" : "lib-ver"));
  }
  (name ? c.state.lib_name : c.state.lib_version) = c.arg(3);
  c.session().MarkPublishedUser();
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoClientInfo(CommandContext& c) {
  std::string text;
  AppendClient(c.session().row(), c.now, &text);
  c.reply.Verbatim(text);
  return Outcome::kDone;
}

Outcome DoClientList(CommandContext& c) {
  std::vector<std::shared_ptr<ClientRow>> rows;
  if (c.argc() == 2) {
    rows = c.server.registry.All();
  } else if (c.argc() == 4 && EqualsIgnoreCase(c.arg(2), "type")) {
    if (!IsTypeName(c.arg(3))) return c.FailLine(resp::UnknownClientTypeLine(c.arg(3)));
    if (TypeMatches(c.arg(3))) rows = c.server.registry.All();
  } else if (c.argc() > 3 && EqualsIgnoreCase(c.arg(2), "id")) {
    for (size_t i = 3; i < c.argc(); ++i) {
      const auto id = ParseInt64(c.arg(i));
      if (!id) return c.FailLine(resp::kInvalidClientIdLine);
      if (auto row = c.server.registry.Find(static_cast<core::ConnectionId>(*id))) rows.push_back(std::move(row));
    }
  } else {
    return c.FailSyntax();
  }
  std::string text;
  for (const auto& row : rows) AppendClient(*row, c.now, &text);
  c.reply.Verbatim(text);
  return Outcome::kDone;
}

Outcome DoClientKill(CommandContext& c) {
  KillFilter filter;
  const bool old_form = c.argc() == 3;
  if (old_form) {
    filter.address = c.arg(2);
    filter.skip_me = false;
  } else if (!ParseKill(c, &filter)) {
    return Outcome::kDone;
  }
  int64_t killed = 0;
  bool self = false;
  for (const auto& row : c.server.registry.All()) {
    if (!row->kill || !filter.Matches(*row, c.state.id)) continue;
    ++killed;
    if (row->id == c.state.id) {
      self = true;  // after its reply
    } else {
      row->kill();
      c.session().shared().registry.Remove(row->id);  // it is as good as gone, though its loop has not heard yet
    }
  }
  if (!old_form) {
    c.reply.Integer(killed);
  } else if (killed == 0) {
    return c.FailLine(resp::kNoSuchClientLine);
  } else {
    c.reply.Simple("OK");
  }
  return self ? Outcome::kClose : Outcome::kDone;
}

Outcome DoClientReply(CommandContext& c) {
  using Mode = SessionState::ReplyMode;
  if (EqualsIgnoreCase(c.arg(2), "on")) {
    c.state.reply_mode = Mode::kOn;
    c.reply.Simple("OK");
  } else if (EqualsIgnoreCase(c.arg(2), "off")) {
    c.state.reply_mode = Mode::kOff;
  } else if (EqualsIgnoreCase(c.arg(2), "skip")) {
    if (c.state.reply_mode != Mode::kOff) c.state.reply_mode = Mode::kSkipNext;
  } else {
    return c.FailSyntax();
  }
  return Outcome::kDone;
}

Outcome DoClientNoEvict(CommandContext& c) {
  if (!EqualsIgnoreCase(c.arg(2), "on") && !EqualsIgnoreCase(c.arg(2), "off")) return c.FailSyntax();
  c.state.no_evict = EqualsIgnoreCase(c.arg(2), "on");
  c.session().row().no_evict.store(c.state.no_evict, std::memory_order_relaxed);
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoClientNoTouch(CommandContext& c) {
  if (!EqualsIgnoreCase(c.arg(2), "on") && !EqualsIgnoreCase(c.arg(2), "off")) return c.FailSyntax();
  c.state.no_touch = EqualsIgnoreCase(c.arg(2), "on");
  c.session().row().no_touch.store(c.state.no_touch, std::memory_order_relaxed);
  c.reply.Simple("OK");
  return Outcome::kDone;
}

}  // namespace tiercel::net
