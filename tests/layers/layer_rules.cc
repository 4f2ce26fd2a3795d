#include "tests/layers/layer_rules.h"

#include <algorithm>
#include <set>

namespace tiercel::layers {
namespace {

constexpr std::string_view kEverything = "*";

// Layer by layer. fmt comes with base's logging and is used by all who may use base.
const std::vector<Rule>& Table() {
  static const std::vector<Rule> table = {
      // 0: public API and vocabulary
      {.folder = "include/tiercel", .pure = true},
      // 1: the leaf library, the one executor
      {.folder = "base", .may_use = {"include/tiercel"}, .libraries = {"xxhash", "spdlog"}},
      {.folder = "base/loop", .may_use = {"base"}, .libraries = {"asio"}},
      // 2: siblings that never meet
      {.folder = "protocol/resp", .may_use = {"base"}},
      {.folder = "protocol/resp/conn", .may_use = {"protocol/resp", "base/loop"}, .libraries = {"asio", "openssl"}},
      {.folder = "transfer", .may_use = {"base"}},
      // What servers over streams have in common, for tcp and shm.
      {.folder = "transfer/session", .may_use = {"transfer", "base/loop"}, .libraries = {"asio"}},
      {.folder = "transfer/local", .may_use = {"transfer"}},
      {.folder = "transfer/shm", .may_use = {"transfer", "transfer/session"}},
      {.folder = "transfer/tcp",
       .may_use = {"transfer", "transfer/session", "base/loop"},
       .libraries = {"asio", "openssl"}},
      {.folder = "transfer/rdma", .may_use = {"transfer", "transfer/session"}, .libraries = {"verbs"}},
      {.folder = "transfer/faulty", .may_use = {"transfer"}},
      {.folder = "tiers", .may_use = {"base"}},
      {.folder = "tiers/io", .may_use = {"base"}, .libraries = {"liburing"}},
      {.folder = "tiers/dram", .may_use = {"tiers"}},
      {.folder = "tiers/ssd", .may_use = {"tiers", "tiers/io"}},
      {.folder = "tiers/dfs", .may_use = {"tiers", "tiers/io"}},
      // Memory on huge pages is all that it asks of the system.
      {.folder = "server/core", .may_use = {"base"}, .pure = true, .system_headers_of_pure = {"sys/mman.h"}},
      // 3
      {.folder = "server/index", .may_use = {"server/core"}, .libraries = {"rocksdb"}},
      {.folder = "server/net",
       .may_use = {"server/core", "protocol/resp", "base/loop"},
       .libraries = {"asio", "openssl"}},
      {.folder = "server/node",
       .may_use = {"server/core", "tiers", "transfer", "protocol/resp/conn", "base/loop"},
       .libraries = {"asio"}},
      {.folder = "server/config", .may_use = {"server/core"}},
      {.folder = "server/admin", .may_use = {"server/core"}, .libraries = {"prometheus"}},
      {.folder = "server/ha",
       .may_use = {"server/core", "server/index", "protocol/resp/conn"},
       .libraries = {"curl", "nlohmann"}},
      {.folder = "client/make_client.cc", .may_use = {kEverything}},  // 4: a factory
      {.folder = "client", .may_use = {"protocol/resp/conn", "transfer", "tiers/dfs"}},
      {.folder = "client/examples", .may_use = {"include/tiercel"}},
      // 4: the only places that name concrete tiers and transports
      {.folder = "server", .may_use = {kEverything}},
      // 5
      {.folder = "tools/**", .may_use = {kEverything}, .libraries = {"cli11", "nlohmann"}},
      {.folder = "client/python/**", .may_use = {kEverything}, .libraries = {"pybind11"}},
      {.folder = "tests/**", .may_use = {kEverything}, .libraries = {kEverything}},
  };
  return table;
}

struct Library {
  std::string_view name;
  std::string_view prefix;  // of its headers
};
constexpr Library kLibraries[] = {
    {"xxhash", "xxhash.h"},
    {"spdlog", "spdlog/"},
    {"fmt", "fmt/"},
    {"asio", "asio/"},
    {"asio", "asio.hpp"},
    {"openssl", "openssl/"},
    {"verbs", "infiniband/"},
    {"verbs", "rdma/"},
    {"liburing", "liburing.h"},
    {"rocksdb", "rocksdb/"},
    {"microhttpd", "microhttpd.h"},
    {"prometheus", "prometheus/"},
    {"curl", "curl/"},
    {"nlohmann", "nlohmann/"},
    {"cli11", "CLI/"},
    {"pybind11", "pybind11/"},
    {"hiredis", "hiredis/"},
    {"gtest", "gtest/"},
    {"gtest", "gmock/"},
    {"benchmark", "benchmark/"},
};

constexpr std::string_view kSystemFolders[] = {"sys/", "netinet/", "arpa/", "net/", "linux/", "asm/"};

// Of the standard library, what pure logic does without. (<future> and <functional> are types of the public API.)
constexpr std::string_view kImpure[] = {
    "thread",   "mutex", "shared_mutex", "condition_variable", "chrono", "fstream", "filesystem",
    "iostream", "ctime", "cstdio",       "semaphore",          "latch",  "barrier", "stop_token"};

const Rule* RuleOfFolder(std::string_view folder) {
  for (const Rule& rule : Table()) {
    if (rule.folder == folder) return &rule;
  }
  return nullptr;
}

const Rule* RuleOfFile(std::string_view file) {
  const std::string_view folder = file.substr(0, std::min(file.rfind('/'), file.size()));
  for (const Rule& rule : Table()) {
    if (rule.folder == file || rule.folder == folder) return &rule;
    if (rule.folder.ends_with("/**") && file.starts_with(rule.folder.substr(0, rule.folder.size() - 2))) return &rule;
  }
  return nullptr;
}

bool Contains(const std::vector<std::string_view>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The folders that a rule reaches, itself included.
std::set<std::string_view> Reach(const Rule& rule) {
  std::set<std::string_view> reached = {rule.folder};
  std::vector<const Rule*> open = {&rule};
  while (!open.empty()) {
    const Rule* next = open.back();
    open.pop_back();
    for (const std::string_view folder : next->may_use) {
      if (!reached.insert(folder).second || folder == kEverything) continue;
      if (const Rule* known = RuleOfFolder(folder)) open.push_back(known);
    }
  }
  return reached;
}

struct Include {
  std::string_view name;
  bool quoted = false;
};

// `#include "x"` or `#include <x>`, with any blanks.
bool ParseInclude(std::string_view line, Include* include) {
  const auto skip_blanks = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
  skip_blanks();
  if (!line.starts_with('#')) return false;
  line.remove_prefix(1);
  skip_blanks();
  if (!line.starts_with("include")) return false;
  line.remove_prefix(7);
  skip_blanks();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return false;
  include->quoted = line[0] == '"';
  const size_t end = line.find(include->quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return false;
  include->name = line.substr(1, end - 1);
  return true;
}

class Checker {
 public:
  Checker(const Rule& rule, std::string_view file, bool (*exists)(std::string_view))
      : rule_(rule), folder_(file.substr(0, file.rfind('/') + 1)), reach_(Reach(rule)), exists_(exists) {}

  // Empty when the include is right.
  std::string Check(const Include& include) const {
    const std::string name(include.name);
    for (const std::string& path : {name, "include/" + name}) {
      if (exists_(path)) return CheckOwn(path);
    }
    if (include.quoted && exists_(folder_ + name)) return CheckOwn(folder_ + name);
    if (include.quoted) return "\"" + name + "\" is not in the tree";
    return CheckOutside(name);
  }

 private:
  std::string CheckOwn(const std::string& path) const {
    const Rule* target = RuleOfFile(path);
    if (target == nullptr) return path + " lies in a folder without a rule";
    if (target == &rule_ || reach_.contains(kEverything) || reach_.contains(target->folder)) return "";
    return std::string(rule_.folder) + " may not use " + std::string(target->folder) + " (" + path + ")";
  }

  std::string CheckOutside(const std::string& name) const {
    for (const Library& library : kLibraries) {
      if (!name.starts_with(library.prefix)) continue;
      const bool allowed = Contains(rule_.libraries, library.name) || Contains(rule_.libraries, kEverything) ||
                           (library.name == "fmt" && (reach_.contains("base") || reach_.contains(kEverything)));
      return allowed ? ""
                     : std::string(rule_.folder) + " may not use " + std::string(library.name) + " (<" + name + ">)";
    }
    const bool standard = name.find_first_of("./") == std::string::npos;
    const bool impure = standard ? std::find(std::begin(kImpure), std::end(kImpure), name) != std::end(kImpure)
                                 : !Contains(rule_.system_headers_of_pure, name);
    if (rule_.pure && impure) return std::string(rule_.folder) + " is pure and may not use <" + name + ">";
    if (standard || name.find('/') == std::string::npos) return "";
    for (const std::string_view folder : kSystemFolders) {
      if (name.starts_with(folder)) return "";
    }
    return "<" + name + "> is a library without a rule";
  }

  const Rule& rule_;
  const std::string folder_;  // of the file, with its slash
  const std::set<std::string_view> reach_;
  bool (*const exists_)(std::string_view);
};

}  // namespace

std::span<const Rule> Rules() { return Table(); }

std::vector<std::string> CheckFile(std::string_view file, std::string_view text,
                                   bool (*exists)(std::string_view path)) {
  std::vector<std::string> wrong;
  const Rule* rule = RuleOfFile(file);
  if (rule == nullptr) return {std::string(file) + ":1: lies in a folder without a rule"};
  const Checker checker(*rule, file, exists);
  for (size_t at = 0, number = 1; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    Include include;
    if (ParseInclude(text.substr(at, end - at), &include)) {
      const std::string what = checker.Check(include);
      if (!what.empty()) wrong.push_back(std::string(file) + ":" + std::to_string(number) + ": " + what);
    }
    at = end + 1;
  }
  return wrong;
}

std::vector<std::string> CheckRules() {
  std::vector<std::string> wrong;
  for (const Rule& rule : Table()) {
    if (RuleOfFolder(rule.folder) != &rule) wrong.push_back(std::string(rule.folder) + " has two rules");
    for (const std::string_view folder : rule.may_use) {
      const Rule* used = RuleOfFolder(folder);
      if (folder == kEverything) continue;
      if (used == nullptr) {
        wrong.push_back(std::string(rule.folder) + " may use " + std::string(folder) + ", which has no rule");
      } else if (Reach(*used).contains(rule.folder)) {
        wrong.push_back(std::string(rule.folder) + " and " + std::string(folder) + " reach each other");
      }
    }
  }
  return wrong;
}

}  // namespace tiercel::layers
