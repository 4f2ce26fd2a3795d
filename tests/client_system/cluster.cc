#include "tests/client_system/cluster.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"

extern char** environ;

namespace tiercel::test {

std::string MasterOption(const ServerProcess& server) {
  const std::string all = server.address("resp");
  return all.substr(0, all.find(','));
}

bool Eventually(const std::function<bool()>& condition) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(30'000);
  while (!condition()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return false;
    poll(nullptr, 0, 10);
  }
  return true;
}

std::vector<std::byte> Bytes(size_t size, uint64_t seed) {
  Random random(seed + 1);
  std::vector<std::byte> bytes(size);
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t word = random.Next();
    std::copy_n(reinterpret_cast<const std::byte*>(&word), 8, bytes.data() + i);
  }
  for (; i < size; ++i) bytes[i] = static_cast<std::byte>(random.Next());
  return bytes;
}

Cluster::Cluster(size_t stores, const std::string& dram, std::vector<std::string> more)
    : dram_(dram), more_(std::move(more)), stores_(stores) {
  auto master = ServerProcess::StartMaster(more_);
  EXPECT_TRUE(master.ok()) << master.error().ToString();
  master_ = std::move(master).value();
  for (size_t i = 0; i < stores; ++i) StartStore(i);
  WaitForStores(stores);
}

void Cluster::StartStore(size_t i) {
  auto store = ServerProcess::StartStore(*master_, "s" + std::to_string(i), {"--dram", dram_});
  EXPECT_TRUE(store.ok()) << store.error().ToString();
  stores_[i] = std::move(store).value();
}

void Cluster::RestartMaster() {
  const std::string port = std::to_string(master_->port());
  master_->Kill();
  std::vector<std::string> arguments = {"--roles", "master", "--admin-port", "0", "--port", port};
  arguments.insert(arguments.end(), more_.begin(), more_.end());
  auto master = ServerProcess::Start(arguments);
  EXPECT_TRUE(master.ok()) << master.error().ToString();
  master_ = std::move(master).value();
}

ClientOptions Cluster::Options(TransportChoice choice) const {
  ClientOptions options;
  options.master = MasterOption(*master_);
  options.transport = choice;
  options.timeout_ms = HangGuardMs(20'000);
  return options;
}

std::unique_ptr<Client> Cluster::Connect(TransportChoice choice) const { return Connect(Options(choice)); }

std::unique_ptr<Client> Cluster::Connect(const ClientOptions& options) const {
  auto client = Client::Connect(options);
  EXPECT_TRUE(client.ok()) << client.error().ToString();
  return std::move(client).value();
}

void Cluster::WaitForStores(size_t serving) const {
  auto client = Connect();
  EXPECT_TRUE(Eventually([&] {
    auto stores = client->Stores();
    return stores.ok() && static_cast<size_t>(std::ranges::count(*stores, "serving", &StoreStat::state)) == serving;
  }));
}

namespace {

// The memory of a server's DRAM segment, opened behind its back, and where in its process the segment begins.
std::pair<UniqueFd, off_t> OpenSegment(const ServerProcess& server, uint64_t bytes_needed) {
  const std::string proc = "/proc/" + std::to_string(server.pid());
  // The segment is the largest mapping of a memfd that can be written.
  std::ifstream maps(proc + "/maps");
  uint64_t best_start = 0, best_size = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") == std::string::npos || line.find(" rw-s ") == std::string::npos) continue;
    uint64_t start = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> start >> dash >> end;
    if (end - start > best_size) best_start = start, best_size = end - start;
  }
  EXPECT_GE(best_size, bytes_needed) << "no segment is mapped";
  UniqueFd memory(open((proc + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(memory) << "the memory of another process cannot be opened";
  return {std::move(memory), static_cast<off_t>(best_start)};
}

}  // namespace

void SwapBytes(const ServerProcess& server, uint64_t a, uint64_t b, uint64_t length) {
  const auto [memory, start] = OpenSegment(server, std::max(a, b) + length);
  std::vector<std::byte> first(length), second(length);
  const auto size = static_cast<ssize_t>(length);
  ASSERT_EQ(pread(memory.get(), first.data(), length, start + static_cast<off_t>(a)), size);
  ASSERT_EQ(pread(memory.get(), second.data(), length, start + static_cast<off_t>(b)), size);
  ASSERT_EQ(pwrite(memory.get(), second.data(), length, start + static_cast<off_t>(a)), size);
  ASSERT_EQ(pwrite(memory.get(), first.data(), length, start + static_cast<off_t>(b)), size);
}

void FlipBit(const ServerProcess& server, uint64_t segment_offset) {
  const auto [memory, start] = OpenSegment(server, segment_offset + 1);
  unsigned char byte = 0;
  const auto place = start + static_cast<off_t>(segment_offset);
  ASSERT_EQ(pread(memory.get(), &byte, 1, place), 1);
  byte ^= 0x10;
  ASSERT_EQ(pwrite(memory.get(), &byte, 1, place), 1);
}

Outcome RunProgram(const std::vector<std::string>& arguments, bool with_errors,
                   const std::vector<std::string>& environment) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), 1);
  if (with_errors) posix_spawn_file_actions_adddup2(&actions, write_end.get(), 2);
  std::vector<std::string> words = arguments, variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t pid = -1;
  EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data()), 0) << arguments[0];
  posix_spawn_file_actions_destroy(&actions);
  write_end.Reset();
  Outcome outcome;
  char buffer[65536];
  for (ssize_t n; (n = read(read_end.get(), buffer, sizeof(buffer))) > 0;) outcome.output.append(buffer, n);
  int status = 0;
  waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace tiercel::test
