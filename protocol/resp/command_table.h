// The one table of commands: name, arity, flags, key positions, categories, summary. Dispatch, COMMAND, help,
// documentation and ACL derive from it.
#pragma once

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

// One enumerator a row of the table, made from the same list (command_list.inc).
enum class CommandId : uint16_t;

struct CommandSpec {
  CommandId id;
  std::string_view name;  // lower case
  int arity;              // as Redis: negative is "at least"; counts the name
  uint32_t flags;
  int first_key, last_key, key_step;  // as Redis; 0 for none. numkeys commands: first_key 2, last 0 (see movable)
  bool movable_keys;                  // key positions depend on arguments (numkeys)
  std::string_view categories;        // space-separated ACL categories without @
  std::string_view group;             // as COMMAND DOCS names groups
  std::string_view since;
  std::string_view summary;
  std::string_view syntax;  // arguments, for help
};

std::span<const CommandSpec> CommandTable();
// Any case. nullptr when unknown. O(1), does not allocate.
const CommandSpec* FindCommand(std::string_view name);

}  // namespace tiercel::resp
