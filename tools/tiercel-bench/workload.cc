#include "tools/tiercel-bench/workload.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/random.h"

namespace tiercel::bench {
namespace {

class KeyChooser {
 public:
  KeyChooser(const Options& options, uint64_t seed) : random_(seed), keys_(options.keys), zipf_(options.zipf) {
    if (!zipf_) return;
    for (uint64_t i = 1; i <= keys_; ++i) zeta_ += 1.0 / std::pow(static_cast<double>(i), kTheta);
    const double zeta2 = 1.0 + std::pow(0.5, kTheta);
    alpha_ = 1.0 / (1.0 - kTheta);
    eta_ = (1.0 - std::pow(2.0 / static_cast<double>(keys_), 1.0 - kTheta)) / (1.0 - zeta2 / zeta_);
  }
  uint64_t Next() {
    if (!zipf_) return random_.Below(keys_);
    const double u = random_.Unit(), uz = u * zeta_;
    if (uz < 1.0) return 0;
    if (uz < 1.0 + std::pow(0.5, kTheta)) return std::min<uint64_t>(1, keys_ - 1);
    const auto rank = static_cast<uint64_t>(static_cast<double>(keys_) * std::pow(eta_ * u - eta_ + 1, alpha_));
    return std::min(rank, keys_ - 1);
  }
  Random& random() { return random_; }

 private:
  static constexpr double kTheta = 0.99;
  Random random_;
  const uint64_t keys_;
  const bool zipf_;
  double zeta_ = 0, alpha_ = 0, eta_ = 0;
};

std::string KeyOf(const Options& options, uint64_t number) { return options.key_prefix + std::to_string(number); }

// The bytes of a key's value follow from its number, so that a reader can check them without a copy.
void FillValue(uint64_t number, std::span<std::byte> value) {
  Random random(number + 1);
  size_t at = 0;
  // Random for 4 KiB, then repeated with the piece's number, so that pieces differ and filling stays cheap.
  uint64_t words[512];
  for (uint64_t& word : words) word = random.Next();
  for (uint64_t piece = 0; at < value.size(); ++piece) {
    words[0] = piece ^ number;
    const size_t n = std::min(sizeof words, value.size() - at);
    std::memcpy(value.data() + at, words, n);
    at += n;
  }
}

bool ValueIsRight(uint64_t number, std::span<const std::byte> value, std::vector<std::byte>* scratch) {
  scratch->resize(value.size());
  FillValue(number, *scratch);
  return std::memcmp(scratch->data(), value.data(), value.size()) == 0;
}

ClientOptions ToClientOptions(const Options& options) {
  ClientOptions out;
  out.master = options.master;
  out.user = options.user;
  out.password = options.password;
  out.name = "tiercel-bench";
  out.transport = options.transport;
  out.connections_per_store = options.connections;
  return out;
}

// One thread's share of a workload.
class Worker {
 public:
  Worker(const Options& options, Client& client, uint64_t seed)
      : options_(options), client_(client), chooser_(options, seed), get_{.transport = options.transport} {
    put_.transport = options.transport;
  }

  Status Prepare() {
    const bool writes = options_.kind == Kind::kPut || options_.kind == Kind::kMixed || options_.kind == Kind::kControl;
    const bool reads = options_.kind == Kind::kGet || options_.kind == Kind::kMixed;
    const size_t bytes = options_.value_bytes * options_.batch;
    if (reads) sink_ = Buffer(bytes);
    if (reads) std::memset(sink_.data(), 0, sink_.size());  // first touch is not part of the measurement
    if (!writes) return Ok();
    if (options_.registered) {
      TIERCEL_ASSIGN(registered_, client_.AllocateRegistered(std::max<size_t>(bytes, 1)));
      source_ = registered_->span();
    } else {
      source_buffer_ = Buffer(bytes);
      source_ = source_buffer_.span();
    }
    FillValue(0, source_);
    return Ok();
  }

  void Call(Outcome* outcome) {
    const int64_t start = MonotonicNanos();
    Operate(outcome);
    outcome->latency.Add(static_cast<uint64_t>(MonotonicNanos() - start));
  }

