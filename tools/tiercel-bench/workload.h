// Workloads against a running cluster: what each operation is, how keys are drawn, what is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tiercel/client.h"
#include "tools/tiercel-bench/histogram.h"

namespace tiercel::bench {

enum class Kind { kPut, kGet, kMixed, kExists, kControl, kView };

struct Options {
  Kind kind = Kind::kGet;
  std::string master = "127.0.0.1:7379";
  std::string user, password;
  uint64_t value_bytes = 1 << 20;
  uint32_t threads = 1;
  uint32_t batch = 1;  // keys per call
  uint64_t keys = 64;  // size of the key space
  bool zipf = false;   // theta 0.99 (Gray et al., "Quickly generating billion-record synthetic databases")
  double seconds = 5;
  uint64_t operations = 0;   // instead of seconds
  double read_share = 0.8;   // mixed
  bool verify = false;       // compares the value with what was written, beyond the checksums
  bool registered = false;   // puts from memory that stores may map
  uint32_t connections = 1;  // per store
  TransportChoice transport = TransportChoice::kAuto;
  uint64_t seed = 1;
  std::vector<int> server_pids;  // processes whose CPU is counted
  std::string key_prefix = "bench:";
};

struct Outcome {
  uint64_t operations = 0;  // keys
  uint64_t bytes = 0;
  uint64_t misses = 0, errors = 0, mismatches = 0;
  double seconds = 0;
  double server_cpu_seconds = 0;  // 0 when no process was named
  Histogram latency;              // of calls (batches)
  std::string first_error;
};

// Fills the key space first where the workload reads. `stop` ends it early; progress goes to stderr on a terminal.
Result<Outcome> RunWorkload(const Options& options, const std::atomic<bool>& stop);

// CPU seconds that a process has used; 0 when it cannot be read.
double CpuSeconds(int pid);

}  // namespace tiercel::bench
