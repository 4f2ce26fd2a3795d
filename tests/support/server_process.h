// Real server processes for tests: started on free ports in a temporary directory, ended with the fixture.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiercel/result.h"

namespace tiercel::test {

// Times in tests are hang guards; sanitizers get ten times as much.
int64_t HangGuardMs(int64_t ms);

// A directory under the system's temporary one, removed with all its contents at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// One tiercel-server. Its log goes to a file; its "ready" line tells the addresses.
class ServerProcess {
 public:
  // Starts with `arguments` (as on the command line; `--port 0` and the like are the caller's) and waits until it
  // is ready, or says with what status and log it ended.
  static Result<std::unique_ptr<ServerProcess>> Start(std::vector<std::string> arguments);
  // A master with an embedded store, everything on free ports.
  static Result<std::unique_ptr<ServerProcess>> StartSingle(std::vector<std::string> more = {});
  static Result<std::unique_ptr<ServerProcess>> StartMaster(std::vector<std::string> more = {});
  static Result<std::unique_ptr<ServerProcess>> StartStore(const ServerProcess& master, const std::string& name,
                                                           std::vector<std::string> more = {});
  ~ServerProcess();  // SIGKILL when still running
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool running();
  void Signal(int signal);
  // Exit status (128 + signal when killed by one), nullopt when it does not end within the time.
  std::optional<int> WaitExit(int64_t timeout_ms);
  // SIGKILL and reap.
  void Kill();

  // Fields of the ready line: "resp", "data", "data-socket", "admin", "unix". Empty when not served.
  std::string address(const std::string& field) const;
  std::string host() const;  // of the first RESP address
  uint16_t port() const;
  std::string log() const;  // everything logged so far
  uint64_t resident_bytes() const;
  const std::filesystem::path& dir() const { return dir_.path(); }
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  ServerProcess() = default;
  TempDir dir_;
  pid_t pid_ = -1;
  std::optional<int> exit_status_;
  std::vector<std::string> arguments_;
  std::map<std::string, std::string> ready_;
};

}  // namespace tiercel::test
