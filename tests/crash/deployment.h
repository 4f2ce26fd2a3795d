// A whole system of real processes that are killed, stopped and started again on what they left behind: the master's
// directory on disk, the stores' memory on tmpfs, each at the ports and under the names it had.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/make_client.h"
#include "tests/support/server_process.h"
#include "tests/system/redis.h"

namespace tiercel::test {

// Looks every few milliseconds until the condition holds; the time is a hang guard.
bool Eventually(const std::function<bool()>& condition, int64_t guard_ms = 30'000);

// A port that nobody listens on now, outside of the range from which the system picks ports by itself.
uint16_t FreePort();

// A directory on tmpfs for the memory of stores, removed at the end.
class MemoryDir {
 public:
  MemoryDir();
  ~MemoryDir();
  MemoryDir(const MemoryDir&) = delete;
  MemoryDir& operator=(const MemoryDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  // Whether this machine has a tmpfs with so much room; tests skip without.
  static bool Fits(uint64_t bytes);

 private:
  std::filesystem::path path_;
};

class Deployment {
 public:
  struct Shape {
    size_t stores = 0;  // 0: master and store are one process
    std::string dram = "128mb";
    bool backing = true;                   // stores keep their memory
    std::vector<std::string> more = {};    // arguments of the master
    std::filesystem::path dir = {};        // of the master; empty: one of its own
    static uint64_t Bytes(size_t stores);  // of tmpfs, with the default dram
  };
  // Starts everything; `ok` tells whether that worked.
  explicit Deployment(Shape shape);
  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  // Process 0 is the master (or all), the others are the stores.
  size_t size() const { return 1 + shape_.stores; }
  ServerProcess& process(size_t i) { return *processes_[i]; }
  Status Start(size_t i, const std::vector<std::string>& more = {});
  void Kill(size_t i);
  // By SIGTERM; its exit status, or -1 when it does not end.
  int Stop(size_t i);

  // All stores serve and every object of the index has been confirmed or given up.
  bool AwaitSettled();
  // A field of INFO; -1 when the server does not answer or has no such field.
  int64_t Info(const std::string& field);

  std::unique_ptr<Redis> Connect();
  ClientOptions Options() const;
  std::unique_ptr<Client> ConnectClient() const;
  const std::filesystem::path& dir() const { return dir_; }  // of the master
  std::filesystem::path index_dir() const { return dir_ / "index"; }
  std::filesystem::path memory_of(size_t i) const;
  std::string name_of(size_t i) const { return "s" + std::to_string(i); }
  std::string Logs() const;  // of all processes that there were, the last lines

 private:
  std::vector<std::string> Arguments(size_t i) const;
  void KeepLog(size_t i);

  const Shape shape_;
  TempDir own_dir_;
  MemoryDir memory_;
  const std::filesystem::path dir_;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<ServerProcess>> processes_;
  std::string error_, logs_;
};

}  // namespace tiercel::test
