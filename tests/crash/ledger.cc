#include "tests/crash/ledger.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace tiercel::test {
namespace {

constexpr int64_t kRoundingMs = 5;  // times to live are in whole milliseconds, at both ends

bool MayHaveEnded(const Held& held, int64_t until_ms) {
  return held.end.has_value() && held.end->from_ms <= until_ms + kRoundingMs;
}

bool FitsEnd(const Held& held, const Seen& seen) {
  if (!held.end.has_value()) return seen.ttl_ms == -1;
  return seen.ttl_ms >= 0 && seen.when.from_ms + seen.ttl_ms <= held.end->to_ms + kRoundingMs &&
         seen.when.to_ms + seen.ttl_ms >= held.end->from_ms - kRoundingMs;
}

bool Fits(const std::optional<Held>& held, const Seen& seen) {
  if (!seen.bytes.has_value()) return !held.has_value() || MayHaveEnded(*held, seen.when.to_ms);
  return held.has_value() && (!held->version || held->version == seen.version) && held->hard_pin == seen.hard_pin &&
         FitsEnd(*held, seen) && *seen.bytes == ValueOf(held->number, held->size);
}

uint64_t NumberIn(std::string_view bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), std::min(bytes.size(), sizeof number));
  return number;
}

}  // namespace

std::string ValueOf(uint64_t number, size_t size) {
  std::string bytes(size, '\0');
  std::memcpy(bytes.data(), &number, std::min(size, sizeof number));
  Random random(number);
  for (size_t at = sizeof number; at < size; at += sizeof(uint64_t)) {
    const uint64_t word = random.Next();
    std::memcpy(bytes.data() + at, &word, std::min(size - at, sizeof word));
  }
  return bytes;
}

void Ledger::AddKey(const std::string& key) {
  if (entries_.try_emplace(key).second) order_.push_back(key);
}

bool Ledger::KnownAbsent(const std::string& key) const {
  const auto& possible = entries_.at(key).possible;
  return possible.size() == 1 && !possible[0].has_value();
}

template <typename F>
void Ledger::Change(Entry* entry, Outcome outcome, F change) {
  if (outcome == Outcome::kRefused) return;
  std::vector<std::optional<Held>> after;
  for (const auto& before : entry->possible) {
    if (outcome == Outcome::kUnknown) after.push_back(before);
    change(before, &after);
  }
  entry->possible = std::move(after);
}

void Ledger::Put(const std::string& key, Held value, Outcome outcome) {
  Entry& entry = entries_.at(key);
  if (outcome == Outcome::kRefused) return;
  if (outcome == Outcome::kDone) entry.possible.clear();
  entry.highest = std::max(entry.highest, value.version);
  entry.possible.emplace_back(value);
}

void Ledger::Delete(const std::string& key, Outcome outcome) {
  Entry& entry = entries_.at(key);
  if (outcome == Outcome::kRefused) return;
  if (outcome == Outcome::kDone) entry.possible.clear();
  entry.possible.emplace_back(std::nullopt);
}

void Ledger::Flush(Outcome outcome) {
  for (const std::string& key : order_) Delete(key, outcome);
}

void Ledger::Expire(const std::string& key, std::optional<Span> end, Outcome outcome) {
  Change(&entries_.at(key), outcome, [&](const auto& before, auto* after) {
    if (!before.has_value()) return;
    Held held = *before;
    held.end = end;
    after->push_back(held);
  });
}

void Ledger::Pin(const std::string& key, bool hard, Outcome outcome) {
  Change(&entries_.at(key), outcome, [&](const auto& before, auto* after) {
    if (!before.has_value()) return;
    Held held = *before;
    held.hard_pin = hard;
    after->push_back(held);
  });
}

std::string Ledger::Describe(const Entry& entry) {
  std::string text = "may be:";
  for (const auto& held : entry.possible) {
    if (!held.has_value()) {
      text += " absent";
      continue;
    }
    text += " {number " + std::to_string(held->number) + ", " + std::to_string(held->size) + " bytes, version " +
            std::to_string(held->version.value);
    if (held->end.has_value()) {
      text += ", ends " + std::to_string(held->end->from_ms) + ".." + std::to_string(held->end->to_ms);
    }
    text += held->hard_pin ? ", pinned}" : "}";
  }
  return text;
}

std::string Ledger::CheckBytes(const std::string& key, std::string_view bytes) const {
  const Entry& entry = entries_.at(key);
  const bool known = std::ranges::any_of(entry.possible, [&](const auto& held) {
    return held.has_value() && held->size == bytes.size() && ValueOf(held->number, held->size) == bytes;
  });
  if (known) return "";
  return key + " was read as " + std::to_string(bytes.size()) + " bytes, number " + std::to_string(NumberIn(bytes)) +
         "; it " + Describe(entry);
}

std::string Ledger::Check(const std::string& key, const Seen& seen) {
  Entry& entry = entries_.at(key);
  const auto found = std::ranges::find_if(entry.possible, [&](const auto& held) { return Fits(held, seen); });
  const bool back = seen.bytes.has_value() && seen.version < entry.highest;
  if (found != entry.possible.end() && !back) {
    std::optional<Held> now = *found;
    if (!seen.bytes.has_value()) now.reset();
    if (now.has_value()) now->version = entry.highest = seen.version;
    entry.possible = {now};
    return "";
  }
  std::string text = key + " is ";
  if (!seen.bytes.has_value()) {
    text += "absent";
  } else {
    text += std::to_string(seen.bytes->size()) + " bytes, number " + std::to_string(NumberIn(*seen.bytes)) +
            ", version " + std::to_string(seen.version.value) + ", ttl " + std::to_string(seen.ttl_ms) +
            (seen.hard_pin ? ", pinned" : "");
    if (back) text += ", before " + std::to_string(entry.highest.value);
  }
  text +=
      " at " + std::to_string(seen.when.from_ms) + ".." + std::to_string(seen.when.to_ms) + "; it " + Describe(entry);
  // What is wrong is told once.
  entry.possible = {std::nullopt};
  if (seen.bytes.has_value()) {
    entry.possible = {Held{.number = NumberIn(*seen.bytes), .size = seen.bytes->size(), .version = seen.version}};
  }
  return text;
}

}  // namespace tiercel::test
