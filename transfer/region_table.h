// Memory registered with an engine, by address. Ranges never overlap. Pure bookkeeping: the engine's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "transfer/transport.h"

namespace tiercel::transfer {

class RegionTable {
 public:
  struct Entry {
    std::span<std::byte> memory;
    bool ready = false;  // all transports know it; until then nothing uses it
    uint32_t uses = 0;   // operations under way on it
    // Per transport (the engine's order): its registrations, laid end to end, all but the last of part_bytes[t].
    std::vector<std::vector<std::unique_ptr<MemoryRegion>>> parts;
    std::vector<uint64_t> part_bytes;
  };

  // All ranges, or none: empty when one is empty, wraps round, or overlaps another or an existing one.
  std::vector<Entry*> Reserve(std::span<const std::span<std::byte>> regions);
  void Remove(Entry* entry);
  size_t size() const { return entries_.size(); }

  // The ready entries that hold [begin, begin + length) end to end, first to last; empty when a byte is in none.
  void Cover(const std::byte* begin, uint64_t length, std::vector<Entry*>* out) const;

  struct Part {
    MemoryRegion* region = nullptr;
    uint64_t left = UINT64_MAX;  // bytes from the address to the registration's end
  };
  // The registration of transport `t` that holds an address inside one of `entries`; none: region is null.
  static Part PartAt(std::span<Entry* const> entries, size_t t, const std::byte* address);

 private:
  std::map<uintptr_t, std::unique_ptr<Entry>> entries_;
};

}  // namespace tiercel::transfer
