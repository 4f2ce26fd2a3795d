#include "server/config/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/fd.h"
#include "base/tokenizer.h"
#include "server/config/rows.h"

namespace tiercel::config {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxDirectives = 10'000;
constexpr int kMaxDepth = 16;

Result<std::string> ReadWhole(const std::string& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return SystemError("open configuration file " + file, errno);
  std::string text;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read configuration file " + file, errno);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) {
      return Error(ErrorCode::kInvalid,
                   fmt::format("configuration file {} is larger than {} bytes", file, kMaxFileBytes));
    }
  }
}

// The files that an include names. A pattern may match none; a plain name that is not there fails when it is opened.
std::vector<std::string> IncludedFiles(const std::string& from, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(from).parent_path() / name;
  if (name.find_first_of("*?[") == std::string::npos) return {path.string()};
  glob_t found{};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, &globfree);
  if (::glob(path.c_str(), 0, nullptr, &found) != 0) return {};
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

Status Collect(const std::string& file, int depth, std::vector<Directive>* directives) {
  TIERCEL_ASSIGN(const std::vector<std::string> lines, ReadLines(file));
  for (size_t i = 0; i < lines.size(); ++i) {
    TIERCEL_ASSIGN(std::optional<Directive> parsed, ParseLine(file, i + 1, lines[i]));
    if (!parsed) continue;
    Directive& directive = *parsed;
    if (!EqualNames(directive.name, "include")) {
      if (directives->size() == kMaxDirectives) {
        return Error(ErrorCode::kInvalid,
                     fmt::format("{}: more than {} directives", directive.Where(), kMaxDirectives));
      }
      directives->push_back(std::move(directive));
      continue;
    }
    if (directive.words.empty()) return Error(ErrorCode::kInvalid, directive.Where() + ": include needs a file");
    if (depth == kMaxDepth) {
      return Error(ErrorCode::kInvalid,
                   fmt::format("{}: include is nested more than {} deep", directive.Where(), kMaxDepth));
    }
    for (const std::string& word : directive.words) {
      for (const std::string& included : IncludedFiles(file, word)) {
        Status status = Collect(included, depth + 1, directives);
        if (status.ok()) continue;
        if (status.error().code() != ErrorCode::kIo) return status;
        return Error(ErrorCode::kIo, directive.Where() + ": " + status.error().message());
      }
    }
  }
  return Ok();
}

}  // namespace

std::string Directive::Where() const { return file.empty() ? "command line" : fmt::format("{}:{}", file, line); }

Result<std::optional<Directive>> ParseLine(const std::string& file, size_t number, const std::string& text) {
  const size_t start = text.find_first_not_of(" \t\r\v\f");
  if (start == std::string::npos || text[start] == '#') return std::optional<Directive>();
  Directive directive{.file = file, .line = number, .name = {}, .words = {}};
  Result<std::vector<std::string>> words = Tokenize(text);
  if (!words.ok() || words->empty()) {
    return Error(ErrorCode::kInvalid, directive.Where() + ": unbalanced quotes, or a NUL");
  }
  directive.name = std::move(words->front());
  directive.words.assign(std::make_move_iterator(words->begin() + 1), std::make_move_iterator(words->end()));
  return std::optional(std::move(directive));
}

Result<std::vector<std::string>> ReadLines(const std::string& file) {
  TIERCEL_ASSIGN(const std::string text, ReadWhole(file));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

Result<std::vector<Directive>> ReadFileDirectives(const std::string& file) {
  std::vector<Directive> directives;
  TIERCEL_TRY(Collect(file, 1, &directives));
  return directives;
}

// [FILE] then options, each with the words up to the next one. A word that starts with -- is always an option.
Result<Arguments> ReadArguments(std::span<const std::string> arguments) {
  Arguments result;
  for (const std::string& argument : arguments) {
    if (argument.starts_with("--")) {
      if (argument.size() == 2) return Error(ErrorCode::kInvalid, "command line: -- without a directive");
      result.directives.push_back({.file = {}, .line = 0, .name = argument.substr(2), .words = {}});
    } else if (!result.directives.empty()) {
      result.directives.back().words.push_back(argument);
    } else if (result.file.empty() && !argument.empty()) {
      result.file = argument;
    } else {
      return Error(
          ErrorCode::kInvalid,
          "command line: one FILE, then --directive value..., is what is understood; not \"" + argument + "\"");
    }
  }
  return result;
}

}  // namespace tiercel::config
