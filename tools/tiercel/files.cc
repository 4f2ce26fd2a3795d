#include "tools/tiercel/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/random.h"
#include "base/units.h"

namespace tiercel::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMapFrom = 64 << 20;

Status ReadAll(int fd, uint64_t expected, const std::string& name, std::vector<char>* out) {
  out->resize(expected);
  size_t got = 0;
  for (;;) {
    if (got == out->size()) out->resize(std::max<size_t>(out->size() * 2, 64 << 10));
    const ssize_t n = read(fd, out->data() + got, out->size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(name, errno);
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  out->resize(got);
  return Ok();
}

Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(name, errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return Ok();
}

}  // namespace

Result<FileBytes> FileBytes::Load(const fs::path& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return SystemError(path.string(), errno);
  struct stat facts{};
  if (fstat(fd.get(), &facts) != 0) return SystemError(path.string(), errno);
  FileBytes bytes;
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (S_ISREG(facts.st_mode) && size >= kMapFrom) {
    void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (memory == MAP_FAILED) return SystemError(path.string(), errno);
    (void)madvise(memory, size, MADV_SEQUENTIAL);
    bytes.mapping_ = Mapping(memory, size);
    return bytes;
  }
  TIERCEL_TRY(ReadAll(fd.get(), size + 1, path.string(), &bytes.read_));
  return bytes;
}

Result<FileBytes> FileBytes::LoadStandardInput() {
  FileBytes bytes;
  TIERCEL_TRY(ReadAll(STDIN_FILENO, 0, "standard input", &bytes.read_));
  return bytes;
}

Result<std::vector<SourceFile>> FilesOf(const fs::path& argument, std::string_view prefix) {
  std::error_code error;
  const fs::file_status status = fs::status(argument, error);
  if (error) return SystemError(argument.string(), error.value());
  std::vector<SourceFile> files;
  auto add = [&](const fs::path& path, const std::string& name) {
    std::error_code ignored;
    files.push_back({path, std::string(prefix) + name, fs::file_size(path, ignored)});
  };
  if (!fs::is_directory(status)) {
    add(argument, argument.filename().string());
    return files;
  }
  fs::recursive_directory_iterator walk(argument, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    std::error_code ignored;
    if (walk->is_regular_file(ignored)) add(walk->path(), walk->path().lexically_relative(argument).generic_string());
  }
  if (error) return SystemError(argument.string(), error.value());
  std::ranges::sort(files, {}, &SourceFile::key);
  return files;
}

std::optional<fs::path> PathBelow(const fs::path& directory, std::string_view name) {
  const fs::path relative(name);
  if (name.empty() || name.find('\0') != std::string_view::npos || relative.is_absolute()) return std::nullopt;
  if (relative.filename().empty()) return std::nullopt;
  for (const fs::path& part : relative) {
    if (part == "..") return std::nullopt;
  }
  const fs::path path = (directory / relative).lexically_normal();
  if (path.filename().empty() || path.filename() == ".") return std::nullopt;
  return path;
}

Status WriteFile(const fs::path& path, std::span<const std::byte> bytes) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) return SystemError(path.parent_path().string(), error.value());
  // A device or a pipe is written to; a rename would put a file in its place, for everybody on the machine.
  if (const fs::file_status there = fs::status(path, error); fs::exists(there) && !fs::is_regular_file(there)) {
    UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) return SystemError(path.string(), errno);
    return WriteAll(fd.get(), bytes, path.string());
  }
  fs::path temporary = path;
  temporary.replace_filename(".tiercel-" + FormatHex64(RandomId()));
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return SystemError(temporary.string(), errno);
  Status written = WriteAll(fd.get(), bytes, path.string());
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0) written = SystemError(path.string(), errno);
  if (!written.ok()) unlink(temporary.c_str());
  return written;
}

Status WriteStandardOutput(std::span<const std::byte> bytes) {
  return WriteAll(STDOUT_FILENO, bytes, "standard output");
}

}  // namespace tiercel::cli
