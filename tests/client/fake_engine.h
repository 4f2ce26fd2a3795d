// An engine without wires: segments are vectors of this process. Tests decide what goes wrong and when.
//
// A batch moves when it is waited for. Before that, `hold_waits` waits end without it, each calling `on_hold`:
// time for a test's clock to pass, or for the segment's bytes to change.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "transfer/engine.h"

namespace tiercel::test {

class FakeEngine final : public transfer::Engine {
 public:
  // ---- the test's side
  std::span<std::byte> AddSegment(Incarnation store, SegmentRef place, size_t bytes) {
    auto& memory = segments_[{store.value, place}];
    memory.assign(bytes, std::byte{0xEE});
    return memory;
  }
  std::span<std::byte> Segment(Incarnation store, SegmentRef place) { return segments_.at({store.value, place}); }

  // Asked for each operation as it is to move; an error fails it before a byte moved.
  std::function<std::optional<Error>(const transfer::PeerAddress&, const transfer::Operation&)> refuse;
  int hold_waits = 0;
  std::function<void()> on_hold;
  std::function<void()> on_cancel;    // a batch is cancelled for the first time
  std::function<void()> after_batch;  // bytes have moved, nobody has looked at them
  size_t piece_bytes = 256 * 1024;
  bool pieces_backwards = false;  // the last piece of an operation first
  bool pieces_again = false;      // every operation is begun, restarted and moved anew
  bool owner_hashes = false;      // as a store that copies out of shared memory: OnHashed per block
  uint64_t short_by = 0;          // the first operation of a batch claims fewer bytes
  bool pins_die = false;
  bool flip_write = false;  // one bit of every write arrives changed

  // Batches move on the threads that wait for them.
  std::atomic<uint64_t> reads{0}, writes{0}, batches{0}, bytes_read{0}, views{0}, live_views{0};
  uint64_t largest_batch_bytes = 0;
  transfer::TransportMask last_mask = 0;

  // ---- Engine
  Result<std::unique_ptr<transfer::Registration>> Register(std::span<const std::span<std::byte>>) override {
    return std::make_unique<transfer::Registration>();
  }
  Result<std::span<std::byte>> AllocateRegistered(size_t bytes) override {
    return std::span(new std::byte[bytes], bytes);
  }
  void FreeRegistered(std::span<std::byte> memory) override { delete[] memory.data(); }

  transfer::PeerHandle AddPeer(const transfer::PeerAddress& address) override {
    std::lock_guard lock(mutex_);
    for (auto& [id, peer] : peers_) {
      if (peer.name == address.name && peer.incarnation == address.incarnation) return {id};
    }
    peers_[peers_.size() + 1] = address;
    return {peers_.size()};
  }
  Status Connect(transfer::PeerHandle, int64_t) override { return Ok(); }

  Result<std::unique_ptr<transfer::Batch>> Submit(std::vector<transfer::Operation> operations,
                                                  const transfer::SubmitOptions& options) override {
    std::lock_guard lock(mutex_);
    ++batches;
    last_mask = options.transports;
    uint64_t bytes = 0;
    for (const auto& operation : operations) {
      if (operation.memory.empty()) return Error(ErrorCode::kInvalid, "an operation of length 0");
      bytes += operation.memory.size();
    }
    largest_batch_bytes = std::max(largest_batch_bytes, bytes);
    return std::unique_ptr<transfer::Batch>(std::make_unique<FakeBatch>(this, std::move(operations)));
  }

  Result<std::unique_ptr<View>> MapView(transfer::PeerHandle peer, SegmentRef place, Extent range,
                                        std::shared_ptr<const Grant> grant, int64_t) override {
    ++views;
    transfer::Operation operation;
    operation.peer = peer;
    operation.place = place;
    operation.offset = range.offset;
    operation.grant = std::move(grant);
    if (auto error = Check(operation, range.length)) return std::move(*error);
    auto bytes = segments_.at({peers_.at(peer.id).incarnation.value, place});
    ++live_views;
    return std::unique_ptr<View>(std::make_unique<FakeView>(
        this,
        std::span(segments_.at({peers_.at(peer.id).incarnation.value, place})).subspan(range.offset, range.length)));
  }
  std::vector<transfer::TransportFigures> Figures() const override { return {}; }

 private:
  class FakeView final : public View {
   public:
    FakeView(FakeEngine* engine, std::span<const std::byte> bytes) : engine_(engine), bytes_(bytes) {}
    ~FakeView() override { --engine_->live_views; }
    std::span<const std::byte> bytes() const override { return bytes_; }
    bool alive() const override { return !engine_->pins_die; }

   private:
    FakeEngine* const engine_;
    const std::span<const std::byte> bytes_;
  };

