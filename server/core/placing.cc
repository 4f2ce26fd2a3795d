// Where the replicas of a put go.
//
// Every replica on another host; within a host the strategy decides among segments. All candidates are gathered in one
// pass over the tier's segments, which are few. When they have no room the coldest objects of the tier go, as many as
// are needed and as one call may take; what cannot help is not tried (an object larger than what its segments
// could ever give evicts nothing).
#include <algorithm>

#include "server/core/impl.h"

namespace tiercel::core {

bool Master::Impl::Allocatable(const Segment& s) const {
  return s.life == Segment::Life::kServing && !s.closed && !s.leave_at_ms.has_value() && !stores[s.store].paused &&
         stores[s.store].info.state == StoreInfo::State::kServing;
}

void Master::Impl::GatherCandidates(const PlaceRequest& request, bool* busy) {
  candidates.clear();
  *busy = false;
  const auto preferred = request.prefer.empty() ? store_names.end() : store_names.find(request.prefer);
  const Store* prefer = preferred == store_names.end() ? nullptr : &stores[preferred->second];
  for (const uint32_t id : tier(request.tier).segments) {
    const Segment& s = segments[id];
    if (!Allocatable(s) || (request.in_process && !s.in_process)) continue;
    const Store& store = stores[s.store];
    if (!request.exclude.empty() && store.info.name == request.exclude) continue;
    if (store.open.size() >= options.max_open_puts_per_store) {
      *busy = true;
      continue;
    }
    uint8_t rank = 2;
    if (&store == prefer) {
      rank = 0;
    } else if (prefer != nullptr && store.host == prefer->host &&
               options.allocation_strategy == AllocationStrategy::kLocalFirst) {
      rank = 1;
    }
    candidates.push_back({id, store.host, s.bytes.free, s.size, rank, false});
  }
}

uint32_t Master::Impl::CountHosts() const {
  uint32_t hosts_seen = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    bool seen = false;
    for (size_t j = 0; j < i && !seen; ++j) seen = candidates[j].host == candidates[i].host;
    hosts_seen += seen ? 0 : 1;
  }
  return hosts_seen;
}

// The best candidate that is left; nullptr when there is none.
Candidate* Master::Impl::Choose() {
  uint8_t rank = UINT8_MAX;
  for (const Candidate& c : candidates) {
    if (!c.spent) rank = std::min(rank, c.rank);
  }
  if (rank == UINT8_MAX) return nullptr;
  Candidate* best = nullptr;
  if (options.allocation_strategy == AllocationStrategy::kFreeRatioFirst) {
    for (Candidate& c : candidates) {
      if (c.spent || c.rank != rank) continue;
      if (best == nullptr || static_cast<double>(c.free) * static_cast<double>(best->size) >
                                 static_cast<double>(best->free) * static_cast<double>(c.size)) {
        best = &c;
      }
    }
    return best;
  }
  // At random, in proportion to what is free: fills segments of unlike sizes alike.
  uint64_t sum = 0;
  uint32_t count = 0;
  for (Candidate& c : candidates) {
    if (c.spent || c.rank != rank) continue;
    sum += c.free + 1;
    ++count;
    best = &c;
  }
  if (count == 1) return best;
  uint64_t draw = random.Below(sum);
  for (Candidate& c : candidates) {
    if (c.spent || c.rank != rank) continue;
    if (draw < c.free + 1) return &c;
    draw -= c.free + 1;
  }
  return best;
}

bool Master::Impl::TakePlace(const Candidate& candidate, const PlaceRequest& request, std::vector<PutReplica>* out) {
  Segment& s = segments[candidate.segment];
  const uint64_t bytes = AllocatedBytes(request.size);
  out->emplace_back();
  PutReplica& replica = out->back();
  replica.segment = candidate.segment;
  if (bytes > 0 && !s.allocator->Allocate(StoredBytes(request.size), GranuleOf(request.size), &replica.extents)) {
    out->pop_back();
    return false;
  }
  s.Move(SpaceState::kFree, SpaceState::kReserved, bytes);
  ++s.refs;
  return true;
}

// Adds replicas up to the number asked for; the number that there are now.
uint32_t Master::Impl::PlaceOnce(const PlaceRequest& request, std::vector<PutReplica>* out) {
  const uint64_t bytes = AllocatedBytes(request.size);
  const auto spend_host = [&](uint32_t host) {
    for (Candidate& c : candidates) c.spent = c.spent || c.host == host;
  };
  for (const PutReplica& replica : *out) spend_host(stores[segments[replica.segment].store].host);
  for (Candidate& c : candidates) c.spent = c.spent || c.free < bytes;
  while (out->size() < request.replicas) {
    Candidate* c = Choose();
    if (c == nullptr) break;
    if (TakePlace(*c, request, out)) {
      spend_host(c->host);
    } else {
      c->spent = true;
    }
  }
  return static_cast<uint32_t>(out->size());
}

