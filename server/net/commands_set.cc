// SET and its like. One way for all: conditions, a place for the bytes, the bytes, then publishing under the lock.
//
// A small value stands in the arguments: it is reserved, copied and hashed without the lock, and published. A large one
// was received into its place before the command is run (IncomingValue): it only is published, or given back.
//
// A key that has a put in flight: SET replaces what is there, so it waits for the other's end and then has the last
// word, as in Redis. It waits as long as another connection of this server receives its value, but at most until that
// put would be taken over; for `put-wait` when a Tiercel client writes it; then the answer is -BUSYPUT.
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "protocol/resp/errors.h"
#include "server/net/answer_value.h"
#include "server/net/expire_time.h"
#include "server/net/handlers.h"
#include "server/net/local_value.h"
#include "server/net/placement.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

// Written under the lock.
constexpr size_t kTinyBytes = 4096;
// How many values of one MSET are reserved at once and published together: this many are atomic.
constexpr size_t kGroup = 4096;
// Places tried when stores refuse them because a reader still holds the range.
constexpr int kPlacesTried = 4;

enum class SetReply : uint8_t { kOk, kInteger, kOldValue };

struct SetRequest {
  size_t key = 1, value = 2;
  bool if_absent = false, if_present = false, keep_ttl = false;
  std::optional<int64_t> expire_at_ms;
  SetReply reply = SetReply::kOk;
};

// A value in its place, not published: small ones by their put, large ones by what was received.
struct Placed {
  Version put;
  uint64_t sum = 0;
  IncomingValue* incoming = nullptr;
};

MasterHost* HostOf(CommandContext& c) { return c.server.host; }

Status Publish(CommandContext& c, const Placed& placed) {
  if (placed.incoming != nullptr) return placed.incoming->Publish(HostOf(c), c.master(), c.caller(), c.now);
  const Result<uint32_t> ended = c.master().PutEnd(c.caller(), placed.put, placed.sum, {}, c.now);
  if (!ended.ok()) return ended.error();
  return Ok();
}

void GiveBack(CommandContext& c, const Placed& placed) {
  if (placed.incoming != nullptr) {
    placed.incoming->Revoke(HostOf(c), c.master(), c.caller(), c.now);
  } else {
    static_cast<void>(c.master().PutRevoke(c.caller(), placed.put, c.now).ok());
  }
}

// Copies and hashes: a tiny value under the lock, which is cheaper than giving it away and taking it again; others
// without. The store's word is asked first: a reader may still hold the range. (The store's own locks are leaves.)
Status WriteLocal(CommandContext& c, const core::LocalSegment* segment, const core::PutPlan& plan,
                  std::string_view value, uint64_t* block_sum) {
  const core::ReplicaInfo& replica = plan.replicas.front();
  // A free place has not been touched for long: it comes into cache while the store is asked.
  LocalValue(segment, &replica.extents).PrefetchFirst();
  Status status;
  const auto write = [&] {
    auto writing = c.server.ports.payload->BeginLocalWrite(replica.place, plan.put, replica.extents);
    if (!writing.ok()) {
      status = writing.error();
      return;
    }
    const auto bytes = std::as_bytes(std::span(value));
    LocalValue(segment, &replica.extents).CopyIn(0, bytes.data(), bytes.size());
    *block_sum = HashBytes(bytes);
  };
  if (value.size() <= kTinyBytes) {
    write();
    return status;
  }
  HostOf(c)->ServerPutStarted(plan.put);
  c.Unlocked(write);
  HostOf(c)->ServerPutEnded(plan.put);
  return status;
}

// What to do while the key or the space is not to be had; nothing when waiting is over.
Outcome WaitOrFail(CommandContext& c, WakeReason reason, int64_t wait_ms, const Error& error) {
  if (c.progress().timed_out || wait_ms <= 0) return c.Fail(error);
  return c.ParkFor(reason, wait_ms);
}