  class FakeBatch final : public transfer::Batch {
   public:
    FakeBatch(FakeEngine* engine, std::vector<transfer::Operation> operations)
        : engine_(engine),
          operations_(std::move(operations)),
          results_(operations_.size()),
          held_(engine->hold_waits) {}

    bool terminal() const override { return terminal_; }
    Status Wait(int64_t) override {
      if (terminal_) return Ok();
      if (held_ > 0 && !cancelled_) {
        --held_;
        if (engine_->on_hold) engine_->on_hold();
        return Error(ErrorCode::kDeadline, "held by the test");
      }
      for (size_t i = 0; i < operations_.size(); ++i) {
        if (cancelled_) {
          results_[i].state = transfer::OpResult::State::kCancelled;
        } else {
          engine_->Move(operations_[i], &results_[i]);
        }
      }
      if (engine_->short_by > 0) results_[0].bytes -= engine_->short_by;
      if (engine_->after_batch) engine_->after_batch();
      terminal_ = true;
      return Ok();
    }
    void Cancel() override {
      if (!cancelled_.exchange(true) && engine_->on_cancel) engine_->on_cancel();
    }
    size_t size() const override { return operations_.size(); }
    transfer::OpResult result(size_t i) const override { return results_[i]; }
    bool all_ok() const override {
      return std::ranges::all_of(results_, [](const auto& r) { return r.state == transfer::OpResult::State::kOk; });
    }
    void OnTerminal(std::function<void()> callback) override { callback(); }

   private:
    FakeEngine* const engine_;
    std::vector<transfer::Operation> operations_;
    std::vector<transfer::OpResult> results_;
    int held_;
    std::atomic<bool> cancelled_{false};
    bool terminal_ = false;
  };

  // What a store checks, as far as a client can get it wrong.
  std::optional<Error> Check(const transfer::Operation& operation, uint64_t length) {
    const transfer::PeerAddress& peer = peers_.at(operation.peer.id);
    if (refuse) {
      if (auto error = refuse(peer, operation)) return error;
    }
    auto segment = segments_.find({peer.incarnation.value, operation.place});
    if (segment == segments_.end()) return Error(ErrorCode::kOldEpoch, "no such segment");
    if (operation.grant == nullptr) return Error(ErrorCode::kBadGrant, "no grant");
    bool covered = false;
    for (const Extent& extent : operation.grant->extents) {
      covered =
          covered || (extent.offset <= operation.offset && operation.offset + length <= extent.offset + extent.length);
    }
    const bool right =
        operation.grant->right == (operation.kind == transfer::OpKind::kWrite ? Right::kWrite : Right::kRead);
    if (!covered || !right || operation.grant->place != operation.place) {
      return Error(ErrorCode::kBadGrant, "the grant is for something else");
    }
    if (operation.offset + length > segment->second.size()) return Error(ErrorCode::kOutOfRange, "beyond the segment");
    return std::nullopt;
  }

  void Move(const transfer::Operation& operation, transfer::OpResult* result) {
    const size_t length = operation.memory.size();
    const bool write = operation.kind == transfer::OpKind::kWrite;
    ++(write ? writes : reads);
    if (auto error = Check(operation, length)) {
      result->state = transfer::OpResult::State::kFailed;
      result->code = error->code();
      result->message = error->message();
      return;
    }
    std::byte* place =
        segments_.at({peers_.at(operation.peer.id).incarnation.value, operation.place}).data() + operation.offset;
    if (write) {
      std::copy_n(operation.memory.data(), length, place);
      if (flip_write) place[length / 2] ^= std::byte{1};
    } else {
      std::copy_n(place, length, operation.memory.data());
      bytes_read += length;
    }
    Observe(operation);
    result->state = transfer::OpResult::State::kOk;
    result->bytes = length;
  }

  void Observe(const transfer::Operation& operation) const {
    if (operation.observer == nullptr) return;
    const std::span<const std::byte> bytes = operation.memory;
    const size_t step = owner_hashes ? kBlockBytes : piece_bytes;
    const size_t pieces = (bytes.size() + step - 1) / step;
    auto feed = [&](size_t i) {
      auto piece = bytes.subspan(i * step, std::min(step, bytes.size() - i * step));
      owner_hashes ? operation.observer->OnHashed(i * step, piece.size(), HashBytes(piece))
                   : operation.observer->OnPiece(i * step, piece);
    };
    if (pieces_again) {
      for (size_t i = 0; i < (pieces + 1) / 2; ++i) feed(i);
      operation.observer->OnRestart(0, bytes.size());
    }
    for (size_t i = 0; i < pieces; ++i) feed(pieces_backwards ? pieces - 1 - i : i);
  }

  std::mutex mutex_;
  std::map<uint64_t, transfer::PeerAddress> peers_;
  std::map<std::pair<uint64_t, SegmentRef>, std::vector<std::byte>> segments_;
};

}  // namespace tiercel::test
