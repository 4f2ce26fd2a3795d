// tiercel-bench: puts a running cluster, or the machine itself, under a defined load and reports rates, latency
// percentiles and the servers' CPU.
#include <CLI/CLI.hpp>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/units.h"
#include "tools/tiercel-bench/machine.h"
#include "tools/tiercel-bench/workload.h"

namespace tiercel::bench {
namespace {

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
    return 4;
  }
  if (json)
    std::printf("%s\n", ToJson(options, *outcome).dump(2).c_str());
  else
    Print(options, *outcome);
  if (stop) return 130;
  return outcome->errors + outcome->mismatches == 0 ? 0 : 1;
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
  return figures.ratio > 0 ? 0 : 1;
}

int RunRoundTrip(int count, bool json) {
  const double micros = static_cast<double>(MeasureRoundTrip(count, stop)) / 1e3;
  if (json)
    std::printf("%s\n", Json{{"p50_us", micros}}.dump(2).c_str());
  else
    std::printf("bare loopback round trip: p50 %.1f us\n", micros);
  return micros > 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app{"Load generator for Tiercel. Sizes as in conf files (64kb, 1mb)."};
  app.require_subcommand(1);
  Options options;
  std::string size = "1mb", transport = "auto", distribution = "uniform";
  bool json = false;
  int rounds = 3, round_trips = 20'000;

  auto add_common = [&](CLI::App* sub) {
    sub->add_option("--master", options.master, "host:port of the master")->capture_default_str();
    sub->add_option("--user", options.user, "user to log in as; the password comes from TIERCEL_PASSWORD");
    sub->add_option("--size", size, "bytes of a value")->capture_default_str();
    sub->add_option("--threads", options.threads, "calling threads")->check(CLI::Range(1, 256))->capture_default_str();
    sub->add_option("--batch", options.batch, "keys per call")->check(CLI::Range(1, 4096))->capture_default_str();
    sub->add_option("--keys", options.keys, "size of the key space")
        ->check(CLI::Range(1, 100'000'000))
        ->capture_default_str();
    sub->add_option("--distribution", distribution, "uniform or zipf")
        ->check(CLI::IsMember({"uniform", "zipf"}))
        ->capture_default_str();
    sub->add_option("--seconds", options.seconds, "how long")->check(CLI::Range(0.1, 86400.0))->capture_default_str();
    sub->add_option("--operations", options.operations, "how many, instead of how long");
    sub->add_option("--transport", transport, "auto, tcp or shm")
        ->check(CLI::IsMember({"auto", "tcp", "shm"}))
        ->capture_default_str();
    sub->add_option("--connections", options.connections, "data connections per store")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    sub->add_option("--seed", options.seed, "of the key choice")->capture_default_str();
    sub->add_option("--server-pid", options.server_pids, "server processes whose CPU is counted");
    sub->add_option("--key-prefix", options.key_prefix, "of every key")->capture_default_str();
    sub->add_flag("--verify", options.verify, "compare every byte with what was written");
    sub->add_flag("--registered", options.registered, "put from memory that stores may map");
    sub->add_flag("--json", json, "machine-readable result");
  };
  struct Named {
    const char* name;
    const char* help;
    Kind kind;
  };
  const Named kinds[] = {{"put", "replace values", Kind::kPut},
                         {"get", "read values into memory", Kind::kGet},
                         {"mixed", "reads and replaces", Kind::kMixed},
                         {"exists", "ask for presence", Kind::kExists},
                         {"control", "begin a put and give it back: metadata alone", Kind::kControl},
                         {"view", "zero-copy views (shared memory)", Kind::kView}};
  std::vector<CLI::App*> subs;
  for (const Named& kind : kinds) {
    subs.push_back(app.add_subcommand(kind.name, kind.help));
    add_common(subs.back());
  }
  subs[2]
      ->add_option("--read-share", options.read_share, "share of reads")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  CLI::App* memory = app.add_subcommand("memory", "memcpy against copy-and-hash on this machine");
  memory->add_option("--rounds", rounds, "alternating rounds; the best ratio counts")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  memory->add_flag("--json", json);
  CLI::App* trip = app.add_subcommand("rtt", "a bare loopback round trip on this machine");
  trip->add_option("--count", round_trips, "round trips")->check(CLI::Range(1, 10'000'000))->capture_default_str();
  trip->add_flag("--json", json);
  CLI11_PARSE(app, argc, argv);

  if (memory->parsed()) return RunMemory(rounds, json);
  if (trip->parsed()) return RunRoundTrip(round_trips, json);
  const auto bytes = ParseSize(size);
  if (!bytes || *bytes > kMaxValueBytes) {
    std::fprintf(stderr, "tiercel-bench: --size '%s' is not a size of at most 64gb\n", size.c_str());
    return 2;
  }
  options.value_bytes = *bytes;
  options.zipf = distribution == "zipf";
  if (transport == "tcp") options.transport = TransportChoice::kTcp;
  if (transport == "shm") options.transport = TransportChoice::kShm;
  if (const char* password = std::getenv("TIERCEL_PASSWORD")) options.password = password;
  for (size_t i = 0; i < subs.size(); ++i) {
    if (subs[i]->parsed()) return RunKind(options, kinds[i].kind, json);
  }
  return 2;
}

}  // namespace
}  // namespace tiercel::bench

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { tiercel::bench::stop = true; });
  return tiercel::bench::Main(argc, argv);
}
