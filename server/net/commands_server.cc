// CONFIG TIME SHUTDOWN CLUSTER.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "protocol/resp/errors.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

}  // namespace

Outcome DoConfigGet(CommandContext& c) {
  std::map<std::string, std::string> rows;  // in order, each once
  for (size_t i = 2; i < c.argc() && c.server.ports.config != nullptr; ++i) {
    for (ConfigPort::Row& row : c.server.ports.config->Get(LowerCase(c.arg(i)))) rows.insert(std::move(row));
  }
  c.reply.Map(rows.size());
  for (const auto& [name, value] : rows) {
    c.reply.Bulk(name);
    c.reply.Bulk(value);
  }
  return Outcome::kDone;
}

Outcome DoConfigSet(CommandContext& c) {
  if (c.argc() % 2 != 0) return c.FailSyntax();
  std::vector<ConfigPort::Row> changes;
  for (size_t i = 2; i + 1 < c.argc(); i += 2) {
    std::string name = LowerCase(c.arg(i));
    const bool twice = std::any_of(changes.begin(), changes.end(), [&](const auto& row) { return row.first == name; });
    if (twice) return c.FailLine(resp::ConfigSetFailedLine(name, "duplicate parameter"));
    changes.emplace_back(std::move(name), c.arg(i + 1));
  }
  if (c.server.ports.config == nullptr) return c.FailLine(resp::UnknownConfigLine(c.arg(2)));
  const Status done = c.server.ports.config->Set(changes);
  if (!done.ok()) return c.FailLine("ERR " + done.error().message());
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoConfigResetstat(CommandContext& c) {
  c.session().shared().ResetStats();
  c.reply.Simple("OK");
  return Outcome::kDone;
}

Outcome DoTime(CommandContext& c) {
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  c.reply.Array(2);
  c.reply.Bulk(fmt::format_int(micros / 1'000'000).str());
  c.reply.Bulk(fmt::format_int(micros % 1'000'000).str());
  return Outcome::kDone;
}

Outcome DoShutdown(CommandContext& c) {
  bool abort = false;
  for (size_t i = 1; i < c.argc(); ++i) {
    const std::string_view word = c.arg(i);
    if (EqualsIgnoreCase(word, "abort")) {
      abort = true;
    } else if (!EqualsIgnoreCase(word, "nosave") && !EqualsIgnoreCase(word, "save") && !EqualsIgnoreCase(word, "now") &&
               !EqualsIgnoreCase(word, "force")) {
      return c.FailSyntax();
    }
  }
  if (abort) return c.argc() == 2 ? c.FailLine("ERR No shutdown in progress.") : c.FailSyntax();
  if (c.server.ports.process == nullptr) return c.FailLine("ERR Errors trying to SHUTDOWN. Check logs.");
  c.server.ports.process->Shutdown();
  return Outcome::kClose;  // as in Redis: no answer but the end of the connection
}

Outcome DoBgsave(CommandContext& c) {
  if (c.argc() == 2 && !EqualsIgnoreCase(c.arg(1), "schedule")) return c.FailSyntax();
  if (c.server.ports.process == nullptr) return c.FailLine("ERR there is nothing to save");
  const Status started = c.server.ports.process->StartSave();
  if (!started.ok()) return c.FailLine("ERR " + started.error().message());
  c.reply.Simple("Background saving started");
  return Outcome::kDone;
}

Outcome DoLastsave(CommandContext& c) {
  const bool knows = c.server.ports.process != nullptr;
  c.reply.Integer(knows ? c.server.ports.process->saves().last_wall_ms / 1000 : 0);
  return Outcome::kDone;
}

Outcome DoCluster(CommandContext& c) { return c.FailLine(resp::kClusterDisabledLine); }

}  // namespace tiercel::net