 private:
  void Operate(Outcome* outcome) {
    numbers_.clear();
    keys_.clear();
    for (uint32_t i = 0; i < options_.batch; ++i) {
      numbers_.push_back(chooser_.Next());
      keys_.push_back(KeyOf(options_, numbers_.back()));
    }
    views_.assign(keys_.begin(), keys_.end());
    switch (options_.kind) {
      case Kind::kPut: return Put(outcome);
      case Kind::kGet: return Get(outcome);
      case Kind::kMixed: return chooser_.random().Unit() < options_.read_share ? Get(outcome) : Put(outcome);
      case Kind::kExists: return Exists(outcome);
      case Kind::kControl: return Control(outcome);
      case Kind::kView: return View(outcome);
    }
  }

  void Fail(Outcome* outcome, const Error& error) {
    if (outcome->errors++ == 0) outcome->first_error = error.ToString();
  }

  void Put(Outcome* outcome) {
    put_.replace = true;
    std::vector<PutItem> items;
    for (size_t i = 0; i < keys_.size(); ++i) {
      auto value = source_.subspan(i * options_.value_bytes, options_.value_bytes);
      if (options_.verify) FillValue(numbers_[i], value);
      items.push_back({views_[i], value});
    }
    if (items.size() == 1) return CountPut(client_.Put(items[0].key, items[0].value, put_), outcome);
    for (auto& result : client_.PutBatch(items, put_)) CountPut(result, outcome);
  }
  void CountPut(const Result<PutResult>& result, Outcome* outcome) {
    if (!result.ok()) return Fail(outcome, result.error());
    outcome->operations += 1;
    outcome->bytes += options_.value_bytes;
  }

  void Get(Outcome* outcome) {
    std::vector<GetItem> items;
    for (size_t i = 0; i < keys_.size(); ++i) {
      items.push_back({views_[i], sink_.span().subspan(i * options_.value_bytes, options_.value_bytes)});
    }
    if (items.size() == 1)
      return CountGet(client_.GetInto(items[0].key, items[0].memory, get_), 0, items[0].memory, outcome);
    auto results = client_.GetIntoBatch(items, get_);
    for (size_t i = 0; i < results.size(); ++i) CountGet(results[i], i, items[i].memory, outcome);
  }
  void CountGet(const Result<std::optional<uint64_t>>& result, size_t i, std::span<std::byte> memory,
                Outcome* outcome) {
    if (!result.ok()) return Fail(outcome, result.error());
    outcome->operations += 1;
    if (!result->has_value()) {
      outcome->misses += 1;
      return;
    }
    outcome->bytes += **result;
    if (options_.verify && !ValueIsRight(numbers_[i], memory.first(**result), &scratch_)) outcome->mismatches += 1;
  }

  void View(Outcome* outcome) {
    for (size_t i = 0; i < views_.size(); ++i) {
      auto view = client_.View(views_[i], get_);
      if (!view.ok()) {
        Fail(outcome, view.error());
        continue;
      }
      outcome->operations += 1;
      if (*view == nullptr) {
        outcome->misses += 1;
        continue;
      }
      outcome->bytes += (*view)->size();
      if (options_.verify && !ValueIsRight(numbers_[i], (*view)->pieces()[0], &scratch_)) outcome->mismatches += 1;
    }
  }

  void Exists(Outcome* outcome) {
    for (const auto& result : client_.ExistsBatch(views_)) {
      if (!result.ok()) {
        Fail(outcome, result.error());
        continue;
      }
      outcome->operations += 1;
      outcome->misses += *result ? 0 : 1;
    }
  }

  // The control plane alone: begin a put, and give it back.
  void Control(Outcome* outcome) {
    for (const std::string& key : keys_) {
      const std::string size = std::to_string(options_.value_bytes);
      const std::string_view start[] = {"PUTSTART", key, size, "REPLACE"};
      auto plan = client_.Command(start);
      if (!plan.ok()) {
        Fail(outcome, plan.error());
        continue;
      }
      const auto at = plan->find("put");
      std::string id;
      for (size_t i = at == std::string::npos ? plan->size() : at + 3; i < plan->size(); ++i) {
        if (std::isdigit(static_cast<unsigned char>((*plan)[i])) != 0)
          id.push_back((*plan)[i]);
        else if (!id.empty())
          break;
      }
      const std::string_view revoke[] = {"PUTREVOKE", id};
      auto end = client_.Command(revoke);
      if (!end.ok()) Fail(outcome, end.error());
      outcome->operations += 1;
    }
  }

