// Walking the key space.
#include "server/core/impl.h"

namespace tiercel::core {

uint64_t Master::Impl::Scan(uint32_t name_space, uint64_t cursor, uint32_t count, Times now, const Visitor& visit) {
  At(now);
  const NameTable* table = TableOf(name_space);
  if (table == nullptr) return 0;
  // Intervals that hold nothing cost a look each.
  constexpr uint32_t kMaxIntervals = 64;
  ObjectInfo info;
  uint32_t visited = 0;
  for (uint32_t i = 0; i < kMaxIntervals && visited < count; ++i) {
    cursor = table->table.Scan(cursor, count - visited, [&](uint32_t slot) {
      ++visited;
      const Object& o = objects[slot];
      if (!Readable(o, now)) return;
      NoteSeq(o);
      FillInfo(o, std::nullopt, &info);
      visit(KeyOf(o), info);
    });
    if (cursor == 0) break;
  }
  return cursor;
}

std::optional<std::string> Master::Impl::RandomKey(uint32_t name_space, Times now) {
  At(now);
  const NameTable* table = TableOf(name_space);
  if (table == nullptr || placements.readable(name_spaces[name_space]) == 0) return std::nullopt;
  for (uint32_t i = 0; i < kTableRetries; ++i) {
    const uint32_t slot = table->table.Any(&random);
    if (slot == 0) return std::nullopt;
    if (!Readable(objects[slot], now)) continue;
    NoteSeq(objects[slot]);
    return std::string(KeyOf(objects[slot]));
  }
  // Nearly all that is in the table waits to be taken apart. Whatever comes first behind a random place will do.
  constexpr uint32_t kPages = 64;
  std::optional<std::string> found;
  uint64_t cursor = random.Below(uint64_t{1} << 32);
  for (uint32_t i = 0; i < kPages && !found.has_value(); ++i) {
    cursor = table->table.Scan(cursor, PagePool::kLines * PagePool::kWays, [&](uint32_t slot) {
      if (found.has_value() || !Readable(objects[slot], now)) return;
      NoteSeq(objects[slot]);
      found = std::string(KeyOf(objects[slot]));
    });
  }
  return found;
}

}  // namespace tiercel::core
