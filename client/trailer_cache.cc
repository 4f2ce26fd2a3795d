#include "client/trailer_cache.h"

namespace tiercel::client {
namespace {
// Of the table itself, so that many small entries are bounded as well.
constexpr size_t kEntryBytes = 128;
size_t CostOf(const TrailerCache::Sums& sums) { return sums->size() * sizeof(uint64_t) + kEntryBytes; }
}  // namespace

TrailerCache::Sums TrailerCache::Find(Version version) {
  std::lock_guard lock(mutex_);
  auto found = by_version_.find(version.value);
  if (found == by_version_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return found->second->sums;
}

void TrailerCache::Add(Version version, Sums sums) {
  std::lock_guard lock(mutex_);
  if (CostOf(sums) > kMaxBytes || by_version_.contains(version.value)) return;
  bytes_ += CostOf(sums);
  order_.push_front({version.value, std::move(sums)});
  by_version_[version.value] = order_.begin();
  while (bytes_ > kMaxBytes) DropLastLocked();
}

void TrailerCache::DropLastLocked() {
  bytes_ -= CostOf(order_.back().sums);
  by_version_.erase(order_.back().version);
  order_.pop_back();
}

void TrailerCache::Clear() {
  std::lock_guard lock(mutex_);
  by_version_.clear();
  order_.clear();
  bytes_ = 0;
}

size_t TrailerCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace tiercel::client
