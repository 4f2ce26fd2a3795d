// A slice runs to its end inside Post, on the thread that posts it. Rejected: deferring it to the waiting thread,
// which is the same thread nearly always.
#include "transfer/local/local_transport.h"

#include <fmt/core.h>

#include <atomic>
#include <cstring>

#include "base/check.h"
#include "transfer/hashed_copy.h"

namespace tiercel::transfer::local {
namespace {

// Pins may outlive the rail (a view does), and end with their Access.
class LocalPin final : public ViewPin {
 public:
  LocalPin(std::unique_ptr<Access> access, std::shared_ptr<std::atomic<bool>> revoked)
      : revoked_(std::move(revoked)), access_(std::move(access)) {
    bytes = access_->memory;
  }
  bool alive() const override { return !revoked_->load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<std::atomic<bool>> revoked_;
  const std::unique_ptr<Access> access_;
};

class LocalRail final : public Rail {
 public:
  LocalRail(Target* target, PeerIdentity peer, RailHost* host)
      : target_(*target), peer_(std::move(peer)), host_(*host) {}

  int fd() const override { return -1; }
  void Start() override {
    host_.OnRailUp(*this,
                   {.incarnation = target_.incarnation(), .grant_time_ms = target_.GrantTimeMs(), .odd_version = {}});
  }
  void Post(std::span<Slice* const> slices) override {
    for (Slice* slice : slices) {
      if (closed_.load(std::memory_order_acquire)) {
        const Error error(ErrorCode::kShutdown, "the rail is closed");
        host_.OnSliceDone(*slice, SliceEnd::kLost, &error);
      } else {
        Run(*slice);
      }
    }
  }
  bool Withdraw(const Slice*, uint64_t) override { return false; }  // nothing ever waits here
  void OnEvents(bool, bool) override {}
  void Abandon(const Slice*, uint64_t, const Error&) override {}  // it is running, and ends by itself
  void Close(const Error& error) override {
    if (!closed_.exchange(true)) host_.OnRailDown(*this, error);
  }

 private:
  void Run(Slice& slice) {
    static const Grant kNone;
    auto revoked = std::make_shared<std::atomic<bool>>(false);
    const bool write = slice.kind == OpKind::kWrite;
    const AccessRequest request{.kind = slice.view ? AccessRequest::Kind::kView
                                        : write    ? AccessRequest::Kind::kWrite
                                                   : AccessRequest::Kind::kRead,
                                .place = slice.place,
                                .offset = slice.offset,
                                .length = slice.length,
                                .grant = slice.grant != nullptr ? slice.grant : &kNone};
    auto access = target_.Admit(request, peer_, [revoked] { revoked->store(true, std::memory_order_release); });
    if (!access.ok()) return host_.OnSliceDone(slice, SliceEnd::kRefused, &access.error());
    if (slice.view) {
      slice.pin = std::make_unique<LocalPin>(std::move(access).value(), std::move(revoked));
      return host_.OnSliceDone(slice, SliceEnd::kOk, nullptr);
    }
    std::byte* remote = (*access)->memory.data();
    const uint64_t done = HashedCopy(
        write ? remote : slice.memory, write ? slice.memory : remote, slice.length, slice.op_offset,
        [&] { return !revoked->load(std::memory_order_acquire); },
        [&](uint64_t offset, uint64_t length, uint64_t sum) { host_.OnHashed(slice, offset, length, sum); });
    access->reset();
    if (done == slice.length) return host_.OnSliceDone(slice, SliceEnd::kOk, nullptr);
    const Error error(ErrorCode::kStalePut, "the store has ended this use of the range");
    host_.OnSliceDone(slice, SliceEnd::kRefused, &error);
  }

  Target& target_;
  const PeerIdentity peer_;
  RailHost& host_;
  std::atomic<bool> closed_{false};
};

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(Target* target) : target_(*target) {}
  TransportKind kind() const override { return TransportKind::kLocal; }
  TransportLimits limits() const override { return {.max_rails = 1}; }
  bool can_view() const override { return true; }
  bool Reaches(const PeerAddress& address) const override {
    return address.incarnation == target_.incarnation() ||
           (address.data_address.empty() && address.data_socket.empty());
  }
  Result<std::shared_ptr<Rail>> Open(const OpenRequest& request, RailHost* host) override {
    const Incarnation expected = request.address.incarnation;
    if (expected && expected != target_.incarnation()) {
      target_.CountRefusal(ErrorCode::kStaleIncarnation);
      return Error(ErrorCode::kStaleIncarnation, fmt::format("this is incarnation {:016x}, not {:016x}",
                                                             target_.incarnation().value, expected.value));
    }
    TIERCEL_ASSIGN(PeerIdentity peer, target_.Authenticate(request.ticket, "local"));
    return std::shared_ptr<Rail>(std::make_shared<LocalRail>(&target_, std::move(peer), host));
  }

 private:
  Target& target_;
};

}  // namespace

std::unique_ptr<Transport> MakeTransport(Target* target) { return std::make_unique<LocalTransport>(target); }

}  // namespace tiercel::transfer::local
