// HELP of every container, out of the command table.
#include <fmt/format.h>

#include "server/net/handlers.h"

namespace tiercel::net {
namespace {

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return upper;
}

}  // namespace

Outcome DoHelp(CommandContext& c) {
  const resp::CommandSpec& container = resp::SpecOf(c.spec->parent);
  const std::span<const resp::CommandSpec> subcommands = resp::Subcommands(container);
  c.reply.Array(1 + 2 * subcommands.size());
  c.reply.Simple(fmt::format("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", UpperCase(container.name)));
  for (const resp::CommandSpec& row : subcommands) {
    const std::string name = UpperCase(row.name.substr(row.name.find('|') + 1));
    c.reply.Simple(row.syntax.empty() ? name : fmt::format("{} {}", name, row.syntax));
    c.reply.Simple(fmt::format("    {}", row.summary));
  }
  return Outcome::kDone;
}

}  // namespace tiercel::net