  const Options& options_;
  Client& client_;
  KeyChooser chooser_;
  GetOptions get_;
  PutOptions put_;
  Buffer sink_, source_buffer_;
  std::unique_ptr<RegisteredBuffer> registered_;
  std::span<std::byte> source_;
  std::vector<uint64_t> numbers_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> views_;
  std::vector<std::byte> scratch_;
};

Status FillKeySpace(const Options& options, Client& client, const std::atomic<bool>& stop) {
  Buffer value(options.value_bytes);
  PutOptions put{.replace = true, .transport = options.transport};
  const bool show = isatty(STDERR_FILENO) != 0;
  for (uint64_t i = 0; i < options.keys && !stop; ++i) {
    FillValue(i, value.span());
    auto result = client.Put(KeyOf(options, i), value.span(), put);
    if (!result.ok()) return result.error();
    if (show && i % 16 == 0) std::fprintf(stderr, "\rfilling %lu of %lu keys ", i, options.keys);
  }
  if (show) std::fprintf(stderr, "\r\033[K");
  return Ok();
}

void ShowProgress(const Options& options, double begun, const std::atomic<uint64_t>& operations) {
  if (isatty(STDERR_FILENO) == 0) return;
  const double elapsed = static_cast<double>(MonotonicNanos()) / 1e9 - begun;
  std::fprintf(stderr, "\r%5.1f of %.1f s, %lu operations ", elapsed, options.seconds, operations.load());
}

}  // namespace

double CpuSeconds(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto paren = text.rfind(')');
  if (paren == std::string::npos) return 0;
  std::istringstream words(text.substr(paren + 1));
  std::string word;
  double ticks = 0;
  for (int field = 3; words >> word; ++field) {
    if (field == 14 || field == 15) ticks += std::stod(word);
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

Result<Outcome> RunWorkload(const Options& options, const std::atomic<bool>& stop) {
  TIERCEL_ASSIGN(auto client, Client::Connect(ToClientOptions(options)));
  if (options.kind != Kind::kPut && options.kind != Kind::kControl) TIERCEL_TRY(FillKeySpace(options, *client, stop));

  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < options.threads; ++i) {
    workers.push_back(std::make_unique<Worker>(options, *client, options.seed * 1000 + i));
    TIERCEL_TRY(workers.back()->Prepare());
  }
  std::vector<Outcome> outcomes(options.threads);
  std::atomic<uint64_t> operations{0};
  double cpu = 0;
  for (int pid : options.server_pids) cpu -= CpuSeconds(pid);
  const int64_t begun = MonotonicNanos();
  const int64_t end = begun + static_cast<int64_t>(options.seconds * 1e9);
  auto more = [&] {
    if (stop) return false;
    if (options.operations != 0) return operations.load(std::memory_order_relaxed) < options.operations;
    return MonotonicNanos() < end;
  };
  auto run = [&](uint32_t i) {
    while (more()) {
      operations.fetch_add(options.batch, std::memory_order_relaxed);
      workers[i]->Call(&outcomes[i]);
      if (i == 0 && outcomes[0].latency.count() % 256 == 0) {
        ShowProgress(options, static_cast<double>(begun) / 1e9, operations);
      }
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < options.threads; ++i) threads.emplace_back(run, i);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");

  Outcome total;
  total.seconds = static_cast<double>(MonotonicNanos() - begun) / 1e9;
  for (int pid : options.server_pids) cpu += CpuSeconds(pid);
  total.server_cpu_seconds = cpu;
  for (const Outcome& one : outcomes) {
    total.operations += one.operations;
    total.bytes += one.bytes;
    total.misses += one.misses;
    total.errors += one.errors;
    total.mismatches += one.mismatches;
    total.latency.Merge(one.latency);
    if (total.first_error.empty()) total.first_error = one.first_error;
  }
  return total;
}

}  // namespace tiercel::bench
