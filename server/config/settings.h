// Everything that an operator can set, as typed values. Filled in from the option table alone.
//
//   Result<Settings> settings = LoadSettings(arguments, Environment::OfThisMachine());
//
// A plain value: copied freely, shared read-only once the server runs (see live_config.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/memory_limits.h"
#include "server/core/options.h"
#include "tiercel/result.h"

namespace tiercel::config {

enum class HugePages : uint8_t { kNo, kTry, kYes };
enum class IndexFsync : uint8_t { kNo, kEverySec, kAlways };
enum class Transport : uint8_t { kShm, kTcp };

struct Settings {
  // Roles
  bool master_role = false;
  bool store_role = false;
  std::string master_host;  // empty: the master is in this process
  uint16_t master_port = 0;
  std::string master_user, master_auth;
  std::string store_name;
  std::vector<std::string> location;  // words KEY=VALUE
  std::string location_host;          // the value of host=

  // RESP
  uint16_t port = 0;               // 0: a free one
  std::vector<std::string> binds;  // "-ADDRESS": may fail
  std::string unix_socket;         // relative to dir; empty: none
  uint32_t unix_socket_permissions = 0;
  bool protected_mode = false;
  uint32_t tcp_backlog = 0;
  uint32_t tcp_keepalive_s = 0;
  uint32_t io_threads = 0;
  uint32_t max_clients = 0;
  int64_t timeout_s = 0;  // idle connections; 0: never
  int64_t idle_write_timeout_ms = 0, idle_read_timeout_ms = 0;
  uint64_t proto_max_bulk_bytes = 0;
  uint64_t reply_budget_bytes = 0, query_buffer_bytes = 0;  // per connection

  // Users
  std::string requirepass;                      // secret; empty: none
  std::vector<std::vector<std::string>> users;  // words behind `user`, checked; secret

  // General
  std::string dir, log_file;
  LogLevel log_level = LogLevel::kNotice;

  // Data port
  uint16_t data_port = 0;
  std::vector<std::string> data_binds;
  std::string data_advertise_host;   // empty: found by itself
  uint16_t data_advertise_port = 0;  // 0: data-port
  std::string data_socket;           // relative to dir; empty: none
  uint32_t data_threads = 0;
  std::vector<Transport> transports;  // in order of preference

  // Admin port
  uint16_t admin_port = 0;
  std::vector<std::string> admin_binds;

  // Memory
  std::vector<uint64_t> dram_bytes;  // a segment each
  HugePages dram_huge_pages = HugePages::kTry;
  std::string dram_backing;  // directory on tmpfs or hugetlbfs; "no": none
  bool index = true, index_repair = false;
  IndexFsync index_fsync = IndexFsync::kEverySec;
  uint64_t view_max_bytes = 0;

  // Objects
  core::Options core;
  int64_t put_wait_ms = 0;

  // The main configuration file; empty: none. Not an option.
  std::string file;

  // A path as the server opens it: relative ones lie in dir.
  std::string Path(const std::string& path) const;
};

// What computed defaults are computed from, and what the layers above check.
struct Environment {
  MemoryLimits memory;
  std::string host_name;
  // Refuses bad words behind `user`; the error must not contain passwords. Empty: every form is taken.
  std::function<Status(std::span<const std::string> words)> check_user;

  static Result<Environment> OfThisMachine();
};

// [FILE] [--directive value ...]...: what is given later wins, so arguments win over the file. kInvalid or kIo with one
// line that names file, line, directive, value and what is allowed.
Result<Settings> LoadSettings(std::span<const std::string> arguments, const Environment& environment);
Result<Settings> LoadSettings(std::span<const std::string> arguments);

// Ok when a server would start with this file, as far as the file decides.
Status CheckFile(const std::string& file, const Environment& environment);

// What the command line asks for; `arguments` are those behind the program's name.
struct Invocation {
  enum class Action : uint8_t { kRun, kHelp, kVersion, kCheck, kPrintConf };
  Action action = Action::kRun;
  std::string file;  // kCheck
};
Result<Invocation> ParseInvocation(std::span<const std::string> arguments);

std::string HelpText();  // --help
std::string ConfText();  // conf/tiercel.conf: every directive, explained, with its default

}  // namespace tiercel::config
