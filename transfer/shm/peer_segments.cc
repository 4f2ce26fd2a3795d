#include "transfer/shm/peer_segments.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace tiercel::transfer::shm {

PeerSegments::Found PeerSegments::Find(SegmentRef place) {
  std::lock_guard lock(mu_);
  const auto found = segments_.find(place);
  return found == segments_.end() ? Found{} : found->second;
}

void PeerSegments::SetUnshareable(SegmentRef place) {
  std::lock_guard lock(mu_);
  if (segments_.size() >= kMaxSegments) return;  // asked again each time: slower, still right
  Found& entry = segments_[place];
  if (entry.state == State::kUnknown) entry.state = State::kUnshareable;
}

Status PeerSegments::Map(SegmentRef place, UniqueFd file, uint64_t size) {
  const auto refuse = [&](const Error& error) {
    SetUnshareable(place);
    return error;
  };
  struct stat status{};
  const int seals = fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file.get(), &status) != 0) {
    return refuse(
        Error(ErrorCode::kInvalid, fmt::format("segment {} is offered in a file that can be shrunk", place.segment)));
  }
  if (size == 0 || static_cast<uint64_t>(status.st_size) < size) {
    return refuse(Error(ErrorCode::kInvalid, fmt::format("segment {} of {} bytes is offered in a file of {}",
                                                         place.segment, size, status.st_size)));
  }
  std::lock_guard lock(mu_);
  if (const auto found = segments_.find(place); found != segments_.end() && found->second.state == State::kMapped) {
    return Ok();
  }
  if (segments_.size() >= kMaxSegments) return Error(ErrorCode::kNoMemory, "too many segments are mapped");
  // Under the lock: one segment is mapped once, however many ask at the same moment.
  void* p = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (p == MAP_FAILED) return SystemError("map a segment", errno);
  segments_[place] = {.state = State::kMapped, .mapping = std::make_shared<Mapping>(p, size)};
  return Ok();
}

}  // namespace tiercel::transfer::shm
