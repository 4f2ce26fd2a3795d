#include "server/config/rewrite.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "server/config/rows.h"
#include "server/config/source.h"

namespace tiercel::config {
namespace {

constexpr std::string_view kMark = "# Written by CONFIG REWRITE";

// The directive of a line; empty for comments and blank lines.
std::string NameOf(const std::string& line) {
  const size_t start = line.find_first_not_of(" \t");
  if (start == std::string::npos || line[start] == '#') return "";
  const Result<std::vector<std::string>> words = Tokenize(line);
  return words.ok() && !words->empty() ? words->front() : "";
}

// What is not set any more is said so: the value may come from an included file, or be a default otherwise.
void AppendLines(const Option& option, const Settings& settings, std::vector<std::string>* out) {
  const std::vector<std::string> values = option.lines(settings);
  for (const std::string& value : values) out->push_back(option.name + " " + value);
  if (values.empty()) out->push_back(option.name + " \"\"");
}

bool HasIncludes(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const auto& line) { return EqualNames(NameOf(line), "include"); });
}

// A changed directive takes the place of its first line, and its others go. In a file with includes the end is the
// only place where it is sure to hold.
std::vector<std::string> NewLines(const std::vector<std::string>& lines, const Settings& settings,
                                  const std::set<std::string>& changed) {
  const bool in_place = !HasIncludes(lines);
  std::set<std::string> written;
  std::vector<std::string> out;
  for (const std::string& line : lines) {
    const Option* option = FindOption(NameOf(line));
    if (option == nullptr || !changed.contains(option->name)) {
      out.push_back(line);
    } else if (in_place && written.insert(option->name).second) {
      AppendLines(*option, settings, &out);
    }
  }
  bool marked = std::find(out.begin(), out.end(), kMark) != out.end();
  for (const Option& option : OptionTable()) {
    if (!changed.contains(option.name) || written.contains(option.name)) continue;
    if (!marked) out.emplace_back(kMark);
    marked = true;
    AppendLines(option, settings, &out);
  }
  return out;
}

Status WriteAll(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write " + name, errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Ok();
}

// Beside the file, with its permissions, synced, then in its place: a crash leaves the old or the new file.
Status ReplaceFile(const std::string& file, std::string_view text) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) return SystemError("look at " + file, errno);
  const std::string temporary = file + ".rewrite";
  const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return SystemError("create " + temporary, errno);
  Status written = WriteAll(fd.get(), text, temporary);
  if (written.ok() && (fchmod(fd.get(), status.st_mode & 07777) != 0 || fsync(fd.get()) != 0)) {
    written = SystemError("sync " + temporary, errno);
  }
  if (written.ok() && rename(temporary.c_str(), file.c_str()) != 0) {
    written = SystemError("rename " + temporary + " to " + file, errno);
  }
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

}  // namespace

Status RewriteFile(const std::string& file, const Settings& settings, const std::set<std::string>& changed) {
  TIERCEL_ASSIGN(const std::vector<std::string> lines, ReadLines(file));
  std::string text;
  for (const std::string& line : NewLines(lines, settings, changed)) text += line + "\n";
  return ReplaceFile(std::filesystem::weakly_canonical(file).string(), text);
}

}  // namespace tiercel::config
