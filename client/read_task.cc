#include "client/read_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "client/op_failure.h"

namespace tiercel::client {

void ReadTask::LookedUp(Parts* parts, const Deadline& deadline, Result<std::optional<Found>> found,
                        int64_t asked_at_ms) {
  ++lookups_;
  if (!found.ok()) {
    const bool later = found.error().action() == ErrorAction::kWait && !deadline.over();
    return later ? LookUpAgain(std::move(found).error(), /*at_once=*/false) : Finish(std::move(found).error());
  }
  if (!found->has_value()) {
    missing_ = true;
    phase_ = Phase::kDone;
    return;
  }
  const bool same_version = (*found)->version == found_.version;
  found_ = std::move(**found);
  expected_ = {.version = found_.version,
               .key_seed = KeySeed(parts->options.name_space, key_),
               .size = found_.size,
               .sum = found_.sum,
               .lease_until_ms = asked_at_ms + found_.lease_ms};
  if (!same_version) {
    tried_.clear();
    all_corrupt_ = true;
    if (Status made = MakePlan(parts); !made.ok()) return Finish(std::move(made).error());
  }
  if (!ChooseReplica()) {
    tried_.clear();  // all of them are known to be bad: one more round, bounded by rounds_
    all_corrupt_ = true;
    (void)ChooseReplica();
  }
  phase_ = Phase::kMove;
}

Status ReadTask::MakePlan(Parts* parts) {
  if (shape_ == Shape::kView) return Ok();
  uint64_t offset = 0;
  std::span<std::byte> target;
  if (shape_ == Shape::kInto) {
    if (found_.size > memory_.size()) {
      return Error(ErrorCode::kTooBig,
                   fmt::format("the value has {} bytes, the memory given {}", found_.size, memory_.size()));
    }
    target = memory_.first(found_.size);
  } else {
    uint64_t length = found_.size;
    if (shape_ == Shape::kRange) {
      if (offset_ > found_.size || length_ > found_.size - offset_) {
        return Error(ErrorCode::kInvalid,
                     fmt::format("{} bytes from {} leave the value, which has {}", length_, offset_, found_.size));
      }
      offset = offset_;
      length = length_;
    }
    TIERCEL_ASSIGN(buffer_, parts->buffers->Make(length));
    target = buffer_.span();
  }
  auto known = target.size() == found_.size ? nullptr : parts->trailers.Find(found_.version);
  TIERCEL_ASSIGN(plan_, ReadPlan::Make(found_.size, offset, target, parts->buffers.get(), std::move(known)));
  return Ok();
}

void ReadTask::Renewed(Result<std::optional<Found>> found, int64_t asked_at_ms) {
  if (!found.ok() || !found->has_value() || (*found)->version != found_.version) {
    found_.lease_ms = 0;  // nothing left to renew: the checksums decide
    return;
  }
  Found& fresh = **found;
  expected_.lease_until_ms = std::max(expected_.lease_until_ms, asked_at_ms + fresh.lease_ms);
  found_.lease_ms = fresh.lease_ms;
  const resp::ReplicaDescriptor& used = found_.replicas[replica_];
  for (const resp::ReplicaDescriptor& replica : fresh.replicas) {
    const bool same =
        replica.incarnation == used.incarnation && replica.place == used.place && replica.extents == used.extents;
    if (same) found_.replicas[replica_] = replica;
  }
}

std::optional<StoreDirectory::Peer> ReadTask::FindPeer(Parts* parts, const Deadline& deadline) {
  const resp::ReplicaDescriptor& replica = found_.replicas[replica_];
  auto peer = parts->directory->Find(replica.store, replica.incarnation, deadline);
  if (peer.ok()) return *peer;
  // A store that the master does not know is one thing, a master that does not answer another.
  const bool stale = peer.error().code() == ErrorCode::kStaleIncarnation;
  stale ? Fail(parts, deadline, std::move(peer).error()) : Finish(std::move(peer).error());
  return std::nullopt;
}

void ReadTask::Pin(Parts* parts, const Deadline& deadline, transfer::TransportMask transports) {
  auto peer = FindPeer(parts, deadline);
  if (!peer) return;
  const resp::ReplicaDescriptor& replica = found_.replicas[replica_];
  constexpr auto kViewable =
      transfer::MaskOf(transfer::TransportKind::kShm) | transfer::MaskOf(transfer::TransportKind::kLocal);
  if (!peer->same_host || (transports & kViewable) == 0) {
    return Fail(parts, deadline,
                Error(ErrorCode::kNoDevice, fmt::format("store {} shares no memory with this process", replica.store)));
  }
  auto view = PinnedView::Pin(parts->engine, *peer, found_, replica, std::max<int64_t>(deadline.left_ms(), 1));
  if (!view.ok()) return Fail(parts, deadline, std::move(view).error());
  const std::vector<uint64_t> sums = (*view)->Sums();
  const Evidence evidence{.first_block = 0, .sums = sums, .trailer = {}, .bytes = found_.size};
  Status verified = Verify(expected_, evidence, parts->options.read_past_lease, parts->NowMs());
  if (!verified.ok()) return Fail(parts, deadline, std::move(verified).error());
  view_ = std::move(view).value();
  phase_ = Phase::kDone;
}

uint64_t ReadTask::AddStep(Parts* parts, const Deadline& deadline, uint64_t budget,
                           std::vector<transfer::Operation>* operations, std::deque<PieceHasher>* hashers) {
  first_operation_ = operations->size();
  operation_count_ = 0;
  if (plan_.complete()) {  // an empty value, or an empty range
    Conclude(parts, deadline);
    return 0;
  }
  auto peer = FindPeer(parts, deadline);
  if (!peer) return 0;
  const resp::ReplicaDescriptor& replica = found_.replicas[replica_];
  const Source source{peer->handle, replica.place, &replica.extents,
                      replica.has_grant ? std::make_shared<const Grant>(replica.grant) : nullptr};
  const uint64_t bytes = plan_.AddStep(source, budget, operations, hashers);
  operation_count_ = operations->size() - first_operation_;
  return bytes;
}

void ReadTask::Moved(Parts* parts, const Deadline& deadline, const transfer::Batch& batch) {
  if (operation_count_ == 0) return;
  auto failure = FirstFailure(batch, first_operation_, operation_count_);
  const uint64_t arrived_bytes = BytesMoved(batch, first_operation_, operation_count_);
  operation_count_ = 0;
  if (failure) {
    plan_.StepFailed();
    return Fail(parts, deadline, std::move(*failure));
  }
  plan_.StepDone(arrived_bytes);
  if (plan_.complete()) Conclude(parts, deadline);
}

void ReadTask::Conclude(Parts* parts, const Deadline& deadline) {
  Status verified = plan_.Conclude(expected_, parts->options.read_past_lease, parts->NowMs());
  if (!verified.ok()) {
    plan_.StartOver();
    return Fail(parts, deadline, std::move(verified).error());
  }
  if (auto trailer = plan_.new_trailer()) parts->trailers.Add(found_.version, std::move(trailer));
  phase_ = Phase::kDone;
}

Result<std::optional<Buffer>> ReadTask::TakeBuffer() {
  TIERCEL_CHECK(phase_ == Phase::kDone && shape_ != Shape::kInto);
  if (error_) return std::move(*error_);
  if (missing_) return std::optional<Buffer>();
  return std::optional<Buffer>(std::move(buffer_));
}

Result<std::unique_ptr<ObjectView>> ReadTask::TakeView() {
  TIERCEL_CHECK(phase_ == Phase::kDone && shape_ == Shape::kView);
  if (error_) return std::move(*error_);
  return std::unique_ptr<ObjectView>(std::move(view_));
}

Result<std::optional<uint64_t>> ReadTask::TakeSize() {
  TIERCEL_CHECK(phase_ == Phase::kDone);
  if (error_) return std::move(*error_);
  if (missing_) return std::optional<uint64_t>();
  return std::optional<uint64_t>(found_.size);
}

}  // namespace tiercel::client
