// STORE WORK hands out what the core wants done; STORE DONE takes the outcomes.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "protocol/resp/descriptor.h"
#include "server/net/handlers.h"
#include "server/net/option_reader.h"
#include "server/net/replica_reply.h"
#include "server/net/store_commands.h"

namespace tiercel::net {
namespace {

constexpr int64_t kMaxItems = 1024;
constexpr int64_t kMaxBlockMs = 60'000;
constexpr int64_t kMaxPuts = 65'536;  // named by one clause; as many as a store may have open
constexpr size_t kMaxClauses = 16'384;

using core::WorkItem;

std::string_view KindName(WorkItem::Kind kind) {
  switch (kind) {
    case WorkItem::Kind::kClose: return "CLOSE";
    case WorkItem::Kind::kVerify: return "VERIFY";
    case WorkItem::Kind::kDrop: return "DROP";
    case WorkItem::Kind::kKeys: return "KEYS";
  }
  return "?";
}

// ---- WORK

void Word(resp::Encoder& reply, uint64_t number) { reply.Bulk(fmt::format_int(number).c_str()); }
void Word(resp::Encoder& reply, SegmentRef place) { reply.Bulk(fmt::format("{}.{}", place.segment, place.epoch)); }
void Word(resp::Encoder& reply, const ExtentList& extents) {
  std::string text;
  for (const Extent& extent : extents) {
    if (!text.empty()) text.push_back(',');
    fmt::format_to(std::back_inserter(text), "{}+{}", extent.offset, extent.length);
  }
  reply.Bulk(text.empty() ? std::string_view("0+0") : std::string_view(text));
}
void Words(resp::Encoder& reply, const std::vector<GrantKey>& keys) {
  Word(reply, keys.size());
  for (const GrantKey& key : keys) reply.Bulk(GrantKeyText(key));
}

// Every item is an array of words; the first two are its id and kind.
void ReplyItem(resp::Encoder& reply, const WorkItem& item) {
  const auto begin = [&](size_t words) {
    reply.Array(2 + words);
    Word(reply, item.id);
    reply.Bulk(KindName(item.kind));
  };
  switch (item.kind) {
    case WorkItem::Kind::kClose:
      begin(item.puts.size());
      for (const Version put : item.puts) Word(reply, put.value);
      return;
    case WorkItem::Kind::kVerify:
      begin(7);
      Word(reply, item.version.value);
      Word(reply, item.name_space);
      reply.Bulk(item.key);
      Word(reply, item.size);
      ReplySum(reply, item.sum);
      Word(reply, item.source.place);
      Word(reply, item.source.extents);
      return;
    case WorkItem::Kind::kDrop:
      begin(1);
      Word(reply, item.segment);
      return;
    case WorkItem::Kind::kKeys:
      begin(2 + item.keys.size() + item.ticket_keys.size());
      Words(reply, item.keys);
      Words(reply, item.ticket_keys);
      return;
  }
}

// ---- DONE

struct Clause {
  enum class Kind : uint8_t { kItem, kClosed, kClosedBelow, kAlive, kUnpinned };
  Kind kind = Kind::kItem;
  uint64_t id = 0;
  WorkItem::Kind work = WorkItem::Kind::kClose;
  bool ok = false;
  uint64_t bytes = 0;
  std::vector<Version> puts;
  Version below;
  SegmentRef place;
  Extent extent;
};

Status ReadItem(OptionReader& reader, Clause* clause) {
  TIERCEL_ASSIGN(const int64_t id, reader.Integer(0, INT64_MAX));
  clause->id = static_cast<uint64_t>(id);
  TIERCEL_ASSIGN(const std::string_view kind, reader.Text());
  constexpr WorkItem::Kind kKinds[] = {WorkItem::Kind::kClose, WorkItem::Kind::kVerify, WorkItem::Kind::kDrop,
                                       WorkItem::Kind::kKeys};
  const auto* known = std::ranges::find_if(kKinds, [&](WorkItem::Kind k) { return SameWord(KindName(k), kind); });
  if (known == std::end(kKinds)) {
    return Error(ErrorCode::kInvalid, "the kind of an item is CLOSE, VERIFY, DROP or KEYS");
  }
  clause->work = *known;
  TIERCEL_ASSIGN(const std::string_view outcome, reader.Text());
  clause->ok = SameWord(outcome, "OK");
  TIERCEL_ASSIGN(const int64_t bytes, reader.Integer(0, INT64_MAX));
  clause->bytes = static_cast<uint64_t>(bytes);
  return Ok();
}

Status ReadPuts(OptionReader& reader, Clause* clause) {
  TIERCEL_ASSIGN(const int64_t count, reader.Integer(0, kMaxPuts));
  if (static_cast<uint64_t>(count) > reader.left()) {
    return Error(ErrorCode::kSyntax,
                 fmt::format("syntax error: {} puts were announced, {} words follow", count, reader.left()));
  }
  clause->puts.reserve(static_cast<size_t>(count));
  for (const std::string_view word : reader.Take(static_cast<size_t>(count))) {
    TIERCEL_ASSIGN(const Version put, ReadVersion("put", word));
    clause->puts.push_back(put);
  }
  return Ok();
}

Status ReadUnpinned(OptionReader& reader, Clause* clause) {
  TIERCEL_ASSIGN(const std::string_view place_text, reader.Text());
  TIERCEL_ASSIGN(const std::string_view range_text, reader.Text());
  const Result<SegmentRef> place = resp::ParseSegmentRef(place_text);
  const Result<ExtentList> extents = resp::ParseExtents(range_text);
  if (!place.ok() || !extents.ok() || extents->size() != 1 || (*extents)[0].length == 0) {
    return Error(ErrorCode::kInvalid, "UNPINNED names one range, SEGMENT.EPOCH OFFSET+LENGTH");
  }
  clause->place = *place;
  clause->extent = (*extents)[0];
  return Ok();
}

Status ReadClause(OptionReader& reader, Clause* clause) {
  if (reader.Is("ITEM")) {
    clause->kind = Clause::Kind::kItem;
    return ReadItem(reader, clause);
  }
  if (reader.Is("CLOSED")) {
    clause->kind = Clause::Kind::kClosed;
    return ReadPuts(reader, clause);
  }
  if (reader.Is("CLOSEDBELOW")) {
    clause->kind = Clause::Kind::kClosedBelow;
    TIERCEL_ASSIGN(const int64_t below, reader.Integer(0, INT64_MAX));
    clause->below.value = static_cast<uint64_t>(below);
    return Ok();
  }
  if (reader.Is("ALIVE")) {
    clause->kind = Clause::Kind::kAlive;
    return ReadPuts(reader, clause);
  }
  if (reader.Is("UNPINNED")) {
    clause->kind = Clause::Kind::kUnpinned;
    return ReadUnpinned(reader, clause);
  }
  return reader.Unknown();
}

Status Apply(CommandContext& c, const Clause& clause) {
  core::Master& master = c.master();
  const core::StoreSlot slot = c.state.store->slot;
  const Incarnation incarnation = c.state.store->incarnation;
  switch (clause.kind) {
    case Clause::Kind::kItem:
      return master.StoreDone(slot, incarnation, clause.id, clause.work, clause.ok, clause.bytes, c.now);
    case Clause::Kind::kClosed: return master.StoreClosed(slot, incarnation, clause.puts, c.now);
    case Clause::Kind::kClosedBelow: return master.StoreClosedBelow(slot, incarnation, clause.below, c.now);
    case Clause::Kind::kAlive: return master.StoreAlive(slot, incarnation, clause.puts, c.now);
    case Clause::Kind::kUnpinned: return master.StoreUnpinned(slot, incarnation, clause.place, clause.extent, c.now);
  }
  return Ok();
}

}  // namespace

Outcome DoStoreWork(CommandContext& c) {
  if (!JoinedHere(c)) return FailNotJoined(c);
  const Result<int64_t> max = ReadInteger("max", c.arg(2), 1, kMaxItems);
  if (!max.ok()) return c.Fail(max.error());
  const Result<int64_t> block_ms = ReadInteger("block-ms", c.arg(3), 0, kMaxBlockMs);
  if (!block_ms.ok()) return c.Fail(block_ms.error());
  const StoreBinding& binding = *c.state.store;
  const Result<core::WorkAnswer> work =
      c.master().StoreWork(binding.slot, binding.incarnation, static_cast<uint32_t>(*max), c.now);
  if (!work.ok()) return c.Fail(work.error());
  if (work->items.empty() && *block_ms > 0 && !c.progress().timed_out) return c.ParkForWork(*block_ms);
  // Also without items: the floor and the time are news by themselves.
  c.reply.Map(3);
  Field<"floor">(c.reply), c.reply.Integer(static_cast<int64_t>(work->floor.value));
  Field<"time-ms">(c.reply), c.reply.Integer(work->time_ms);
  Field<"items">(c.reply), c.reply.Array(work->items.size());
  for (const WorkItem& item : work->items) ReplyItem(c.reply, item);
  return Outcome::kDone;
}

// All of it is read before any of it has an effect.
Outcome DoStoreDone(CommandContext& c) {
  if (!c.state.store) return FailNotJoined(c);
  std::vector<Clause> clauses;
  OptionReader reader(c.args, 2);
  while (reader.Next()) {
    if (clauses.size() == kMaxClauses) {
      return c.Fail(ErrorCode::kTooManyOps, fmt::format("one report has at most {} clauses", kMaxClauses));
    }
    if (const Status read = ReadClause(reader, &clauses.emplace_back()); !read.ok()) return c.Fail(read.error());
  }
  const StoreBinding& binding = *c.state.store;
  if (const Status alive = c.master().StorePing(binding.slot, binding.incarnation, c.now); !alive.ok()) {
    return c.Fail(alive.error());
  }
  c.reply.Array(clauses.size());
  for (size_t i = 0; i < clauses.size(); ++i) {
    c.Breathe(i);
    const Status applied = Apply(c, clauses[i]);
    if (applied.ok()) {
      c.reply.Simple("OK");
    } else {
      c.reply.Error(applied.error());
    }
  }
  return Outcome::kDone;
}

}  // namespace tiercel::net
