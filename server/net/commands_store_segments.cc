// STORE SEGMENT offers a store's segments one by one; STORE READY publishes them all, or none.
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/store_commands.h"

namespace tiercel::net {
namespace {

constexpr size_t kMaxSegmentNameBytes = 256;

Result<core::SegmentJoin> ReadSegment(const CommandContext& c) {
  core::SegmentJoin segment;
  TIERCEL_ASSIGN(segment.tier, ReadTier("tier", c.arg(2)));
  TIERCEL_ASSIGN(const int64_t id, ReadInteger("id", c.arg(3), 0, UINT32_MAX));
  TIERCEL_ASSIGN(segment.name, ReadName("name", c.arg(4), kMaxSegmentNameBytes));
  TIERCEL_ASSIGN(const int64_t epoch, ReadInteger("epoch", c.arg(5), 0, UINT32_MAX));
  TIERCEL_ASSIGN(const int64_t size, ReadInteger("size", c.arg(6), 0, INT64_MAX));
  OptionReader reader(c.args, 7);
  bool kept = false;
  while (reader.Next()) {
    if (reader.Is("KEPT")) {
      kept = true;
      continue;
    }
    if (!reader.Is("WRITTEN")) return reader.Unknown();
    TIERCEL_TRY(reader.Integer(0, size));  // of zones; memory is written anywhere
  }
  segment.id = static_cast<uint32_t>(id);
  segment.epoch = static_cast<uint32_t>(epoch);
  segment.size = static_cast<uint64_t>(size);
  segment.in_process = c.state.in_process;
  segment.outlives_master = kept || segment.tier != Tier::kDram || !c.state.in_process;
  return segment;
}

}  // namespace

Outcome DoStoreSegment(CommandContext& c) {
  if (!JoinedHere(c)) return FailNotJoined(c);
  const Result<core::SegmentJoin> segment = ReadSegment(c);
  if (!segment.ok()) return c.Fail(segment.error());
  const StoreBinding& store = *c.state.store;
  return c.Finish(c.master().StoreSegments(store.slot, store.incarnation, {&*segment, 1}, c.now));
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
  const StoreBinding& store = *c.state.store;
  return c.Finish(c.master().StoreReady(store.slot, store.incarnation, closed_below, c.now));
}

}  // namespace tiercel::net
