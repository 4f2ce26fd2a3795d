#include "server/net/incoming_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "server/net/local_value.h"
#include "server/net/placement.h"
#include "server/net/remote_transfer.h"
#include "server/net/server_shared.h"
#include "server/net/worker.h"

namespace tiercel::net {
namespace {

// Straight into the extents of a segment of this process.
class LocalSink final : public ValueSink {
 public:
  LocalSink(const core::LocalSegment* segment, ExtentList extents, uint64_t stored_bytes,
            core::PayloadPort::LocalWrite write)
      : segment_(segment), extents_(std::move(extents)), left_(stored_bytes), write_(std::move(write)) {}

  std::span<std::byte> Room() override {
    if (left_ == 0) return {};
    const Extent extent = extents_[extent_];
    TIERCEL_CHECK(extent.offset <= segment_->size && extent.length <= segment_->size - extent.offset);
    return {segment_->base + extent.offset + at_, std::min(left_, extent.length - at_)};
  }
  void Filled(size_t n) override {
    at_ += n;
    left_ -= n;
    if (at_ == extents_[extent_].length && left_ > 0) ++extent_, at_ = 0;
  }
  End Finish() override { return End::kDone; }
  void Close() override { write_.End(); }

 private:
  const core::LocalSegment* const segment_;
  const ExtentList extents_;
  uint64_t left_;
  uint32_t extent_ = 0;
  uint64_t at_ = 0;  // in the extent
  core::PayloadPort::LocalWrite write_;
};

// To another store, through a window of a few chunks.
class RemoteSink final : public ValueSink {
 public:
  RemoteSink(Worker* worker, core::ConnectionId session, core::RemotePlace place, uint64_t stored_bytes)
      : worker_(worker), session_(session), place_(std::move(place)), stored_(stored_bytes) {}

  std::span<std::byte> Room() override {
    if (failure_ || filling_offset_ + filled_ >= stored_) return {};
    std::shared_ptr<RemoteTransfer>& chunk = chunks_[filling_];
    if (!filling_open_) {
      if (chunk && !Reusable(chunk)) return {};
      chunk = std::make_shared<RemoteTransfer>(ChunkBytes());
      filling_open_ = true;
    }
    return chunk->memory().subspan(filled_, ChunkBytes() - filled_);
  }
  void Filled(size_t n) override {
    filled_ += n;
    if (filled_ == ChunkBytes()) Send();
  }
  End Finish() override {
    bool pending = false;
    for (const auto& chunk : chunks_) {
      if (!chunk) continue;
      if (!chunk->ended()) {
        pending = true;
      } else if (!chunk->ended()->ok() && !failure_) {
        failure_ = chunk->ended()->error();
      }
    }
    if (failure_) return End::kFailed;
    return pending ? End::kPending : End::kDone;
  }
  bool failed() const override { return failure_.has_value(); }
  Error failure() const override { return *failure_; }

 private:
  static constexpr size_t kChunks = 4;  // of one block: the window of 4 MiB

  size_t ChunkBytes() const { return std::min(kBlockBytes, stored_ - filling_offset_); }
  bool Reusable(std::shared_ptr<RemoteTransfer>& chunk) {
    if (!chunk->ended()) return false;
    if (!chunk->ended()->ok()) {
      failure_ = chunk->ended()->error();
      return false;
    }
    chunk.reset();
    return true;
  }
  void Send() {
    const size_t bytes = ChunkBytes();
    RemoteTransfer::Write(chunks_[filling_], worker_, session_, worker_->shared().ports.payload, place_,
                          filling_offset_, bytes);
    filling_offset_ += bytes;
    filled_ = 0;
    filling_open_ = false;
    filling_ = (filling_ + 1) % kChunks;
  }

