// Brings the pages of a fresh mapping into memory, in the background and in steps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>

namespace tiercel::tiers {

// Owns the thread. Contents do not change, also when others write the memory meanwhile.
class Populator {
 public:
  using Progress = std::function<void(uint64_t populated_bytes, bool last)>;
  Populator() = default;
  ~Populator();  // stops after the step under way and joins
  Populator(const Populator&) = delete;
  Populator& operator=(const Populator&) = delete;

  // REQUIRES: called once; `memory` outlives this.
  void Start(std::span<std::byte> memory, Progress progress);
  uint64_t populated_bytes() const { return populated_bytes_.load(std::memory_order_relaxed); }

 private:
  void Run(std::span<std::byte> memory, const Progress& progress);

  std::atomic<uint64_t> populated_bytes_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace tiercel::tiers
