#include "server/core/segment_space.h"

#include "base/check.h"

namespace tiercel::core {
namespace {

constexpr uint8_t Bit(SpaceState state) { return static_cast<uint8_t>(1u << static_cast<unsigned>(state)); }

// Where bytes of each state may go.
constexpr uint8_t kNext[] = {
    Bit(SpaceState::kReserved),                                                     // kFree
    Bit(SpaceState::kLive) | Bit(SpaceState::kFencing) | Bit(SpaceState::kParked),  // kReserved
    Bit(SpaceState::kDying) | Bit(SpaceState::kFencing),                            // kLive
    Bit(SpaceState::kFree),                                                         // kFencing
    Bit(SpaceState::kFree) | Bit(SpaceState::kLive) | Bit(SpaceState::kFencing),    // kDying
    Bit(SpaceState::kFencing),                                                      // kParked
};

uint64_t SpaceBytes::* const kGauge[] = {&SpaceBytes::free,    &SpaceBytes::reserved, &SpaceBytes::live,
                                         &SpaceBytes::fencing, &SpaceBytes::dying,    &SpaceBytes::parked};

}  // namespace

void Segment::Move(SpaceState from, SpaceState to, uint64_t bytes_moved) {
  TIERCEL_CHECK((kNext[static_cast<size_t>(from)] & Bit(to)) != 0, "no such transition of space");
  uint64_t& source = bytes.*kGauge[static_cast<size_t>(from)];
  TIERCEL_CHECK(source >= bytes_moved);
  source -= bytes_moved;
  bytes.*kGauge[static_cast<size_t>(to)] += bytes_moved;
}

void Segment::CheckSum() const {
  TIERCEL_CHECK(bytes.total() == size, "the states' bytes sum to the segment");
  TIERCEL_CHECK(bytes.free == allocator->free_bytes());
}

}  // namespace tiercel::core
