// The file holds one decimal number and a line feed. It is replaced as a whole and synced before the number is used,
// so a crash at any moment leaves the old or the new number, and no number is ever used twice.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "base/fd.h"
#include "base/units.h"
#include "server/index/committer.h"
#include "tiercel/limits.h"

namespace tiercel::index {
namespace {

// 0 when there is no file yet.
Result<uint64_t> ReadGeneration(const std::string& file) {
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return uint64_t{0};
  if (!fd) return SystemError("open " + file, errno);
  char buffer[32];
  const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
  if (got < 0) return SystemError("read " + file, errno);
  std::string_view text(buffer, static_cast<size_t>(got));
  if (text.ends_with('\n')) text.remove_suffix(1);
  const std::optional<uint64_t> value = ParseUint64(text);
  if (!value || *value == 0 || *value > kMaxGeneration) {
    return Error(ErrorCode::kInvalid, file + " does not hold a generation, which is a number from 1 to " +
                                          std::to_string(kMaxGeneration) + " on a line of its own");
  }
  return *value;
}

Status SyncDirectoryOf(const std::string& file) {
  std::string directory = std::filesystem::path(file).parent_path().string();
  if (directory.empty()) directory = ".";
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return SystemError("open directory " + directory, errno);
  if (fsync(fd.get()) != 0) return SystemError("sync directory " + directory, errno);
  return Ok();
}

Status ReplaceFile(const std::string& file, const std::string& text) {
  const std::string temporary = file + ".new";
  {
    const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) return SystemError("create " + temporary, errno);
    const ssize_t written = write(fd.get(), text.data(), text.size());
    if (written < 0) return SystemError("write " + temporary, errno);
    if (static_cast<size_t>(written) != text.size()) return SystemError("write " + temporary, ENOSPC);
    if (fsync(fd.get()) != 0) return SystemError("sync " + temporary, errno);
  }
  if (rename(temporary.c_str(), file.c_str()) != 0) return SystemError("rename " + temporary + " to " + file, errno);
  return SyncDirectoryOf(file);
}

}  // namespace

Result<uint64_t> RaiseGeneration(const std::string& file, uint64_t at_least) {
  TIERCEL_ASSIGN(const uint64_t before, ReadGeneration(file));
  const uint64_t generation = std::max(before + 1, at_least);
  if (generation > kMaxGeneration) {
    return Error(ErrorCode::kInvalid, file + ": generation " + std::to_string(generation) + " is above the last one, " +
                                          std::to_string(kMaxGeneration));
  }
  TIERCEL_TRY(ReplaceFile(file, std::to_string(generation) + "\n"));
  return generation;
}

Status KeepGeneration(const std::string& file, uint64_t at_least) {
  TIERCEL_ASSIGN(const uint64_t before, ReadGeneration(file));
  if (before >= at_least) return Ok();
  if (at_least > kMaxGeneration) return Error(ErrorCode::kInvalid, file + ": generation out of range");
  return ReplaceFile(file, std::to_string(at_least) + "\n");
}

}  // namespace tiercel::index
