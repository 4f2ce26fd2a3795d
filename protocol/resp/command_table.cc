// Names of commands are at most 16 letters, so a name is two machine words: look-up folds case with one OR, hashes
// with two multiplications and compares whole words. The table is open addressing, built by the compiler.
#include "protocol/resp/command_table.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/units.h"

namespace tiercel::resp {
namespace {

using Id = CommandId;

constexpr CommandSpec kRows[] = {
#define TIERCEL_COMMAND(id, name, ...) {Id::id, name, __VA_ARGS__, Id::id},
#include "protocol/resp/command_list.inc"
#define TIERCEL_SUBCOMMAND(parent, id, name, ...) {Id::id, name, __VA_ARGS__, Id::parent},
#include "protocol/resp/command_list.inc"
};

constexpr size_t kCommands = [] {
  size_t commands = 0;
  for (const CommandSpec& row : kRows) commands += row.is_subcommand() ? 0 : 1;
  return commands;
}();

constexpr size_t kMaxNameBytes = 16;

// The folded name. Names have letters only, and for those `| 0x20` is exact: no other byte folds to a letter.
struct NameWords {
  uint64_t low = 0;
  uint64_t high = 0;
  constexpr bool operator==(const NameWords&) const = default;
};
constexpr uint64_t kFold = 0x2020202020202020;

constexpr bool IsLowerWord(std::string_view name) {
  for (char c : name) {
    if (c < 'a' || c > 'z') return false;
  }
  return !name.empty() && name.size() <= kMaxNameBytes;
}

constexpr uint64_t LoadSlowly(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i) word |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return word;
}

// Two loads that may overlap cover any length: together with the length they say everything about the name.
constexpr NameWords WordsSlowly(std::string_view name) {
  if (name.size() >= 8)
    return {LoadSlowly(name.substr(0, 8)) | kFold, LoadSlowly(name.substr(name.size() - 8)) | kFold};
  if (name.size() >= 4) {
    return {LoadSlowly(name.substr(0, 4)) | (kFold >> 32), LoadSlowly(name.substr(name.size() - 4)) | (kFold >> 32)};
  }
  return {LoadSlowly(name) | (kFold >> (64 - 8 * name.size())), 0};
}

template <typename Word>
uint64_t Load(const char* from) {
  static_assert(std::endian::native == std::endian::little);
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// REQUIRES: 1 to kMaxNameBytes bytes.
NameWords WordsOf(std::string_view name) {
  const char* const at = name.data();
  const size_t size = name.size();
  if (size >= 8) return {Load<uint64_t>(at) | kFold, Load<uint64_t>(at + size - 8) | kFold};
  if (size >= 4) return {Load<uint32_t>(at) | (kFold >> 32), Load<uint32_t>(at + size - 4) | (kFold >> 32)};
  return WordsSlowly(name);
}

constexpr size_t kSlotBits = 9;
constexpr size_t kSlots = size_t{1} << kSlotBits;
static_assert(kCommands * 4 <= kSlots, "enlarge the table of names");

constexpr size_t SlotOf(const NameWords& words, size_t size) {
  const uint64_t mixed = (words.low ^ (size << 56)) * 0x9e3779b97f4a7c15 ^ words.high * 0xc2b2ae3d27d4eb4f;
  return static_cast<size_t>((mixed * 0x9e3779b97f4a7c15) >> (64 - kSlotBits));
}

struct Slot {
  NameWords words;
  uint16_t row = 0;
  uint8_t size = 0;  // 0: empty
};

constexpr std::array<Slot, kSlots> kTable = [] {
  std::array<Slot, kSlots> slots{};
  for (size_t row = 0; row < kCommands; ++row) {
    const std::string_view name = kRows[row].name;
    const NameWords words = WordsSlowly(name);
    size_t at = SlotOf(words, name.size());
    while (slots[at].size != 0) at = (at + 1) % kSlots;
    slots[at] = {words, static_cast<uint16_t>(row), static_cast<uint8_t>(name.size())};
  }
  return slots;
}();

// What the rest of the file relies on; a mistake in the list does not compile.
constexpr bool RowsAreSound() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    const CommandSpec& row = kRows[i];
    if (static_cast<size_t>(row.id) != i || row.arity == 0) return false;
    if (row.is_subcommand() != (i >= kCommands)) return false;
    if (!row.is_subcommand() && !IsLowerWord(row.name)) return false;
    if (row.is_subcommand()) {
      const CommandSpec& parent = kRows[static_cast<size_t>(row.parent)];
      if (!row.name.starts_with(parent.name) || row.name[parent.name.size()] != '|') return false;
    }
    if (row.movable_keys && (row.first_key != 2 || row.last_key != 0)) return false;
  }
  return true;
}
static_assert(RowsAreSound());

