// tiercel-bench: puts a running cluster, or the machine itself, under a defined load and reports rates, latency
// percentiles and the servers' CPU.
#include <CLI/CLI.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "tools/tiercel-bench/machine.h"
#include "tools/tiercel-bench/workload.h"

namespace tiercel::bench {
namespace {

enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kNoConnection = 4, kInterrupted = 130 };

std::atomic<bool> stop{false};

using Json = nlohmann::ordered_json;

Json ToJson(const Options& options, const Outcome& outcome) {
  const double seconds = outcome.seconds > 0 ? outcome.seconds : 1;
  Json json = {{"operations", outcome.operations},
               {"seconds", outcome.seconds},
               {"operations_per_second", static_cast<double>(outcome.operations) / seconds},
               {"bytes", outcome.bytes},
               {"bytes_per_second", static_cast<double>(outcome.bytes) / seconds},
               {"value_bytes", options.value_bytes},
               {"threads", options.threads},
               {"batch", options.batch},
               {"latency_us",
                {{"p50", static_cast<double>(outcome.latency.Quantile(0.5)) / 1e3},
                 {"p90", static_cast<double>(outcome.latency.Quantile(0.9)) / 1e3},
                 {"p99", static_cast<double>(outcome.latency.Quantile(0.99)) / 1e3},
                 {"p999", static_cast<double>(outcome.latency.Quantile(0.999)) / 1e3},
                 {"max", static_cast<double>(outcome.latency.max()) / 1e3}}},
               {"misses", outcome.misses},
               {"errors", outcome.errors},
               {"mismatches", outcome.mismatches}};
  if (!options.server_pids.empty()) json["server_cpu_seconds"] = outcome.server_cpu_seconds;
  if (!outcome.first_error.empty()) json["first_error"] = outcome.first_error;
  return json;
}

void Print(const Options& options, const Outcome& outcome) {
  const double seconds = outcome.seconds > 0 ? outcome.seconds : 1;
  std::printf("%lu operations in %.2f s: %.0f/s, %.3f GB/s\n", outcome.operations, outcome.seconds,
              static_cast<double>(outcome.operations) / seconds, static_cast<double>(outcome.bytes) / seconds / 1e9);
  std::printf("latency of a call in us: p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n",
              static_cast<double>(outcome.latency.Quantile(0.5)) / 1e3,
              static_cast<double>(outcome.latency.Quantile(0.9)) / 1e3,
              static_cast<double>(outcome.latency.Quantile(0.99)) / 1e3,
              static_cast<double>(outcome.latency.Quantile(0.999)) / 1e3,
              static_cast<double>(outcome.latency.max()) / 1e3);
  if (!options.server_pids.empty() && outcome.operations != 0) {
    std::printf("server CPU: %.2f s, %.2f us an operation\n", outcome.server_cpu_seconds,
                outcome.server_cpu_seconds * 1e6 / static_cast<double>(outcome.operations));
  }
  std::printf("misses %lu, errors %lu, mismatches %lu\n", outcome.misses, outcome.errors, outcome.mismatches);
  if (!outcome.first_error.empty()) std::printf("first error: %s\n", outcome.first_error.c_str());
}

int RunKind(Options options, Kind kind, bool json) {
  options.kind = kind;
  auto outcome = RunWorkload(options, stop);
  if (!outcome.ok()) {
    std::fprintf(stderr, "tiercel-bench: %s\n", outcome.error().ToString().c_str());
    return kNoConnection;
  }
  if (json)
    std::printf("%s\n", ToJson(options, *outcome).dump(2).c_str());
  else
    Print(options, *outcome);
  if (stop) return kInterrupted;
  return outcome->errors + outcome->mismatches == 0 ? kDone : kFailed;
}

int RunMemory(int rounds, bool json) {
  const MemoryFigures figures = MeasureMemory(rounds, stop);
  if (json) {
    std::printf("%s\n", Json{{"memcpy_bytes_per_second", figures.memcpy_bytes_per_second},
                             {"copy_hash_bytes_per_second", figures.copy_hash_bytes_per_second},
                             {"ratio", figures.ratio}}
                            .dump(2)
                            .c_str());
  } else {
    std::printf("memcpy %.2f GB/s, copy and hash %.2f GB/s, ratio %.3f\n", figures.memcpy_bytes_per_second / 1e9,
                figures.copy_hash_bytes_per_second / 1e9, figures.ratio);
  }
  return figures.ratio > 0 ? kDone : kFailed;
}

int RunRoundTrip(int count, bool json) {
  const double micros = static_cast<double>(MeasureRoundTrip(count, stop)) / 1e3;
  if (json)
    std::printf("%s\n", Json{{"p50_us", micros}}.dump(2).c_str());
  else
    std::printf("bare loopback round trip: p50 %.1f us\n", micros);
  return micros > 0 ? kDone : kFailed;
}

// What the command line says, before it is checked as a whole.
struct Arguments {
  Options options;
  std::string size = "1mb", transport = "auto", distribution = "uniform";
  bool json = false;
  int rounds = 3, round_trips = 20'000;
};

void AddCluster(CLI::App* sub, Arguments* arguments) {
  Options& options = arguments->options;
  sub->add_option("-m,--master", options.master, "HOST:PORT, [V6]:PORT or unix:PATH of the master")
      ->envname("TIERCEL_MASTER")
      ->capture_default_str();
  sub->add_option("-u,--user", options.user, "log in as this user; the password comes from TIERCEL_PASSWORD")
      ->envname("TIERCEL_USER");
  sub->add_option("-t,--transport", arguments->transport, "how bytes move; auto: shared memory where possible")
      ->check(CLI::IsMember({"auto", "tcp", "shm"}))
      ->type_name("NAME")
      ->capture_default_str();
  sub->add_option("--connections", options.connections, "data connections per store")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  sub->add_option("--server-pid", options.server_pids, "processes of servers, whose CPU time is reported as well");
}

void AddLoad(CLI::App* sub, Arguments* arguments) {
  Options& options = arguments->options;
  sub->add_option("--size", arguments->size, "bytes of a value, such as 64kb or 1mb")
      ->type_name("SIZE")
      ->capture_default_str();
  sub->add_option("--threads", options.threads, "threads that call")->check(CLI::Range(1, 256))->capture_default_str();
  sub->add_option("--batch", options.batch, "keys per call")->check(CLI::Range(1, 4096))->capture_default_str();
  sub->add_option("--keys", options.keys, "how many different keys")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  sub->add_option("--key-prefix", options.key_prefix, "how every key begins")->capture_default_str();
  sub->add_option("--distribution", arguments->distribution, "how keys are drawn; zipf: some far more often")
      ->check(CLI::IsMember({"uniform", "zipf"}))
      ->type_name("NAME")
      ->capture_default_str();
  sub->add_option("--seed", options.seed, "seed of the drawing of keys")->capture_default_str();
  sub->add_option("--seconds", options.seconds, "how long it runs")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  sub->add_option("--operations", options.operations, "how many operations (keys) it runs for, instead of a time");
  sub->add_flag("--verify", options.verify, "compare every byte with what was written, beyond the checksums");
  sub->add_flag("--registered", options.registered, "put from memory that stores may map");
}

void AddJson(CLI::App* sub, Arguments* arguments) { sub->add_flag("--json", arguments->json, "print one JSON object"); }

struct Workload {
  Kind kind;
  const char* name;
  const char* help;
};

constexpr Workload kWorkloads[] = {
    {Kind::kPut, "put", "write values, replacing what the keys hold"},
    {Kind::kGet, "get", "read values into memory"},
    {Kind::kMixed, "mixed", "read and replace values"},
    {Kind::kExists, "exists", "ask for presence"},
    {Kind::kControl, "control", "begin a put and give it back: metadata alone"},
    {Kind::kView, "view", "take zero-copy views (shared memory)"},
};

constexpr const char* kFooter =
    "All workloads but put and control first write every key; the keys stay when it ends.\n"
    "Exit status: 0 done; 1 an operation failed or read other bytes; 2 wrong arguments; 4 the cluster cannot be\n"
    "reached or filled; 130 interrupted.";

int RunWorkloadOf(Arguments arguments, Kind kind) {
  const auto bytes = ParseSize(arguments.size);
  if (!bytes || *bytes > kMaxValueBytes) {
    std::fprintf(stderr, "tiercel-bench: --size '%s' is not a size of at most 64gb\n", arguments.size.c_str());
    return kUsage;
  }
  Options& options = arguments.options;
  options.value_bytes = *bytes;
  options.zipf = arguments.distribution == "zipf";
  if (arguments.transport == "tcp") options.transport = TransportChoice::kTcp;
  if (arguments.transport == "shm") options.transport = TransportChoice::kShm;
  if (const char* password = std::getenv("TIERCEL_PASSWORD")) options.password = password;
  return RunKind(options, kind, arguments.json);
}

int Main(int argc, char** argv) {
  CLI::App app{"Load generator for Tiercel.", "tiercel-bench"};
  app.footer(kFooter);
  app.require_subcommand(1);
  Arguments arguments;
  std::vector<std::pair<CLI::App*, Kind>> workloads;
  for (const Workload& workload : kWorkloads) {
    CLI::App* sub = app.add_subcommand(workload.name, workload.help);
    AddCluster(sub, &arguments);
    AddLoad(sub, &arguments);
    if (workload.kind == Kind::kMixed) {
      sub->add_option("--read-share", arguments.options.read_share, "share of reads, from 0 to 1")
          ->check(CLI::Range(0.0, 1.0))
          ->capture_default_str();
    }
    AddJson(sub, &arguments);
    workloads.emplace_back(sub, workload.kind);
  }
  CLI::App* memory = app.add_subcommand("memory", "memcpy against copy-and-hash on this machine, without a cluster");
  memory->add_option("--rounds", arguments.rounds, "alternating rounds; the best ratio counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  AddJson(memory, &arguments);
  CLI::App* trip = app.add_subcommand("rtt", "bare loopback round trips on this machine, without a cluster");
  trip->add_option("--count", arguments.round_trips, "how many round trips")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  AddJson(trip, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUsage;
  }

  if (memory->parsed()) return RunMemory(arguments.rounds, arguments.json);
  if (trip->parsed()) return RunRoundTrip(arguments.round_trips, arguments.json);
  for (const auto& [sub, kind] : workloads) {
    if (sub->parsed()) return RunWorkloadOf(arguments, kind);
  }
  return kUsage;
}

}  // namespace
}  // namespace tiercel::bench

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { tiercel::bench::stop = true; });
  return tiercel::bench::Main(argc, argv);
}
