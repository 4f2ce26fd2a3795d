// Redis's error texts, to the letter: clients compare some of them whole and act on the first word of all.
//
// Whole lines without "-" and CRLF, for Encoder::ErrorLine; those that name something are functions. What clients
// sent is cut and cleaned here as Redis 7.0 does it, so that no argument can break the reply's line.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "protocol/resp/command_table.h"
#include "tiercel/error.h"

namespace tiercel::resp {

// ---- a command that cannot be dispatched
// "unknown command 'foo', with args beginning with: 'a' 'b' ": name and list cut near 128 bytes, a NUL ends a word.
Error UnknownCommandError(std::span<const std::string_view> arguments);
// "unknown subcommand 'x'. Try CLIENT HELP."
Error UnknownSubcommandError(const CommandSpec& container, std::string_view subcommand);
// "wrong number of arguments for 'client|id' command"
Error ArityError(const CommandSpec& spec);
// Why ResolveCommand answered nullptr. REQUIRES: it did; at least one argument.
Error ResolveError(std::span<const std::string_view> arguments);

// ---- lines that name something
std::string InvalidExpireLine(std::string_view command);  // "ERR invalid expire time in 'set' command"
std::string UnsupportedOptionLine(std::string_view option);
std::string HelloOptionLine(std::string_view option);
std::string UnknownConfigLine(std::string_view name);
std::string ConfigSetFailedLine(std::string_view name, std::string_view why);
std::string UnknownClientTypeLine(std::string_view type);
// `text` as it may stand in an error: at most `limit` bytes, ended by a NUL, CR and LF as spaces.
std::string CleanForError(std::string_view text, size_t limit = 128);

// ---- lines as they are
inline constexpr std::string_view kSyntaxErrorLine = "ERR syntax error";
inline constexpr std::string_view kNotAnIntegerLine = "ERR value is not an integer or out of range";
inline constexpr std::string_view kNotAFloatLine = "ERR value is not a valid float";
inline constexpr std::string_view kOutOfRangeLine = "ERR index out of range";
inline constexpr std::string_view kDbIndexLine = "ERR DB index is out of range";
inline constexpr std::string_view kInvalidCursorLine = "ERR invalid cursor";
inline constexpr std::string_view kNoSuchKeyLine = "ERR no such key";
inline constexpr std::string_view kStringTooLongLine = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view kExpireNxLine = "ERR NX and XX, GT or LT options at the same time are not compatible";
inline constexpr std::string_view kExpireGtLtLine = "ERR GT and LT options at the same time are not compatible";
inline constexpr std::string_view kNoAuthLine = "NOAUTH Authentication required.";
inline constexpr std::string_view kNoAuthHelloLine =
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option "
    "can be used to authenticate the client and select the RESP protocol version at the same time";
inline constexpr std::string_view kWrongPassLine = "WRONGPASS invalid username-password pair or user is disabled.";
inline constexpr std::string_view kNoPasswordSetLine =
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration "
    "is correct?";
inline constexpr std::string_view kNoProtoLine = "NOPROTO unsupported protocol version";
inline constexpr std::string_view kProtoNotAnIntegerLine = "ERR Protocol version is not an integer or out of range";
inline constexpr std::string_view kClientNameLine =
    "ERR Client names cannot contain spaces, newlines or special characters.";
inline constexpr std::string_view kNoSuchClientLine = "ERR No such client";
inline constexpr std::string_view kInvalidClientIdLine = "ERR Invalid client ID";
inline constexpr std::string_view kClientIdTooSmallLine = "ERR client-id should be greater than 0";
inline constexpr std::string_view kMaxClientsLine = "ERR max number of clients reached";
inline constexpr std::string_view kOomLine = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view kLoadingLine = "LOADING Tiercel is loading the index in memory";
inline constexpr std::string_view kNoLfuLine =
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
    "between "
    "policies at runtime LRU and LFU data will take some time to adjust.";
inline constexpr std::string_view kClusterDisabledLine = "ERR This instance has cluster support disabled";
inline constexpr std::string_view kNumkeysTooSmallLine = "ERR numkeys should be greater than 0";
inline constexpr std::string_view kNumkeysTooLargeLine = "ERR Number of keys can't be greater than number of args";
inline constexpr std::string_view kInvalidCommandLine = "ERR Invalid command specified";         // COMMAND GETKEYS
inline constexpr std::string_view kNoKeyArgumentsLine = "ERR The command has no key arguments";  // COMMAND GETKEYS

}  // namespace tiercel::resp
