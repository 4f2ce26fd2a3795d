// The segments of one store as this process maps them: each once, read-only, shared by all rails to that store and
// by views. Gone when the last of them is. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "tiercel/result.h"
#include "tiercel/types.h"

namespace tiercel::transfer::shm {

class PeerSegments {
 public:
  static constexpr size_t kMaxSegments = 4096;

  enum class State : uint8_t {
    kUnknown,  // ask for it
    kMapped,
    kUnshareable,  // the store does not share it, or offered what must not be mapped: go through the socket
  };
  struct Found {
    State state = State::kUnknown;
    std::shared_ptr<const Mapping> mapping;
  };
  Found Find(SegmentRef place);

  // Maps what the store offered, unless it is mapped already. Refused, and unshareable from then on: a file that is
  // shorter than `size`, or that can still shrink (touching what is gone would kill this process).
  Status Map(SegmentRef place, UniqueFd file, uint64_t size);
  void SetUnshareable(SegmentRef place);

 private:
  std::mutex mu_;
  std::map<SegmentRef, Found> segments_;
};

}  // namespace tiercel::transfer::shm
