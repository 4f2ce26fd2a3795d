#include "server/node/put_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "base/check.h"

namespace tiercel::node {

namespace {

Error Stale(Version put, const char* why) {
  return {ErrorCode::kStalePut, fmt::format("put {} is closed at this store ({})", put.value, why)};
}

}  // namespace

Status PutTable::Begin(Version put) {
  auto found = open_.find(put);
  if (found != open_.end()) {
    Entry& entry = found->second;
    if (entry.closing) return Stale(put, "its operations are being ended");
    TIERCEL_CHECK(entry.operations < UINT32_MAX);
    ++entry.operations;
    Touch(put, &entry);
    return Ok();
  }
  if (put < floor_) return Stale(put, "below the floor");
  if (put <= forgotten_) return Stale(put, "older than what is remembered");
  if (InClosedRange(put)) return Stale(put, "by order of the master");
  if (refuse_new_) return Error(ErrorCode::kShutdown, "the store is stopping and takes no new put");
  if (open_.size() >= limits_.max_open) {
    return Error(ErrorCode::kRetry, fmt::format("{} puts are open at this store, no more are taken", open_.size()));
  }
  Entry& entry = open_[put];
  entry.operations = 1;
  Touch(put, &entry);
  return Ok();
}

PutTable::EndOutcome PutTable::End(Version put) {
  auto found = open_.find(put);
  TIERCEL_CHECK(found != open_.end());
  Entry& entry = found->second;
  TIERCEL_CHECK(entry.operations > 0);
  if (--entry.operations > 0 || !entry.closing) {
    if (!entry.closing) Touch(put, &entry);
    return EndOutcome::kNothing;
  }
  const bool report = entry.report;
  open_.erase(found);
  RememberClosed(put);
  return report ? EndOutcome::kClosedByOrder : EndOutcome::kClosed;
}

PutTable::EndOutcome PutTable::EndForGood(Version put) {
  const EndOutcome outcome = End(put);
  if (outcome != EndOutcome::kNothing) return outcome;
  auto found = open_.find(put);
  if (found->second.operations == 0) open_.erase(found);
  return outcome;
}

PutTable::CloseOutcome PutTable::Close(Version put) {
  auto found = open_.find(put);
  if (found != open_.end() && found->second.operations > 0) {
    found->second.closing = true;
    found->second.report = true;
    return CloseOutcome::kInFlight;
  }
  if (found != open_.end()) open_.erase(found);
  RememberClosed(put);
  return CloseOutcome::kClosed;
}

size_t PutTable::RaiseFloor(Version floor) {
  if (floor <= floor_) return 0;
  floor_ = floor;
  size_t in_flight = 0;
  for (auto it = open_.begin(); it != open_.end() && it->first < floor;) {
    if (it->second.operations == 0) {
      it = open_.erase(it);
      continue;
    }
    it->second.closing = true;
    ++in_flight;
    ++it;
  }
  auto range = closed_.begin();
  while (range != closed_.end() && range->second < floor.value) range = closed_.erase(range);
  return in_flight;
}

bool PutTable::AllClosedBelow(Version version) const {
  TIERCEL_CHECK(version <= floor_);
  return open_.empty() || open_.begin()->first >= version;
}

PutTable::Phase PutTable::PhaseOf(Version put) const {
  auto found = open_.find(put);
  if (found != open_.end()) return found->second.closing ? Phase::kClosing : Phase::kOpen;
  if (put < floor_ || put <= forgotten_ || InClosedRange(put)) return Phase::kClosed;
  return Phase::kUnknown;
}

void PutTable::TakeAlive(std::vector<Version>* out) {
  for (Version put : touched_) {
    auto found = open_.find(put);
    if (found == open_.end() || !found->second.touched) continue;
    found->second.touched = false;
    if (!found->second.closing) out->push_back(put);
  }
  touched_.clear();
}

void PutTable::Touch(Version put, Entry* entry) {
  if (entry->touched) return;
  // Puts that were closed since the last TakeAlive are still listed; a stopped reporter must not make the list grow.
  if (touched_.size() >= 2 * limits_.max_open) {
    std::erase_if(touched_, [this](Version v) { return !open_.contains(v); });
  }
  entry->touched = true;
  touched_.push_back(put);
}

void PutTable::RememberClosed(Version put) {
  if (put < floor_ || put <= forgotten_) return;
  const uint64_t v = put.value;
  auto next = closed_.upper_bound(v);
  auto previous = next == closed_.begin() ? closed_.end() : std::prev(next);
  if (previous != closed_.end() && previous->second >= v) return;
  const bool joins_previous = previous != closed_.end() && previous->second + 1 == v;
  const bool joins_next = next != closed_.end() && next->first == v + 1;
  if (joins_previous) {
    previous->second = joins_next ? next->second : v;
    if (joins_next) closed_.erase(next);
  } else if (joins_next) {
    auto node = closed_.extract(next);
    node.key() = v;
    closed_.insert(std::move(node));
  } else {
    closed_.emplace_hint(next, v, v);
  }
  while (closed_.size() > limits_.max_closed_ranges) {
    forgotten_ = Version{closed_.begin()->second};
    closed_.erase(closed_.begin());
    ++forgotten_ranges_;
  }
}

bool PutTable::InClosedRange(Version put) const {
  auto next = closed_.upper_bound(put.value);
  return next != closed_.begin() && std::prev(next)->second >= put.value;
}

}  // namespace tiercel::node
