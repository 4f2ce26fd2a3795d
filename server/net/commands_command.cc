// COMMAND and its subcommands, out of the command table.
#include <fmt/format.h>

#include <vector>

#include "base/glob.h"
#include "protocol/resp/errors.h"
#include "server/net/handlers.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

using resp::CommandSpec;

std::vector<std::string_view> Categories(const CommandSpec& spec) {
  std::vector<std::string_view> words;
  for (std::string_view rest = spec.categories; !rest.empty();) {
    const size_t end = rest.find(' ');
    words.push_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return words;
}

// Name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands.
void ReplySpec(CommandContext& c, const CommandSpec& spec) {
  c.reply.Array(10);
  c.reply.Bulk(spec.name);
  c.reply.Integer(spec.arity);
  std::vector<std::string_view> flags;
  for (const resp::CommandFlagName& flag : resp::kCommandFlagNames) {
    if ((spec.flags & flag.flag) != 0) flags.push_back(flag.name);
  }
  if (spec.movable_keys) flags.push_back("movablekeys");
  c.reply.Set(flags.size());
  for (const std::string_view flag : flags) c.reply.Simple(flag);
  c.reply.Integer(spec.first_key);
  c.reply.Integer(spec.last_key);
  c.reply.Integer(spec.key_step);
  const std::vector<std::string_view> categories = Categories(spec);
  c.reply.Set(categories.size());
  for (const std::string_view category : categories) c.reply.Simple(fmt::format("@{}", category));
  c.reply.Array(0);
  c.reply.Array(0);
  const auto subcommands = resp::Subcommands(spec);
  c.reply.Array(subcommands.size());
  for (const CommandSpec& subcommand : subcommands) ReplySpec(c, subcommand);
}

void ReplyDocs(CommandContext& c, const CommandSpec& spec) {
  c.reply.Bulk(spec.name);
  const auto subcommands = resp::Subcommands(spec);
  c.reply.Map(subcommands.empty() ? 3 : 4);
  c.reply.Bulk("summary");
  c.reply.Bulk(spec.summary);
  c.reply.Bulk("since");
  c.reply.Bulk(spec.since);
  c.reply.Bulk("group");
  c.reply.Bulk(spec.group);
  if (subcommands.empty()) return;
  c.reply.Bulk("subcommands");
  c.reply.Map(subcommands.size());
  for (const CommandSpec& subcommand : subcommands) ReplyDocs(c, subcommand);
}

// "get", or "client|id".
const CommandSpec* FindByFullName(std::string_view name) {
  const size_t bar = name.find('|');
  const CommandSpec* spec = resp::FindCommand(name.substr(0, bar));
  if (spec == nullptr || bar == std::string_view::npos) return spec;
  return resp::FindSubcommand(*spec, name.substr(bar + 1));
}

bool HasCategory(const CommandSpec& spec, std::string_view category) {
  for (const std::string_view word : Categories(spec)) {
    if (word == category) return true;
  }
  return false;
}

}  // namespace

Outcome DoCommand(CommandContext& c) {
  c.reply.Array(resp::CommandTable().size());
  for (const CommandSpec& spec : resp::CommandTable()) ReplySpec(c, spec);
  return Outcome::kDone;
}

Outcome DoCommandCount(CommandContext& c) {
  c.reply.Integer(static_cast<int64_t>(resp::CommandTable().size()));
  return Outcome::kDone;
}

Outcome DoCommandInfo(CommandContext& c) {
  if (c.argc() == 2) return DoCommand(c);
  c.reply.Array(c.argc() - 2);
  for (size_t i = 2; i < c.argc(); ++i) {
    if (const CommandSpec* spec = FindByFullName(c.arg(i))) {
      ReplySpec(c, *spec);
    } else {
      c.reply.NullArray();
    }
  }
  return Outcome::kDone;
}

Outcome DoCommandDocs(CommandContext& c) {
  std::vector<const CommandSpec*> specs;
  if (c.argc() == 2) {
    for (const CommandSpec& spec : resp::CommandTable()) specs.push_back(&spec);
  }
  for (size_t i = 2; i < c.argc(); ++i) {
    if (const CommandSpec* spec = FindByFullName(c.arg(i))) specs.push_back(spec);
  }
  c.reply.Map(specs.size());
  for (const CommandSpec* spec : specs) ReplyDocs(c, *spec);
  return Outcome::kDone;
}

Outcome DoCommandList(CommandContext& c) {
  std::string_view category, pattern;
  bool none = false;
  if (c.argc() == 5 && EqualsIgnoreCase(c.arg(2), "filterby")) {
    if (EqualsIgnoreCase(c.arg(3), "module")) {
      none = true;  // there are no modules
    } else if (EqualsIgnoreCase(c.arg(3), "aclcat")) {
      category = c.arg(4);
    } else if (EqualsIgnoreCase(c.arg(3), "pattern")) {
      pattern = c.arg(4);
    } else {
      return c.FailSyntax();
    }
  } else if (c.argc() != 2) {
    return c.FailSyntax();
  }
  std::vector<std::string_view> names;
  const auto add = [&](const CommandSpec& spec) {
    if (!category.empty() && !HasCategory(spec, category)) return;
    if (!pattern.empty() && !GlobMatch(pattern, spec.name, true)) return;
    names.push_back(spec.name);
  };
  for (const CommandSpec& spec : resp::CommandTable()) {
    if (none) break;
    add(spec);
    for (const CommandSpec& subcommand : resp::Subcommands(spec)) add(subcommand);
  }
  c.reply.Array(names.size());
  for (const std::string_view name : names) c.reply.Bulk(name);
  return Outcome::kDone;
}

Outcome DoCommandGetkeys(CommandContext& c) {
  const std::span<const std::string_view> command = c.args.subspan(2);
  const CommandSpec* spec = resp::FindCommand(command[0]);
  if (spec == nullptr) return c.FailLine(resp::kInvalidCommandLine);
  const CommandSpec* resolved = resp::ResolveCommand(command);
  if (resolved == nullptr) {
    const bool has_keys = spec->first_key != 0 || !resp::Subcommands(*spec).empty();
    return c.FailLine(has_keys ? "ERR Invalid number of arguments specified for command" : resp::kNoKeyArgumentsLine);
  }
  if (resolved->first_key == 0) return c.FailLine(resp::kNoKeyArgumentsLine);
  const auto positions = resp::ExtractKeys(*resolved, command);
  if (!positions) return c.FailLine("ERR Invalid arguments specified for command");
  c.reply.Array(positions->count);
  for (size_t i = 0; i < positions->count; ++i) c.reply.Bulk(command[positions->first + i * positions->step]);
  return Outcome::kDone;
}

}  // namespace tiercel::net
