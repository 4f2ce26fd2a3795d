// Servers and clients for the client's system tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/make_client.h"
#include "tests/support/server_process.h"

namespace tiercel::test {

// The wires that this release has. Tests that read and write run once over each.
struct Wire {
  const char* name;
  TransportChoice choice;
};
inline constexpr Wire kWires[] = {{"tcp", TransportChoice::kTcp}, {"shm", TransportChoice::kShm}};
inline std::string WireName(const testing::TestParamInfo<Wire>& info) { return info.param.name; }

// A master and `stores` stores in processes of their own, each with `dram` of memory.
class Cluster {
 public:
  explicit Cluster(size_t stores, const std::string& dram = "64mb", std::vector<std::string> more = {});

  ClientOptions Options(TransportChoice choice = TransportChoice::kAuto) const;
  std::unique_ptr<Client> Connect(TransportChoice choice = TransportChoice::kAuto) const;
  std::unique_ptr<Client> Connect(const ClientOptions& options) const;
  void WaitForStores(size_t serving) const;

  ServerProcess& master() { return *master_; }
  ServerProcess& store(size_t i) { return *stores_[i]; }
  // By the name that look-ups show: s0, s1, ...
  ServerProcess& store(const std::string& name) { return *stores_.at(std::stoul(name.substr(1))); }
  void StartStore(size_t i);
  // The master anew on the port it had.
  void RestartMaster();

 private:
  const std::string dram_;
  const std::vector<std::string> more_;
  std::unique_ptr<ServerProcess> master_;
  std::vector<std::unique_ptr<ServerProcess>> stores_;
};

// The first RESP address of a server, as a client's option.
std::string MasterOption(const ServerProcess& server);

// Until the condition holds; the time is a hang guard.
bool Eventually(const std::function<bool()>& condition);

std::vector<std::byte> Bytes(size_t size, uint64_t seed);

// Changes one bit at this offset of a server's DRAM segment, behind its back.
void FlipBit(const ServerProcess& server, uint64_t segment_offset);

// Exchanges two ranges of a server's DRAM segment: as if the places of their objects had been exchanged in its tables.
void SwapBytes(const ServerProcess& server, uint64_t a, uint64_t b, uint64_t length);

// Runs a program to its end; its exit status and what it wrote to standard output (and error, when asked).
struct Outcome {
  int status = -1;
  std::string output;
};
Outcome RunProgram(const std::vector<std::string>& arguments, bool with_errors = false,
                   const std::vector<std::string>& environment = {});

}  // namespace tiercel::test
