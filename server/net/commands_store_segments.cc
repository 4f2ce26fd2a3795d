// STORE SEGMENT offers a store's segments one by one; STORE READY publishes them all, or none.
#include <fmt/format.h>

#include <utility>

#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/store_commands.h"

namespace tiercel::net {
namespace {

constexpr size_t kMaxSegmentNameBytes = 256;
constexpr size_t kMaxSegmentsPerStore = 4096;
constexpr uint64_t kMaxSegmentBytes = (uint64_t{1} << 44) - 1;  // what the allocator can number

Result<core::SegmentJoin> ReadSegment(const CommandContext& c) {
  core::SegmentJoin segment;
  TIERCEL_ASSIGN(segment.tier, ReadTier("tier", c.arg(2)));
  TIERCEL_ASSIGN(const int64_t id, ReadInteger("id", c.arg(3), 0, UINT32_MAX));
  TIERCEL_ASSIGN(segment.name, ReadName("name", c.arg(4), kMaxSegmentNameBytes));
  TIERCEL_ASSIGN(const int64_t epoch, ReadInteger("epoch", c.arg(5), 0, UINT32_MAX));
  TIERCEL_ASSIGN(const int64_t size, ReadInteger("size", c.arg(6), kSmallGranule, kMaxSegmentBytes));
  OptionReader reader(c.args, 7);
  while (reader.Next()) {
    if (!reader.Is("WRITTEN")) return reader.Unknown();
    TIERCEL_TRY(reader.Integer(0, size));  // of zones; memory is written anywhere
  }
  segment.id = static_cast<uint32_t>(id);
  segment.epoch = static_cast<uint32_t>(epoch);
  segment.size = static_cast<uint64_t>(size);
  segment.in_process = c.state.in_process;
  segment.outlives_master = segment.tier != Tier::kDram || !c.state.in_process;
  return segment;
}

// Names are unique in the cluster, and so are numbers within a store.
Status CheckSegmentIsNew(const CommandContext& c, const core::SegmentJoin& segment) {
  const StoreBinding& binding = *c.state.store;
  for (const core::SegmentJoin& other : binding.staged) {
    if (other.name == segment.name) {
      return Error(ErrorCode::kNameInUse,
                   fmt::format("segment {} was offered already on this connection", segment.name));
    }
    if (other.id == segment.id) {
      return Error(ErrorCode::kInvalid,
                   fmt::format("id {} was offered already, as segment {}", segment.id, other.name));
    }
  }
  for (const core::SegmentInfo& other : c.master().Segments()) {
    if (other.name != segment.name || other.store == binding.slot) continue;
    const core::StoreInfo& owner = c.master().store(other.store);
    return Error(ErrorCode::kNameInUse,
                 fmt::format("segment {} belongs to store {} at {}", segment.name, owner.name, owner.data_address));
  }
  return Ok();
}

}  // namespace

Outcome DoStoreSegment(CommandContext& c) {
  if (!JoinedHere(c)) return FailNotJoined(c);
  Result<core::SegmentJoin> segment = ReadSegment(c);
  if (!segment.ok()) return c.Fail(segment.error());
  std::vector<core::SegmentJoin>& staged = c.state.store->staged;
  if (staged.size() == kMaxSegmentsPerStore) {
    return c.Fail(ErrorCode::kTooBig, fmt::format("a store has at most {} segments", kMaxSegmentsPerStore));
  }
  if (const Status fresh = CheckSegmentIsNew(c, *segment); !fresh.ok()) return c.Fail(fresh.error());
  staged.push_back(std::move(segment).value());
  return c.Finish(Ok());
}

Outcome DoStoreReady(CommandContext& c) {
  if (!JoinedHere(c)) return FailNotJoined(c);
  Version closed_below;
  OptionReader reader(c.args, 2);
  while (reader.Next()) {
    if (!reader.Is("CLOSEDBELOW")) return c.Fail(reader.Unknown());
    const Result<int64_t> version = reader.Integer(0, INT64_MAX);
    if (!version.ok()) return c.Fail(version.error());
    closed_below.value = static_cast<uint64_t>(*version);
  }
  StoreBinding& binding = *c.state.store;
  const std::vector<core::SegmentJoin> staged = std::exchange(binding.staged, {});
  const Status published = c.master().StoreSegments(binding.slot, binding.incarnation, staged, c.now);
  if (!published.ok()) return c.Fail(published.error());
  return c.Finish(c.master().StoreReady(binding.slot, binding.incarnation, closed_below, c.now));
}

}  // namespace tiercel::net
