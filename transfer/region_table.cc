#include "transfer/region_table.h"

#include <algorithm>

#include "base/check.h"

namespace tiercel::transfer {
namespace {

uintptr_t At(const std::byte* p) { return reinterpret_cast<uintptr_t>(p); }

}  // namespace

std::vector<RegionTable::Entry*> RegionTable::Reserve(std::span<const std::span<std::byte>> regions) {
  std::vector<Entry*> made;
  for (const std::span<std::byte> region : regions) {
    const uintptr_t begin = At(region.data());
    bool good = !region.empty() && begin + region.size() > begin;
    if (good) {
      auto behind = entries_.lower_bound(begin);
      if (behind != entries_.end() && behind->first < begin + region.size()) good = false;
      if (good && behind != entries_.begin()) {
        const Entry& before = *std::prev(behind)->second;
        if (At(before.memory.data()) + before.memory.size() > begin) good = false;
      }
    }
    if (!good) {
      for (Entry* entry : made) Remove(entry);
      return {};
    }
    auto entry = std::make_unique<Entry>();
    entry->memory = region;
    made.push_back(entry.get());
    entries_.emplace(begin, std::move(entry));
  }
  return made;
}

void RegionTable::Remove(Entry* entry) {
  TIERCEL_CHECK(entry->uses == 0);
  TIERCEL_CHECK(entries_.erase(At(entry->memory.data())) == 1);
}

void RegionTable::Cover(const std::byte* begin, uint64_t length, std::vector<Entry*>* out) const {
  out->clear();
  uintptr_t at = At(begin);
  const uintptr_t end = at + length;
  auto it = entries_.upper_bound(at);
  if (it == entries_.begin()) return;
  for (--it; it != entries_.end(); ++it) {
    Entry& entry = *it->second;
    const uintptr_t first = it->first;
    const uintptr_t last = first + entry.memory.size();
    if (!entry.ready || at < first || at >= last) break;
    out->push_back(&entry);
    at = last;
    if (at >= end) return;
  }
  out->clear();
}

RegionTable::Part RegionTable::PartAt(std::span<Entry* const> entries, size_t t, const std::byte* address) {
  for (Entry* entry : entries) {
    const uintptr_t first = At(entry->memory.data());
    if (At(address) < first || At(address) >= first + entry->memory.size()) continue;
    const uint64_t offset = At(address) - first;
    const uint64_t part_bytes = entry->part_bytes[t];
    const uint64_t part = offset / part_bytes;
    const uint64_t end = std::min<uint64_t>((part + 1) * part_bytes, entry->memory.size());
    return {.region = entry->parts[t][part].get(), .left = end - offset};
  }
  return {};
}

}  // namespace tiercel::transfer