// Reserves and fills a place for arguments[request.value]. nullopt: `outcome` says how the command goes on.
std::optional<Placed> Place(CommandContext& c, const core::KeyRef& key, size_t argument,
                            std::optional<int64_t> expire_at_ms, Outcome* outcome) {
  if (IncomingValue* incoming = c.session().Incoming(argument)) {
    if (incoming->ok()) return Placed{incoming->put(), incoming->sum(), incoming};
    *outcome = c.Fail(incoming->error());
    return std::nullopt;
  }
  const std::string_view value = c.arg(argument);
  const int64_t put_wait_ms = c.server.limits.put_wait_ms.load(std::memory_order_relaxed);
  core::PutOptions options;
  options.replace = true;
  options.expire_at_ms = expire_at_ms;
  std::optional<Error> refused;
  for (int tried = 0; tried < kPlacesTried; ++tried) {
    core::PutPlan* const plan = &c.session().worker().plan_scratch();
    const Status placed =
        PlacePut(c.session().shared(), c.master(), c.caller(), key, value.size(), options, c.now, plan);
    if (!placed.ok()) {
      const bool waits =
          placed.error().code() == ErrorCode::kNoSpace && RoomMayCome(c.master(), options.tier, value.size());
      *outcome = waits ? WaitOrFail(c, WakeReason::kSpace, put_wait_ms, placed.error()) : c.Fail(placed.error());
      return std::nullopt;
    }
    if (plan->outcome == core::PutOutcome::kBusy) {
      const int64_t longer_ms =
          HostOf(c)->IsServerPut(plan->put) ? c.master().options().put_start_discard_timeout_ms : 0;
      *outcome = WaitOrFail(c, WakeReason::kPutEnded, put_wait_ms + longer_ms, BusyError(*plan));
      return std::nullopt;
    }
    const core::ReplicaInfo& replica = plan->replicas.front();
    const core::LocalSegment* segment =
        c.server.ports.payload->FindLocal(c.master().store(replica.store).incarnation, replica.place);
    if (segment == nullptr) {
      static_cast<void>(c.master().PutRevoke(c.caller(), plan->put, c.now).ok());
      *outcome = c.session().ParkForUpload(key, argument, value.size());
      return std::nullopt;
    }
    uint64_t block_sum = 0;
    if (const Status written = WriteLocal(c, segment, *plan, value, &block_sum); !written.ok()) {
      RefusePlace(c.master(), c.caller(), *plan, written.error().code(), c.now);
      refused = written.error();
      continue;
    }
    const uint64_t sum = ObjectSum(key.hash, value.size(), {&block_sum, value.empty() ? size_t{0} : 1});
    return Placed{plan->put, sum, nullptr};
  }
  *outcome = c.Fail(*refused);
  return std::nullopt;
}

Outcome ReplySet(CommandContext& c, const SetRequest& request, bool done) {
  switch (request.reply) {
    case SetReply::kInteger: c.reply.Integer(done ? 1 : 0); break;
    case SetReply::kOk:
    case SetReply::kOldValue:
      if (done) {
        c.reply.Simple("OK");
      } else {
        c.reply.Null();
      }
      break;
  }
  return Outcome::kDone;
}

// Answers with what is there now; the old value of SET ... GET and GETSET.
Outcome ReplyOld(CommandContext& c, const core::KeyRef& key) {
  core::ObjectInfo& info = c.session().worker().object_scratch();
  if (c.master().Lookup(key, PlainRead(c), c.now, &info)) return AnswerValue(c, key, info, 0, info.size);
  c.reply.Null();
  return Outcome::kDone;
}

// Under one hold: nobody sees the value without its time to live.
Status PublishWithTtl(CommandContext& c, const SetRequest& request, const core::KeyRef& key, const Placed& placed) {
  const std::optional<int64_t> kept = request.keep_ttl ? c.master().Expiry(key, c.now) : std::nullopt;
  TIERCEL_TRY(Publish(c, placed));
  if (kept.value_or(0) != 0) c.master().ExpireAt(key, *kept, c.now);
  if (placed.incoming != nullptr && request.expire_at_ms) c.master().ExpireAt(key, *request.expire_at_ms, c.now);
  return Ok();
}

Outcome RunSet(CommandContext& c, const SetRequest& request) {
  if (c.KeyTooLong(request.key)) return Outcome::kDone;
  const core::KeyRef key = c.Key(request.key);
  const auto met = [&] {
    if (!request.if_absent && !request.if_present) return true;
    return c.master().Expiry(key, c.now).has_value() == request.if_present;
  };
  const auto refuse = [&] {
    return request.reply == SetReply::kOldValue ? ReplyOld(c, key) : ReplySet(c, request, false);
  };
  if (!met()) return refuse();
  if (request.expire_at_ms && *request.expire_at_ms <= c.now.wall_ms) {
    // A moment in the past: the key is gone, as if the value had been there and expired.
    if (c.IndexReadOnly()) return Outcome::kDone;
    const Outcome outcome = request.reply == SetReply::kOldValue ? ReplyOld(c, key) : ReplySet(c, request, true);
    c.master().Delete(key, c.now);
    return outcome;
  }
  Outcome outcome = Outcome::kDone;
  const std::optional<Placed> placed = Place(c, key, request.value, request.expire_at_ms, &outcome);
  if (!placed) return outcome;
  if (!met()) {  // the lock was given away meanwhile
    GiveBack(c, *placed);
    return refuse();
  }
  const size_t start = c.reply.out()->size();
  if (request.reply == SetReply::kOldValue) {
    outcome = ReplyOld(c, key);
  }
  if (const Status published = PublishWithTtl(c, request, key, *placed); !published.ok()) {
    c.session().CancelSend(c.master(), c.now);
    c.reply.out()->resize(start);
    return c.Fail(published.error());
  }
  return request.reply == SetReply::kOldValue ? outcome : ReplySet(c, request, true);
}