struct Range {
  uint16_t begin = 0;
  uint16_t count = 0;
};

constexpr std::array<Range, kCommands> kSubcommands = [] {
  std::array<Range, kCommands> ranges{};
  for (size_t row = kCommands; row < std::size(kRows); ++row) {
    Range& range = ranges[static_cast<size_t>(kRows[row].parent)];
    if (range.count == 0) range.begin = static_cast<uint16_t>(row);
    if (range.begin + range.count != row) throw "subcommands of one command must stand together";
    ++range.count;
  }
  return ranges;
}();

bool EqualsFolded(std::string_view word, std::string_view lower) {
  if (word.size() != lower.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (((c >= 'A' && c <= 'Z') ? static_cast<char>(c | 0x20) : c) != lower[i]) return false;
  }
  return true;
}

}  // namespace

std::span<const CommandSpec> CommandTable() { return {kRows, kCommands}; }

std::span<const CommandSpec> Subcommands(const CommandSpec& container) {
  if (container.is_subcommand()) return {};
  const Range range = kSubcommands[static_cast<size_t>(container.id)];
  return std::span(kRows).subspan(range.begin, range.count);
}

const CommandSpec& SpecOf(CommandId id) {
  TIERCEL_CHECK(id < CommandId::kCount);
  return kRows[static_cast<size_t>(id)];
}

const CommandSpec* FindCommand(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return nullptr;
  const NameWords words = WordsOf(name);
  for (size_t at = SlotOf(words, name.size()); kTable[at].size != 0; at = (at + 1) % kSlots) {
    if (kTable[at].words == words && kTable[at].size == name.size()) return &kRows[kTable[at].row];
  }
  return nullptr;
}

const CommandSpec* FindSubcommand(const CommandSpec& container, std::string_view name) {
  const size_t prefix = container.name.size() + 1;
  for (const CommandSpec& row : Subcommands(container)) {
    if (EqualsFolded(name, row.name.substr(prefix))) return &row;
  }
  return nullptr;
}

const CommandSpec* ResolveCommand(std::span<const std::string_view> arguments) {
  if (arguments.empty()) return nullptr;
  const CommandSpec* spec = FindCommand(arguments[0]);
  if (spec == nullptr) return nullptr;
  if (arguments.size() > 1 && kSubcommands[static_cast<size_t>(spec->id)].count != 0) [[unlikely]] {
    spec = FindSubcommand(*spec, arguments[1]);
    if (spec == nullptr) return nullptr;
  }
  return spec->ArityFits(arguments.size()) ? spec : nullptr;
}

std::optional<KeyPositions> ExtractKeys(const CommandSpec& spec, std::span<const std::string_view> arguments) {
  if (spec.first_key == 0) return KeyPositions{};
  const auto first = static_cast<size_t>(spec.first_key);
  const auto step = static_cast<size_t>(spec.key_step);
  if (first >= arguments.size()) return std::nullopt;
  if (spec.movable_keys) {
    const std::optional<int64_t> count = ParseInt64(arguments[first - 1]);
    if (!count || *count < 1 || static_cast<uint64_t>(*count) > arguments.size() - first) return std::nullopt;
    return KeyPositions{first, static_cast<size_t>(*count), step};
  }
  // A negative last key counts from the end, as in Redis.
  const size_t last =
      spec.last_key >= 0 ? static_cast<size_t>(spec.last_key) : arguments.size() - static_cast<size_t>(-spec.last_key);
  if (last >= arguments.size() || last < first) return std::nullopt;
  return KeyPositions{first, (last - first) / step + 1, step};
}

}  // namespace tiercel::resp
