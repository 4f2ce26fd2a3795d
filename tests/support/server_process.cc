#include "tests/support/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"

extern char** environ;

namespace tiercel::test {
namespace {

constexpr int64_t kStartGuardMs = 20'000;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Pauses between two looks at something that another process does; not a wait for an effect of a given length.
void LookAgainSoon() { poll(nullptr, 0, 5); }

// "ready a=b c=d" -> fields; empty when there is no such line yet.
std::map<std::string, std::string> ReadyFields(const std::string& log) {
  std::map<std::string, std::string> fields;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("ready ", 0) != 0) continue;
    std::istringstream words(line.substr(6));
    for (std::string word; words >> word;) {
      if (auto equals = word.find('='); equals != std::string::npos) {
        fields[word.substr(0, equals)] = word.substr(equals + 1);
      }
    }
    fields["ready"] = "yes";
    break;
  }
  return fields;
}

}  // namespace

int64_t HangGuardMs(int64_t ms) {
#ifdef TIERCEL_SANITIZED
  return ms * 10;
#else
  return ms;
#endif
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tiercel-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::Start(std::vector<std::string> arguments) {
  std::unique_ptr<ServerProcess> server(new ServerProcess);
  server->arguments_ = arguments;
  if (std::find(arguments.begin(), arguments.end(), "--dir") == arguments.end()) {
    arguments.insert(arguments.end(), {"--dir", server->dir().string()});
  }
  const std::string log_path = (server->dir() / "log").string();
  std::vector<char*> argv;
  std::string binary = TIERCEL_SERVER_BINARY;
  argv.push_back(binary.data());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error = posix_spawn(&server->pid_, binary.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    server->pid_ = -1;
    return SystemError("spawn " + binary, error);
  }
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(kStartGuardMs);
  while (SystemClock::Get().Now().boot_ms < limit) {
    server->ready_ = ReadyFields(server->log());
    if (!server->ready_.empty()) return server;
    if (!server->running()) {
      return Error(ErrorCode::kInternal,
                   "the server ended with status " + std::to_string(*server->exit_status_) + ": " + server->log());
    }
    LookAgainSoon();
  }
  return Error(ErrorCode::kDeadline, "the server did not become ready: " + server->log());
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::StartSingle(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--port", "0", "--data-port", "0", "--admin-port", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Start(std::move(arguments));
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::StartMaster(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--roles", "master", "--port", "0", "--admin-port", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Start(std::move(arguments));
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::StartStore(const ServerProcess& master, const std::string& name,
                                                                 std::vector<std::string> more) {
  std::vector<std::string> arguments = {"--roles",
                                        "store",
                                        "--store-name",
                                        name,
                                        "--location",
                                        "host=" + name,
                                        "--master",
                                        master.host(),
                                        std::to_string(master.port()),
                                        "--port",
                                        "0",
                                        "--data-port",
                                        "0",
                                        "--admin-port",
                                        "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return Start(std::move(arguments));
}

ServerProcess::~ServerProcess() { Kill(); }

bool ServerProcess::running() {
  if (pid_ < 0 || exit_status_.has_value()) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

void ServerProcess::Signal(int signal) {
  if (running()) kill(pid_, signal);
}

std::optional<int> ServerProcess::WaitExit(int64_t timeout_ms) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + timeout_ms;
  while (running()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return std::nullopt;
    LookAgainSoon();
  }
  return exit_status_;
}

void ServerProcess::Kill() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string ServerProcess::address(const std::string& field) const {
  auto it = ready_.find(field);
  return it == ready_.end() ? "" : it->second;
}

std::string ServerProcess::host() const {
  const std::string all = address("resp");
  const std::string first = all.substr(0, all.find(','));
  std::string host = first.substr(0, first.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

uint16_t ServerProcess::port() const {
  const std::string all = address("resp");
  const std::string first = all.substr(0, all.find(','));
  const auto colon = first.rfind(':');
  return colon == std::string::npos ? 0 : static_cast<uint16_t>(std::atoi(first.c_str() + colon + 1));
}

std::string ServerProcess::log() const { return ReadAll(dir() / "log"); }

uint64_t ServerProcess::resident_bytes() const {
  std::istringstream words(ReadAll("/proc/" + std::to_string(pid_) + "/statm"));
  uint64_t total = 0, resident = 0;
  words >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace tiercel::test
