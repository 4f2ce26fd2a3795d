// Every group from the process's own up to the root may limit; the smallest remainder counts. A group's file cache
// counts as used there although the kernel gives it up on demand, so what is inactive of it is added back.
#include "base/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "base/units.h"

namespace tiercel {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// "max", "-1" and v1's huge number are not limits; the caller compares with the machine's memory anyway.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return ParseUint64(word);
}

// The number behind a name in lines of "NAME[:] NUMBER ...".
std::optional<uint64_t> FindNumber(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, second;
    if (words >> first >> second && first == name) return ParseUint64(second);
  }
  return std::nullopt;
}

struct Hierarchy {
  std::string mount;
  std::string group;  // path of the process's group below the mount
  const char* limit;
  const char* usage;
  const char* inactive;  // name in memory.stat
};

void ApplyGroup(const std::string& directory, const Hierarchy& h, MemoryLimits* limits) {
  const std::optional<uint64_t> limit = ReadNumber(directory + h.limit);
  if (!limit) return;
  if (*limit < limits->total_bytes) {
    limits->total_bytes = *limit;
    limits->from_cgroup = true;
  }
  const uint64_t used = ReadNumber(directory + h.usage).value_or(0);
  const uint64_t cache = FindNumber(ReadFile(directory + "/memory.stat").value_or(""), h.inactive).value_or(0);
  const uint64_t held = used - std::min(used, cache);
  limits->available_bytes = std::min(limits->available_bytes, *limit - std::min(*limit, held));
}

void ApplyUpwards(const Hierarchy& h, MemoryLimits* limits) {
  // In a container the path may be the host's, and only the root is there: missing directories are passed over.
  for (std::string group = h.group; !group.empty() && group != "/"; group.resize(group.rfind('/'))) {
    if (group.find('/') == std::string::npos) break;
    ApplyGroup(h.mount + group, h, limits);
  }
  ApplyGroup(h.mount, h, limits);
}

void ApplyCgroups(const std::string& root, MemoryLimits* limits) {
  std::istringstream lines(ReadFile(root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    const std::string base = root + "/sys/fs/cgroup";
    if (controllers == ",,") {
      const Hierarchy v2{base, group, "/memory.max", "/memory.current", "inactive_file"};
      ApplyUpwards(v2, limits);
    } else if (controllers.find(",memory,") != std::string::npos) {
      const Hierarchy v1{base + "/memory", group, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                         "total_inactive_file"};
      ApplyUpwards(v1, limits);
    }
  }
}

}  // namespace

Result<MemoryLimits> ReadMemoryLimits(const char* root) {
  const std::string path = std::string(root) + "/proc/meminfo";
  const std::optional<std::string> meminfo = ReadFile(path);
  if (!meminfo) return Error(ErrorCode::kIo, "cannot read " + path);
  const std::optional<uint64_t> total = FindNumber(*meminfo, "MemTotal:");
  const std::optional<uint64_t> available = FindNumber(*meminfo, "MemAvailable:");
  if (!total || !available) return Error(ErrorCode::kIo, "no MemTotal and MemAvailable in " + path);
  MemoryLimits limits{.total_bytes = *total * 1024, .available_bytes = *available * 1024};
  ApplyCgroups(root, &limits);
  return limits;
}

}  // namespace tiercel
