// Pauses between attempts to reach something: 100, 200, 400 ... ms up to a cap, with jitter. Pure.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace tiercel {

class Backoff {
 public:
  struct Options {
    int64_t first_ms = 100;
    int64_t cap_ms = 2000;
    double jitter = 0.2;  // each pause is drawn from [pause * (1 - jitter), pause]
  };
  Backoff(Options options, uint64_t seed) : options_(options), random_(seed) {}
  int64_t NextMs();
  void Succeeded() { next_ms_ = 0; }

 private:
  Options options_;
  Random random_;
  int64_t next_ms_ = 0;
};

}  // namespace tiercel
