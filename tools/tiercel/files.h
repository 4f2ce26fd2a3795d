// Files as the tool reads and writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "tiercel/result.h"

namespace tiercel::cli {

struct SourceFile {
  std::filesystem::path path;
  std::string key;
  uint64_t size = 0;
};

// A regular file's contents: read when small, mapped when large (then it must not shrink meanwhile).
class FileBytes {
 public:
  static Result<FileBytes> Load(const std::filesystem::path& path);
  static Result<FileBytes> LoadStandardInput();
  std::span<const std::byte> span() const {
    return mapping_ ? std::span<const std::byte>(mapping_.bytes()) : std::as_bytes(std::span(read_));
  }

 private:
  std::vector<char> read_;
  Mapping mapping_;
};

// The files that `argument` stands for: itself under its own name, or all regular files below it under their paths
// from there. Sorted. Links to files are followed, links to directories are not.
Result<std::vector<SourceFile>> FilesOf(const std::filesystem::path& argument, std::string_view prefix);

// Where a key's value goes below a directory; nullopt when the key names a place outside, or none.
std::optional<std::filesystem::path> PathBelow(const std::filesystem::path& directory, std::string_view name);

// Written beside its place under another name, then renamed: a reader sees all of it or nothing. Makes directories.
// What is there and no file (a device, a pipe) is written to as it is.
Status WriteFile(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status WriteStandardOutput(std::span<const std::byte> bytes);

}  // namespace tiercel::cli
