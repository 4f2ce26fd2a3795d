// tiercel-demo: stores every regular file under a directory, reads all of it back through the client library over
// TCP and over shared memory, compares every byte, and prints one screen of rates. Exit status 0 only when all agreed.
// Also writes a sample of the keys (NUL-separated) for another client to compare.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tiercel/client.h"

namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchFiles = 64;
constexpr uint64_t kBatchBytes = 64 << 20;  // of payload in memory at once
constexpr size_t kSampleFiles = 25;

volatile std::sig_atomic_t interrupted = 0;

struct File {
  std::string key;  // path relative to the directory
  uint64_t size = 0;
};

struct Pass {
  std::string name;
  uint64_t files = 0, bytes = 0, different = 0;
  double seconds = 0;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<File> FilesUnder(const fs::path& root) {
  std::vector<File> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, error), end; it != end;
       it.increment(error)) {
    if (error) break;
    if (!it->is_regular_file(error) || it->is_symlink(error)) continue;
    std::string key = fs::relative(it->path(), root, error).string();
    if (key.size() <= tiercel::kMaxKeyBytes) files.push_back({std::move(key), it->file_size(error)});
  }
  return files;
}

bool ReadFile(const fs::path& path, std::string* out) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  out->assign(std::istreambuf_iterator<char>(in), {});
  return !in.bad();
}

void Progress(const Pass& pass, size_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r%-28s %zu of %zu files ", pass.name.c_str(), static_cast<size_t>(pass.files), total);
  if (pass.files == total) std::fprintf(stderr, "\r\033[K");
}

// Calls `batch` with runs of files that stay within the batch's bounds.
template <typename F>
bool ForBatches(const std::vector<File>& files, F&& batch) {
  for (size_t begin = 0; begin < files.size();) {
    size_t end = begin;
    uint64_t bytes = 0;
    while (end < files.size() && end - begin < kBatchFiles &&
           (end == begin || bytes + files[end].size <= kBatchBytes)) {
      bytes += files[end++].size;
    }
    if (interrupted || !batch(std::span(files).subspan(begin, end - begin))) return false;
    begin = end;
  }
  return true;
}

bool StoreAll(tiercel::Client& client, const fs::path& root, std::vector<File>& files, Pass* pass) {
  return ForBatches(files, [&](std::span<const File> run) {
    std::vector<std::string> contents(run.size());
    std::vector<tiercel::PutItem> items;
    for (size_t i = 0; i < run.size(); ++i) {
      if (!ReadFile(root / run[i].key, &contents[i])) {
        std::fprintf(stderr, "cannot read %s\n", run[i].key.c_str());
        return false;
      }
      items.push_back({run[i].key, std::as_bytes(std::span(contents[i].data(), contents[i].size()))});
    }
    const double start = Now();
    auto results = client.PutBatch(items);
    pass->seconds += Now() - start;
    for (size_t i = 0; i < run.size(); ++i) {
      if (!results[i].ok()) {
        std::fprintf(stderr, "put %s: %s\n", run[i].key.c_str(), results[i].error().ToString().c_str());
        return false;
      }
      pass->files += 1;
      pass->bytes += items[i].value.size();
    }
    Progress(*pass, files.size());
    return true;
  });
}

bool CompareAll(tiercel::Client& client, const fs::path& root, const std::vector<File>& files, Pass* pass) {
  return ForBatches(files, [&](std::span<const File> run) {
    std::vector<std::string_view> keys;
    for (const File& file : run) keys.push_back(file.key);
    const double start = Now();
    auto results = client.GetBatch(keys);
    pass->seconds += Now() - start;
    for (size_t i = 0; i < run.size(); ++i) {
      std::string expected;
      if (!ReadFile(root / run[i].key, &expected)) return false;
      if (!results[i].ok()) {
        std::fprintf(stderr, "get %s: %s\n", run[i].key.c_str(), results[i].error().ToString().c_str());
        return false;
      }
      const bool same = results[i]->has_value() && (*results[i])->view() == expected;
      if (!same) std::fprintf(stderr, "%s: %s differs\n", pass->name.c_str(), run[i].key.c_str());
      pass->different += same ? 0 : 1;
      pass->files += 1;
      pass->bytes += expected.size();
    }
    Progress(*pass, files.size());
    return true;
  });
}

void PrintPass(const Pass& pass) {
  std::printf("%-28s %7zu files  %9.1f MiB  %8.1f MiB/s  %8.0f files/s%s\n", pass.name.c_str(),
              static_cast<size_t>(pass.files), static_cast<double>(pass.bytes) / (1 << 20),
              static_cast<double>(pass.bytes) / (1 << 20) / std::max(pass.seconds, 1e-9),
              static_cast<double>(pass.files) / std::max(pass.seconds, 1e-9), pass.different != 0 ? "  DIFFERENT" : "");
}

tiercel::Result<std::unique_ptr<tiercel::Client>> ConnectOver(const std::string& master,
                                                              tiercel::TransportChoice wire) {
  tiercel::ClientOptions options;
  options.master = master;
  options.name = "tiercel-demo";
  options.transport = wire;
  return tiercel::Client::Connect(options);
}

int Run(const std::string& master, const fs::path& root, const std::string& sample_file) {
  auto tcp = ConnectOver(master, tiercel::TransportChoice::kTcp);
  auto shm = ConnectOver(master, tiercel::TransportChoice::kShm);
  if (!tcp.ok() || !shm.ok()) {
    std::fprintf(stderr, "connect: %s\n", (tcp.ok() ? shm : tcp).error().ToString().c_str());
    return 4;
  }
  std::vector<File> files = FilesUnder(root);
  if (files.empty()) {
    std::fprintf(stderr, "no regular files under %s\n", root.c_str());
    return 2;
  }
  Pass put{.name = "put, C++ client over TCP"}, tcp_get{.name = "get, C++ client over TCP"},
      shm_get{.name = "get, C++ client over shm"};
  if (!StoreAll(**tcp, root, files, &put) || !CompareAll(**tcp, root, files, &tcp_get) ||
      !CompareAll(**shm, root, files, &shm_get)) {
    return interrupted ? 130 : 1;
  }
  std::ofstream sample(sample_file, std::ios::binary);
  const size_t step = std::max<size_t>(1, files.size() / kSampleFiles);
  for (size_t i = 0; i < files.size(); i += step)
    sample.write(files[i].key.c_str(), static_cast<long>(files[i].key.size() + 1));
  PrintPass(put);
  PrintPass(tcp_get);
  PrintPass(shm_get);
  return sample.good() && tcp_get.different + shm_get.different == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Stores a directory in Tiercel, reads it back over every wire and compares every byte."};
  std::string master = "127.0.0.1:7379", directory, sample;
  app.add_option("--master", master, "host:port of the master");
  app.add_option("--directory", directory, "files to store")->required();
  app.add_option("--sample", sample, "writes a sample of the keys here, NUL-separated")->required();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGINT, [](int) { interrupted = 1; });
  return Run(master, directory, sample);
}
