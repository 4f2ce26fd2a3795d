// The one table of commands: name, arity, flags, key positions, categories, summary. Dispatch, COMMAND, help,
// documentation and ACL derive from it. Its rows are in command_list.inc.
//
// Containers (CLIENT, CONFIG, ...) have a row of their own and a row for each subcommand, named "client|id".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tiercel::resp {

enum CommandFlag : uint32_t {
  kWrite = 1u << 0,
  kReadOnly = 1u << 1,
  kDenyOom = 1u << 2,
  kAdmin = 1u << 3,
  kPubSub = 1u << 4,
  kNoAuth = 1u << 5,     // allowed before authentication
  kLoadingOk = 1u << 6,  // answered while the index loads
  kStaleOk = 1u << 7,
  kFast = 1u << 8,
  kBlocking = 1u << 9,
  kNoMulti = 1u << 10,
  kStoreRight = 1u << 11,  // needs the right of a store: such a connection receives grant keys
  kStoreRole = 1u << 12,   // also answered by a process without the master's role
  kSecretArgs = 1u << 13,  // arguments are masked in logs, MONITOR and SLOWLOG
};

// The flags that COMMAND shows, by Redis's names.
struct CommandFlagName {
  uint32_t flag;
  std::string_view name;
};
inline constexpr CommandFlagName kCommandFlagNames[] = {
    {kWrite, "write"},   {kReadOnly, "readonly"}, {kDenyOom, "denyoom"},   {kAdmin, "admin"},
    {kPubSub, "pubsub"}, {kNoAuth, "no_auth"},    {kLoadingOk, "loading"}, {kStaleOk, "stale"},
    {kFast, "fast"},     {kBlocking, "blocking"}, {kNoMulti, "no_multi"},
};

// One enumerator a row of the table: commands first, then subcommands, so that a value indexes an array of handlers.
enum class CommandId : uint16_t {
#define TIERCEL_COMMAND(id, ...) id,
#include "protocol/resp/command_list.inc"
#define TIERCEL_SUBCOMMAND(parent, id, ...) id,
#include "protocol/resp/command_list.inc"
  kCount
};
inline constexpr size_t kCommandIdCount = static_cast<size_t>(CommandId::kCount);

struct CommandSpec {
  CommandId id;
  std::string_view name;  // lower case
  int arity;              // as Redis: negative is "at least"; counts the name (for subcommands both words)
  uint32_t flags;
  int first_key, last_key, key_step;  // as Redis; 0 for none. numkeys commands: first_key 2, last 0 (see movable)
  bool movable_keys;                  // key positions depend on arguments (numkeys)
  std::string_view categories;        // space-separated ACL categories without @
  std::string_view group;             // as COMMAND DOCS names groups
  std::string_view since;
  std::string_view summary;
  std::string_view syntax;  // arguments, for help
  CommandId parent;         // of a subcommand; a command's own id else

  constexpr bool is_subcommand() const { return parent != id; }
  constexpr bool ArityFits(size_t arguments) const {
    return arity >= 0 ? arguments == static_cast<size_t>(arity) : arguments >= static_cast<size_t>(-arity);
  }
};

std::span<const CommandSpec> CommandTable();                             // without subcommands
std::span<const CommandSpec> Subcommands(const CommandSpec& container);  // empty when it is none
const CommandSpec& SpecOf(CommandId id);

// Any case. nullptr when unknown. O(1), does not allocate.
const CommandSpec* FindCommand(std::string_view name);
// By the second word: FindSubcommand(client, "ID").
const CommandSpec* FindSubcommand(const CommandSpec& container, std::string_view name);
// The row that carries these arguments out, a subcommand's for a container; nullptr when the command or subcommand
// is unknown or the number of arguments is wrong: ResolveError (errors.h) then has Redis's words for it.
const CommandSpec* ResolveCommand(std::span<const std::string_view> arguments);

// Where the keys are: first, first + step, ... `count` of them. Positions count the command's name as 0.
struct KeyPositions {
  size_t first = 0;
  size_t count = 0;
  size_t step = 1;
};
// Does not allocate. nullopt when a numkeys argument is not a number, below 1, or promises more keys than there are
// arguments. REQUIRES: the arity fits. (A key that is an option's value, as PARENT's, is not among them.)
std::optional<KeyPositions> ExtractKeys(const CommandSpec& spec, std::span<const std::string_view> arguments);

}  // namespace tiercel::resp
