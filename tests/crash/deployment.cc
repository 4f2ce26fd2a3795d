#include "tests/crash/deployment.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"

namespace tiercel::test {
namespace {

constexpr char kMemoryRoot[] = "/dev/shm";
constexpr int kStartAttempts = 5;  // the port may be taken by another test in between
constexpr size_t kLogTail = 4'000;

}  // namespace

bool Eventually(const std::function<bool()>& condition, int64_t guard_ms) {
  const int64_t limit = SystemClock::Get().Now().boot_ms + HangGuardMs(guard_ms);
  while (!condition()) {
    if (SystemClock::Get().Now().boot_ms >= limit) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

uint16_t FreePort() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto port = static_cast<uint16_t>(15000 + RandomId() % 15000);
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!fd) continue;
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  return 0;
}

MemoryDir::MemoryDir() {
  std::string pattern = std::string(kMemoryRoot) + "/tiercel-test-XXXXXX";
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

MemoryDir::~MemoryDir() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool MemoryDir::Fits(uint64_t bytes) {
  constexpr int64_t kTmpfs = 0x01021994;
  struct statfs about{};
  if (statfs(kMemoryRoot, &about) != 0 || about.f_type != kTmpfs) return false;
  return about.f_bavail * static_cast<uint64_t>(about.f_bsize) > bytes + bytes / 4;
}

uint64_t Deployment::Shape::Bytes(size_t stores) { return std::max<uint64_t>(stores, 1) * (uint64_t{128} << 20); }

Deployment::Deployment(Shape shape)
    : shape_(std::move(shape)), dir_(shape_.dir.empty() ? own_dir_.path() : shape_.dir), processes_(size()) {
  signal(SIGPIPE, SIG_IGN);  // connections to what was killed
  Status started = Error(ErrorCode::kInternal, "never tried");
  for (int attempt = 0; attempt < kStartAttempts && !started.ok(); ++attempt) {
    port_ = FreePort();
    started = Start(0);
  }
  for (size_t i = 1; i < size() && started.ok(); ++i) started = Start(i);
  if (started.ok() && !AwaitSettled()) started = Error(ErrorCode::kDeadline, "not all stores serve");
  if (!started.ok()) error_ = started.error().ToString();
}

std::filesystem::path Deployment::memory_of(size_t i) const { return memory_.path() / name_of(i); }

std::vector<std::string> Deployment::Arguments(size_t i) const {
  std::vector<std::string> words = {"--port", i == 0 ? std::to_string(port_) : "0", "--admin-port", "0"};
  const auto add = [&](std::vector<std::string> more) { words.insert(words.end(), more.begin(), more.end()); };
  if (i == 0) {
    add({"--dir", dir_.string()});
    add(shape_.more);
  }
  if (i == 0 && shape_.stores > 0) {
    add({"--roles", "master"});
    return words;
  }
  add({"--data-port", "0", "--store-name", name_of(i), "--location", "host=" + name_of(i), "--dram", shape_.dram});
  if (shape_.backing) add({"--dram-backing", memory_.path().string()});
  if (i > 0) add({"--roles", "store", "--master", "127.0.0.1", std::to_string(port_)});
  return words;
}

Status Deployment::Start(size_t i, const std::vector<std::string>& more) {
  KeepLog(i);
  processes_[i].reset();
  std::vector<std::string> words = Arguments(i);
  words.insert(words.end(), more.begin(), more.end());
  TIERCEL_ASSIGN(processes_[i], ServerProcess::Start(std::move(words)));
  return Ok();
}

void Deployment::Kill(size_t i) {
  if (processes_[i] != nullptr) processes_[i]->Kill();
}

int Deployment::Stop(size_t i) {
  processes_[i]->Signal(SIGTERM);
  return processes_[i]->WaitExit(HangGuardMs(30'000)).value_or(-1);
}

void Deployment::KeepLog(size_t i) {
  if (processes_[i] == nullptr) return;
  const std::string log = processes_[i]->log();
  logs_ += "---- process " + std::to_string(i) + "\n" + log.substr(log.size() - std::min(log.size(), kLogTail));
}

std::string Deployment::Logs() const {
  std::string all = logs_;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i] == nullptr) continue;
    const std::string log = processes_[i]->log();
    all += "---- process " + std::to_string(i) + " (last)\n" + log.substr(log.size() - std::min(log.size(), kLogTail));
  }
  return all;
}

std::unique_ptr<Redis> Deployment::Connect() { return std::make_unique<Redis>("127.0.0.1", port_); }

ClientOptions Deployment::Options() const {
  ClientOptions options;
  options.master = "127.0.0.1:" + std::to_string(port_);
  options.timeout_ms = HangGuardMs(20'000);
  return options;
}

std::unique_ptr<Client> Deployment::ConnectClient() const {
  auto client = Client::Connect(Options());
  return client.ok() ? std::move(*client) : nullptr;
}

int64_t Deployment::Info(const std::string& field) {
  const std::string all = "\r\n" + Connect()->Call({"INFO", "everything"}).text;
  const size_t at = all.find("\r\n" + field + ":");
  return at == std::string::npos ? -1 : std::atoll(all.c_str() + at + field.size() + 3);
}

bool Deployment::AwaitSettled() {
  const std::unique_ptr<Redis> redis = Connect();
  return Eventually([&] {
    const RedisReply stores = redis->Call({"STORES"});
    const auto serving = std::ranges::count_if(
        stores.items, [](const RedisReply& store) { return store.Field("state").text == "serving"; });
    return serving == static_cast<int64_t>(std::max<size_t>(shape_.stores, 1)) && Info("restored_waiting") == 0;
  });
}

}  // namespace tiercel::test