// True when no eviction could make room for one more replica.
bool Master::Impl::Hopeless(const PlaceRequest& request) const {
  const uint64_t bytes = AllocatedBytes(request.size);
  for (const Candidate& c : candidates) {
    const Segment& s = segments[c.segment];
    const uint64_t evictable = s.bytes.live - std::min(s.bytes.live, s.hard_pinned);
    if (s.bytes.free + s.bytes.dying + evictable >= bytes) return false;
  }
  return true;
}

Error Master::Impl::NoSpace(const PlaceRequest& request) const {
  uint64_t free = 0, largest = 0, quarantined = 0;
  for (const uint32_t id : tier(request.tier).segments) {
    const Segment& s = segments[id];
    quarantined += s.bytes.quarantined();
    if (!Allocatable(s)) continue;
    free += s.bytes.free;
    largest = std::max(largest, s.allocator->largest_free_run());
  }
  if (candidates.empty()) {
    return Error(ErrorCode::kNoSpace, "no serving store has a segment of tier " + std::string(TierName(request.tier)) +
                                          " that this put may use");
  }
  return Error(ErrorCode::kNoSpace, "needed " + std::to_string(AllocatedBytes(request.size)) + " bytes, free " +
                                        std::to_string(free) + ", largest run " + std::to_string(largest) +
                                        ", leased " + std::to_string(recency.leased_bytes(request.tier)) + ", pinned " +
                                        std::to_string(tier(request.tier).hard_pinned_bytes) + ", quarantined " +
                                        std::to_string(quarantined));
}

void Master::Impl::EvictForPlaces(const PlaceRequest& request, uint32_t want, uint32_t spare_slot, Times now,
                                  std::vector<PutReplica>* out) {
  const uint64_t bytes = AllocatedBytes(request.size);
  const auto again = [&] {
    bool busy = false;
    GatherCandidates(request, &busy);
    return PlaceOnce(request, out) >= want;
  };
  if (!graveyard.empty()) {
    uint32_t budget = kVictimsPerPut;
    TakeApart(&budget, now);
    if (again()) return;
  }
  // The coldest objects lie all over the tier: room in one segment may take as much from each of the others.
  const uint64_t most = bytes * want * (candidates.size() + 1);
  const uint64_t freed_before = freed_bytes;
  uint64_t evicted = 0;
  uint32_t victims = kVictimsPerPut;
  while (victims > 0 && evicted < most) {
    const Evicted run = Evict(request.tier, bytes, victims, spare_slot, now);
    if (run.victims == 0) break;  // or cut off: the caller tries again after the next tick, which goes on
    victims -= run.victims;
    evicted += run.bytes;
    if (again()) return;
    // What waits for a store or the journal becomes free soon; the caller tries again then.
    const uint64_t freed = freed_bytes - freed_before;
    if (evicted > freed && evicted - freed >= bytes * want) break;
  }
  if (freed_bytes == freed_before) ++counters.eviction_dry_runs;
}

Status Master::Impl::Place(const PlaceRequest& request, uint32_t spare_slot, Times now, std::vector<PutReplica>* out) {
  bool busy = false;
  GatherCandidates(request, &busy);
  if (candidates.empty()) {
    if (busy) return Error(ErrorCode::kRetry, "too many puts are open at the stores: retry after 100 ms");
    ++counters.puts_no_space;
    return NoSpace(request);
  }
  const uint32_t host_count = CountHosts();
  if (request.strict && host_count < request.replicas) {
    return Error(ErrorCode::kTooFewHosts,
                 "wanted " + std::to_string(request.replicas) + " hosts, got " + std::to_string(host_count));
  }
  const uint32_t want = std::min(request.replicas, host_count);
  if (PlaceOnce(request, out) < want && !Hopeless(request)) EvictForPlaces(request, want, spare_slot, now, out);
  if (out->empty() || (request.strict && out->size() < want)) {
    for (PutReplica& replica : *out) {
      Move(replica.segment, SpaceState::kReserved, SpaceState::kFencing, replica.extents.bytes());
      Release(replica.segment, std::move(replica.extents), 0, SpaceState::kFencing, 0);
    }
    out->clear();
    ++counters.puts_no_space;
    return NoSpace(request);
  }
  if (out->size() < request.replicas) ++counters.puts_partial;
  return Ok();
}

}  // namespace tiercel::core
