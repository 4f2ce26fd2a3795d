#include "protocol/resp/errors.h"

#include "base/check.h"

namespace tiercel::resp {
namespace {

constexpr size_t kShown = 128;

void AppendQuoted(std::string_view text, size_t limit, std::string* out) {
  out->push_back('\'');
  out->append(CleanForError(text, limit));
  out->push_back('\'');
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 0x20);
  }
  return upper;
}

std::string LineNaming(std::string_view before, std::string_view named, std::string_view after) {
  std::string line(before);
  AppendQuoted(named, kShown, &line);
  line += after;
  return line;
}

}  // namespace

std::string CleanForError(std::string_view text, size_t limit) {
  std::string clean(text.substr(0, std::min(text.find('\0'), limit)));
  for (char& c : clean) {
    if (c == '\r' || c == '\n') c = ' ';
  }
  return clean;
}

Error UnknownCommandError(std::span<const std::string_view> arguments) {
  TIERCEL_CHECK(!arguments.empty());
  std::string shown;
  for (size_t i = 1; i < arguments.size() && shown.size() < kShown; ++i) {
    AppendQuoted(arguments[i], kShown - shown.size(), &shown);
    shown += ' ';
  }
  std::string message = LineNaming("unknown command ", arguments[0], ", with args beginning with: ");
  return {ErrorCode::kUnknownCommand, message + shown};
}

Error UnknownSubcommandError(const CommandSpec& container, std::string_view subcommand) {
  return {ErrorCode::kUnknownCommand,
          LineNaming("unknown subcommand ", subcommand, ". Try " + Upper(container.name) + " HELP.")};
}

Error ArityError(const CommandSpec& spec) {
  return {ErrorCode::kSyntax, LineNaming("wrong number of arguments for ", spec.name, " command")};
}

Error ResolveError(std::span<const std::string_view> arguments) {
  const CommandSpec* spec = FindCommand(arguments[0]);
  if (spec == nullptr) return UnknownCommandError(arguments);
  if (arguments.size() > 1 && !Subcommands(*spec).empty()) {
    const CommandSpec* row = FindSubcommand(*spec, arguments[1]);
    if (row == nullptr) return UnknownSubcommandError(*spec, arguments[1]);
    spec = row;
  }
  TIERCEL_CHECK(!spec->ArityFits(arguments.size()), "the command can be resolved");
  return ArityError(*spec);
}

std::string InvalidExpireLine(std::string_view command) {
  return LineNaming("ERR invalid expire time in ", command, " command");
}

std::string UnsupportedOptionLine(std::string_view option) { return "ERR Unsupported option " + CleanForError(option); }

std::string HelloOptionLine(std::string_view option) {
  return LineNaming("ERR Syntax error in HELLO option ", option, "");
}

std::string UnknownConfigLine(std::string_view name) {
  return LineNaming("ERR Unknown option or number of arguments for CONFIG SET - ", name, "");
}

std::string ConfigSetFailedLine(std::string_view name, std::string_view why) {
  return LineNaming("ERR CONFIG SET failed (possibly related to argument ", name, ") - ") + CleanForError(why, 512);
}

std::string UnknownClientTypeLine(std::string_view type) { return LineNaming("ERR Unknown client type ", type, ""); }

}  // namespace tiercel::resp