  Worker* const worker_;
  const core::ConnectionId session_;
  const core::RemotePlace place_;
  const uint64_t stored_;
  std::array<std::shared_ptr<RemoteTransfer>, kChunks> chunks_;
  size_t filling_ = 0, filled_ = 0;
  bool filling_open_ = false;  // chunks_[filling_] is being filled, not on its way
  uint64_t filling_offset_ = 0;
  std::optional<Error> failure_;
};

constexpr uint32_t kPlacesTried = 4;

}  // namespace

IncomingValue::IncomingValue(Worker* worker, core::ConnectionId session, size_t argument, uint32_t name_space,
                             std::string_view key, uint64_t size)
    : worker_(worker),
      session_(session),
      argument_(argument),
      name_space_(name_space),
      key_(key),
      seed_(KeySeed(name_space, key)),
      size_(size) {}

IncomingValue::~IncomingValue() { TIERCEL_CHECK(!put_, "an incoming value's put is ended before it goes away"); }

std::optional<WakeReason> IncomingValue::Reserve(core::Master& master, const core::Caller& caller, Times now,
                                                 bool last_try) {
  core::PutOptions options;
  options.replace = true;
  while (state_ == State::kReserving) {
    core::PutPlan plan;
    const Status placed =
        PlacePut(worker_->shared(), master, caller, {name_space_, key_, seed_}, size_, options, now, &plan);
    if (!placed.ok()) {
      busy_with_server_put_ = false;
      const bool full = placed.error().code() == ErrorCode::kNoSpace;
      if (full && !last_try && RoomMayCome(master, options.tier, size_)) return WakeReason::kSpace;
      Fail(placed.error());
    } else if (plan.outcome == core::PutOutcome::kBusy) {
      busy_with_server_put_ = worker_->shared().host->IsServerPut(plan.put);
      if (!last_try) return WakeReason::kPutEnded;
      Fail(BusyError(plan));
    } else {
      Open(master, plan, caller, now);
    }
  }
  return std::nullopt;
}

int64_t IncomingValue::patience_ms(const core::Options& options, int64_t put_wait_ms) const {
  return put_wait_ms + (busy_with_server_put_ ? options.put_start_discard_timeout_ms : 0);
}

// False: the place was refused (a view still holds the range) and has been given back; the caller asks for another.
bool IncomingValue::Open(core::Master& master, const core::PutPlan& plan, const core::Caller& caller, Times now) {
  TIERCEL_CHECK(plan.outcome == core::PutOutcome::kCreated && !plan.replicas.empty());
  ServerShared& shared = worker_->shared();
  const core::ReplicaInfo& replica = plan.replicas.front();
  const core::StoreInfo& store = master.store(replica.store);
  if (const core::LocalSegment* segment = shared.ports.payload->FindLocal(store.incarnation, replica.place)) {
    Result<core::PayloadPort::LocalWrite> write =
        shared.ports.payload->BeginLocalWrite(replica.place, plan.put, replica.extents);
    if (!write.ok()) {
      RefusePlace(master, caller, plan, write.error().code(), now);
      if (++refused_places_ >= kPlacesTried) Fail(write.error());
      return false;
    }
    sink_ = std::make_unique<LocalSink>(segment, replica.extents, StoredBytes(size_), std::move(*write));
  } else {
    const Grant grant = master.MakeGrant(replica, plan.put, Right::kWrite, ServerUserId(), now);
    sink_ = std::make_unique<RemoteSink>(worker_, session_, core::RemotePlace{store, grant}, StoredBytes(size_));
  }
  put_ = plan.put;
  shared.host->ServerPutStarted(put_);
  sums_.reserve(BlockCount(size_));
  state_ = State::kReceiving;
  if (size_ == 0) Seal();
  return true;
}

std::span<std::byte> IncomingValue::Room() {
  std::span<std::byte> room = sink_->Room();
  if (room.empty() && sink_->failed()) Fail(sink_->failure());
  return room.first(std::min<uint64_t>(room.size(), remaining()));
}

void IncomingValue::Received(size_t n) {
  if (state_ == State::kDropping) {
    received_ += n;
    if (remaining() == 0) state_ = State::kSealed;
    return;
  }
  std::span<const std::byte> piece = sink_->Room().first(n);
  while (!piece.empty()) {
    const uint64_t in_block = received_ % kBlockBytes;
    const size_t part = std::min<uint64_t>(piece.size(), kBlockBytes - in_block);
    hasher_.Update(piece.first(part));
    received_ += part;
    piece = piece.subspan(part);
    if (received_ % kBlockBytes == 0 || received_ == size_) {
      sums_.push_back(hasher_.Digest());
      hasher_.Reset();
    }
  }
  sink_->Filled(n);
  if (remaining() == 0) Seal();
}

// Writes the trailer behind the value, through the sink like any bytes.
void IncomingValue::Seal() {
  sum_ = ObjectSum(seed_, size_, sums_);
  state_ = State::kFlushing;
  Poll();
}

void IncomingValue::Poll() {
  if (state_ != State::kFlushing) return;
  const uint64_t trailer = TrailerBytes(size_);
  while (received_ < size_ + trailer) {
    const std::span<std::byte> room = sink_->Room();
    if (room.empty()) {
      if (sink_->failed()) Fail(sink_->failure());
      return;
    }
    const uint64_t at = received_ - size_;
    const size_t n = std::min<uint64_t>(room.size(), trailer - at);
    std::memcpy(room.data(), reinterpret_cast<const std::byte*>(sums_.data()) + at, n);
    received_ += n;
    sink_->Filled(n);
  }
  switch (sink_->Finish()) {
    case ValueSink::End::kPending: return;
    case ValueSink::End::kFailed: Fail(sink_->failure()); return;
    case ValueSink::End::kDone: state_ = State::kSealed; return;
  }
}

void IncomingValue::Fail(Error error) {
  if (!error_) error_ = std::move(error);
  state_ = received_ >= size_ ? State::kSealed : State::kDropping;
}

Status IncomingValue::Publish(MasterHost* host, core::Master& master, const core::Caller& caller, Times now) {
  TIERCEL_CHECK(state_ == State::kSealed);
  if (!ok()) {
    Revoke(host, master, caller, now);
    return error();
  }
  sink_->Close();
  const Version put = std::exchange(put_, Version{});
  host->ServerPutEnded(put);
  const Result<uint32_t> ended = master.PutEnd(caller, put, sum_, {}, now);
  if (!ended.ok()) return ended.error();
  return Ok();
}

void IncomingValue::Revoke(MasterHost* host, core::Master& master, const core::Caller& caller, Times now) {
  if (!put_) return;
  sink_->Close();
  const Version put = std::exchange(put_, Version{});
  host->ServerPutEnded(put);
  static_cast<void>(master.PutRevoke(caller, put, now).ok());  // it may have been taken over: then it is gone already
}

void IncomingValue::Renew(core::Master& master, const core::Caller& caller, Times now) {
  if (!put_ || received_ == renewed_at_) return;
  renewed_at_ = received_;
  const Result<core::PutPlan> renewed = master.PutRenew(caller, put_, now);
  if (!renewed.ok()) Fail(renewed.error());
}

}  // namespace tiercel::net
