// Keys, in cells of their size class, under 32-bit handles.
//
// Memory is cut into runs of 64 KiB; a run holds cells of one class (8 byte steps up to 128 bytes, then four classes
// to the doubling, so at most a fifth is lost) and goes back to the pool when its last key is freed: a
// change of key lengths leaves no class holding memory that another needs. Handles count units of 8 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "server/core/chunk.h"
#include "tiercel/limits.h"

namespace tiercel::core {

class KeyArena {
 public:
  KeyArena();
  // REQUIRES: 1 to kMaxKeyBytes bytes.
  uint32_t Store(std::string_view key);
  void Free(uint32_t handle);
  std::string_view View(uint32_t handle, size_t size) const {
    return {reinterpret_cast<const char*>(At(handle)), size};
  }
  const std::byte* At(uint32_t handle) const {
    return bases_[handle >> kUnitsPerChunkShift] + size_t{handle & kUnitMask} * kUnitBytes;
  }
  // True when a key of this size fits without another chunk.
  bool HasRoomFor(size_t size) const;
  // Runs that are in use; a chunk's unused runs have not been touched.
  uint64_t memory_bytes() const;

 private:
  static constexpr size_t kUnitBytes = 8;
  static constexpr size_t kRunBytes = 64 * 1024;
  static constexpr int kUnitsPerChunkShift = 18;  // 2 MiB in units
  static constexpr uint32_t kUnitMask = (1u << kUnitsPerChunkShift) - 1;
  static constexpr int kUnitsPerRunShift = 13;
  static constexpr uint32_t kNoRun = UINT32_MAX;
  static constexpr uint16_t kNoCell = UINT16_MAX;
  static constexpr int kClasses = 16 + 7 * 4;
  static_assert((size_t{1} << kUnitsPerChunkShift) * kUnitBytes == kHugeChunkBytes);
  static_assert((size_t{1} << kUnitsPerRunShift) * kUnitBytes == kRunBytes);
  static_assert(kRunBytes >= 4 * kMaxKeyBytes);

  struct Run {
    uint16_t size_class = 0;
    uint16_t used = 0;
    uint16_t carved = 0;                        // cells that were ever handed out
    uint16_t free_cell = kNoCell;               // chained through the cells' first two bytes
    uint32_t previous = kNoRun, next = kNoRun;  // among the class's runs with room, or in the pool
  };

  static int ClassOf(size_t size);
  uint32_t TakeRun(int size_class);
  void Enlist(uint32_t run);
  void Delist(uint32_t run);
  std::byte* CellAt(uint32_t run, uint16_t cell) const;

  std::array<uint32_t, kClasses> cell_bytes_;
  std::array<uint16_t, kClasses> cells_per_run_;
  std::array<uint32_t, kClasses> roomy_;  // first run with room
  std::vector<Run> runs_;
  std::vector<Chunk> chunks_;
  std::vector<std::byte*> bases_;
  uint32_t pool_ = kNoRun;  // unused runs, chained by next
  uint64_t unused_runs_ = 0;
  uint64_t touched_runs_ = 0;
};

}  // namespace tiercel::core