// "EX 10" and its like, at argument i. False: replied.
bool ParseExpire(CommandContext& c, std::string_view text, ExpireForm form, SetRequest* request) {
  const auto value = ParseInt64(text);
  if (!value) {
    c.FailNotInteger();
    return false;
  }
  const auto moment = *value <= 0 ? std::nullopt : ExpireMoment(*value, form, c.now.wall_ms);
  if (!moment) {
    c.FailLine(resp::InvalidExpireLine(c.spec->name));
    return false;
  }
  request->expire_at_ms = *moment;
  return true;
}

std::optional<ExpireForm> ExpireOption(std::string_view word) {
  if (EqualsIgnoreCase(word, "ex")) return ExpireForm::kSeconds;
  if (EqualsIgnoreCase(word, "px")) return ExpireForm::kMillis;
  if (EqualsIgnoreCase(word, "exat")) return ExpireForm::kUnixSeconds;
  if (EqualsIgnoreCase(word, "pxat")) return ExpireForm::kUnixMillis;
  return std::nullopt;
}

// False: replied. The words are checked before the number among them, as Redis does.
bool ParseSetOptions(CommandContext& c, SetRequest* request) {
  std::optional<ExpireForm> form;
  std::string_view time;
  for (size_t i = 3; i < c.argc(); ++i) {
    const std::string_view word = c.arg(i);
    const std::optional<ExpireForm> expire = ExpireOption(word);
    if (EqualsIgnoreCase(word, "nx") && !request->if_present) {
      request->if_absent = true;
    } else if (EqualsIgnoreCase(word, "xx") && !request->if_absent) {
      request->if_present = true;
    } else if (EqualsIgnoreCase(word, "get")) {
      request->reply = SetReply::kOldValue;
    } else if (EqualsIgnoreCase(word, "keepttl") && !form) {
      request->keep_ttl = true;
    } else if (expire && (!form || form == expire) && !request->keep_ttl && i + 1 < c.argc()) {
      form = expire;
      time = c.arg(++i);
    } else {
      c.FailSyntax();
      return false;
    }
  }
  return !form || ParseExpire(c, time, *form, request);
}

}  // namespace

Outcome DoSet(CommandContext& c) {
  SetRequest request;
  if (c.argc() > 3 && !ParseSetOptions(c, &request)) return Outcome::kDone;
  return RunSet(c, request);
}

Outcome DoSetex(CommandContext& c) {
  SetRequest request{.value = 3};
  if (!ParseExpire(c, c.arg(2), ExpireForm::kSeconds, &request)) return Outcome::kDone;
  return RunSet(c, request);
}

Outcome DoPsetex(CommandContext& c) {
  SetRequest request{.value = 3};
  if (!ParseExpire(c, c.arg(2), ExpireForm::kMillis, &request)) return Outcome::kDone;
  return RunSet(c, request);
}

Outcome DoSetnx(CommandContext& c) {
  SetRequest request{.if_absent = true, .reply = SetReply::kInteger};
  return RunSet(c, request);
}

Outcome DoGetset(CommandContext& c) {
  SetRequest request{.reply = SetReply::kOldValue};
  return RunSet(c, request);
}

// All values of a group are placed first, then published under one hold. progress().cursor: the first argument of the
// group that comes next, 0 at the beginning.
Outcome DoMset(CommandContext& c) {
  if (c.argc() % 2 == 0) return c.FailArity();
  for (size_t i = 1; i < c.argc(); i += 2) {
    if (c.KeyTooLong(i)) return Outcome::kDone;
  }
  const size_t first = std::max<size_t>(1, c.progress().cursor);
  const size_t end = std::min(c.argc(), first + 2 * kGroup);
  std::vector<Placed> placed;
  // A key that comes twice has its last value: the earlier one is not stored at all.
  std::unordered_map<std::string_view, size_t> last;
  for (size_t i = first; i < end; i += 2) last[c.arg(i)] = i;
  Outcome outcome = Outcome::kDone;
  for (size_t i = first; i < end; i += 2) {
    if (last[c.arg(i)] != i) continue;
    const std::optional<Placed> one = Place(c, c.Key(i), i + 1, std::nullopt, &outcome);
    if (!one) {
      // Nothing is kept while this waits, so that two MSETs cannot wait for each other's keys.
      for (const Placed& value : placed) {
        if (value.incoming == nullptr) GiveBack(c, value);
      }
      return outcome;
    }
    placed.push_back(*one);
  }
  for (size_t i = 0; i < placed.size(); ++i) {
    const Status published = Publish(c, placed[i]);
    if (published.ok()) continue;
    for (size_t rest = i + 1; rest < placed.size(); ++rest) GiveBack(c, placed[rest]);
    return c.Fail(published.error());
  }
  if (end < c.argc()) {
    c.progress().cursor = end;
    return Outcome::kMore;
  }
  c.reply.Simple("OK");
  return Outcome::kDone;
}

}  // namespace tiercel::net
