#include "server/core/key_arena.h"

#include <bit>

#include "base/check.h"

namespace tiercel::core {

KeyArena::KeyArena() {
  for (int c = 0; c < kClasses; ++c) {
    const auto i = static_cast<size_t>(c);
    if (c < 16) {
      cell_bytes_[i] = static_cast<uint32_t>(c + 1) * 8;
    } else {
      const uint32_t base = 128u << ((c - 16) / 4);
      cell_bytes_[i] = base + base / 4 * static_cast<uint32_t>((c - 16) % 4 + 1);
    }
    cells_per_run_[i] = static_cast<uint16_t>(kRunBytes / cell_bytes_[i]);
  }
  TIERCEL_CHECK(cell_bytes_.back() == kMaxKeyBytes);
  roomy_.fill(kNoRun);
}

int KeyArena::ClassOf(size_t size) {
  if (size <= 128) return static_cast<int>((size + 7) / 8) - 1;
  const auto last = static_cast<uint32_t>(size - 1);
  const int doubling = std::bit_width(last) - 8;  // 128..255 is 0
  return 16 + doubling * 4 + static_cast<int>((last >> (doubling + 5)) & 3);
}

std::byte* KeyArena::CellAt(uint32_t run, uint16_t cell) const {
  const uint32_t unit = run << kUnitsPerRunShift;
  return bases_[unit >> kUnitsPerChunkShift] + size_t{unit & kUnitMask} * kUnitBytes +
         size_t{cell} * cell_bytes_[runs_[run].size_class];
}

void KeyArena::Enlist(uint32_t run) {
  uint32_t& head = roomy_[runs_[run].size_class];
  runs_[run].previous = kNoRun;
  runs_[run].next = head;
  if (head != kNoRun) runs_[head].previous = run;
  head = run;
}

void KeyArena::Delist(uint32_t run) {
  const Run& r = runs_[run];
  if (r.next != kNoRun) runs_[r.next].previous = r.previous;
  if (r.previous != kNoRun) {
    runs_[r.previous].next = r.next;
  } else {
    roomy_[r.size_class] = r.next;
  }
}

uint32_t KeyArena::TakeRun(int size_class) {
  if (pool_ == kNoRun) {
    constexpr uint32_t kRunsPerChunk = kHugeChunkBytes / kRunBytes;
    const auto first = static_cast<uint32_t>(runs_.size());
    TIERCEL_CHECK(uint64_t{first} + kRunsPerChunk <= uint64_t{UINT32_MAX} >> kUnitsPerRunShift, "the arena is 32 GiB");
    chunks_.emplace_back(kHugeChunkBytes);
    bases_.push_back(chunks_.back().data());
    runs_.resize(first + kRunsPerChunk);
    for (uint32_t run = first + kRunsPerChunk; run-- > first;) {
      runs_[run].next = pool_;
      pool_ = run;
    }
    unused_runs_ += kRunsPerChunk;
  }
  const uint32_t run = pool_;
  pool_ = runs_[run].next;
  --unused_runs_;
  if (touched_runs_ <= run) touched_runs_ = run + 1;
  runs_[run] = Run{.size_class = static_cast<uint16_t>(size_class)};
  Enlist(run);
  return run;
}

uint32_t KeyArena::Store(std::string_view key) {
  TIERCEL_CHECK(!key.empty());
  TIERCEL_CHECK(key.size() <= kMaxKeyBytes);
  const int size_class = ClassOf(key.size());
  uint32_t run = roomy_[static_cast<size_t>(size_class)];
  if (run == kNoRun) run = TakeRun(size_class);
  Run& r = runs_[run];
  uint16_t cell = r.free_cell;
  std::byte* at;
  if (cell != kNoCell) {
    at = CellAt(run, cell);
    std::memcpy(&r.free_cell, at, sizeof(r.free_cell));
  } else {
    cell = r.carved++;
    at = CellAt(run, cell);
  }
  if (++r.used == cells_per_run_[r.size_class]) Delist(run);
  std::memcpy(at, key.data(), key.size());
  const size_t in_run = size_t{cell} * cell_bytes_[r.size_class];
  return (run << kUnitsPerRunShift) + static_cast<uint32_t>(in_run / kUnitBytes);
}

void KeyArena::Free(uint32_t handle) {
  const uint32_t run = handle >> kUnitsPerRunShift;
  Run& r = runs_[run];
  const size_t in_run = size_t{handle & ((1u << kUnitsPerRunShift) - 1)} * kUnitBytes;
  const auto cell = static_cast<uint16_t>(in_run / cell_bytes_[r.size_class]);
  TIERCEL_CHECK(r.used > 0);
  TIERCEL_CHECK(size_t{cell} * cell_bytes_[r.size_class] == in_run);
  if (r.used == cells_per_run_[r.size_class]) Enlist(run);
  std::memcpy(CellAt(run, cell), &r.free_cell, sizeof(r.free_cell));
  r.free_cell = cell;
  if (--r.used > 0) return;
  Delist(run);
  r.next = pool_;
  pool_ = run;
  ++unused_runs_;
}

bool KeyArena::HasRoomFor(size_t size) const {
  return pool_ != kNoRun || roomy_[static_cast<size_t>(ClassOf(size))] != kNoRun;
}

uint64_t KeyArena::memory_bytes() const {
  return touched_runs_ * kRunBytes + runs_.capacity() * sizeof(Run) + bases_.capacity() * sizeof(void*) +
         chunks_.capacity() * sizeof(Chunk);
}

}  // namespace tiercel::core
