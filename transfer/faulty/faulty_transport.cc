#include "transfer/faulty/faulty_transport.h"

#include <algorithm>

#include "base/check.h"

namespace tiercel::transfer::faulty {

// Stands between the engine and the wrapped rail in both directions: the engine sees this rail, the wrapped rail
// sees this host.
class FaultyRail final : public Rail, public RailHost, public std::enable_shared_from_this<FaultyRail> {
 public:
  FaultyRail(std::shared_ptr<Script> script, RailHost* host) : script_(std::move(script)), host_(*host) {}
  void Wrap(std::shared_ptr<Rail> inner) { inner_ = std::move(inner); }

  // ---- Rail
  int fd() const override { return inner_->fd(); }
  void Start() override { inner_->Start(); }
  void Post(std::span<Slice* const> slices) override {
    for (Slice* slice : slices) {
      Script::Fate fate = Script::Fate::kPass;
      Error error(ErrorCode::kUnreachable, "");
      {
        std::lock_guard lock(script_->mu_);
        const Script::Posted posted{slice->kind, slice->memory, slice->offset, slice->length};
        if (script_->fail_posts_) {
          fate = Script::Fate::kFail;
          error = *script_->fail_posts_;
        } else if (script_->on_post_) {
          fate = script_->on_post_(posted, script_->posted_.size());
          error = script_->post_error_;
        }
        script_->posted_.push_back(posted);
        if (fate == Script::Fate::kHold && closed_) fate = Script::Fate::kPass;
        if (fate == Script::Fate::kHold) script_->held_.push_back({shared_from_this(), slice, slice->serial});
      }
      if (fate == Script::Fate::kFail) host_.OnSliceDone(*slice, SliceEnd::kFailed, &error);
      if (fate == Script::Fate::kPass) inner_->Post({&slice, 1});
    }
  }
  // A held slice counts as on the wire: it is not withdrawn.
  bool Withdraw(const Slice* slice, uint64_t serial) override { return inner_->Withdraw(slice, serial); }
  void Flush() override { inner_->Flush(); }
  void OnEvents(bool readable, bool writable) override { inner_->OnEvents(readable, writable); }
  void Abandon(const Slice* slice, uint64_t serial, const Error& why) override {
    if (Slice* held = TakeHeld([&](const Script::Held& h) { return h.slice == slice && h.serial == serial; })) {
      return host_.OnSliceDone(*held, SliceEnd::kWithdrawn, nullptr);
    }
    inner_->Abandon(slice, serial, why);
  }
  void Close(const Error& error) override {
    {
      std::lock_guard lock(script_->mu_);
      closed_ = true;
    }
    while (Slice* held = TakeHeld([&](const Script::Held& h) { return h.rail.get() == this; })) {
      host_.OnSliceDone(*held, SliceEnd::kLost, &error);
    }
    inner_->Close(error);
  }
  void Finish(Slice& slice) override { inner_->Finish(slice); }

  // ---- RailHost
  void OnRailGreeting(Rail&) override { host_.OnRailGreeting(*this); }
  void OnRailUp(Rail&, const RailInfo& info) override { host_.OnRailUp(*this, info); }
  void OnRailDown(Rail&, const Error& error) override {
    const auto self = shared_from_this();
    {
      std::lock_guard lock(script_->mu_);
      closed_ = true;
    }
    while (Slice* held = TakeHeld([&](const Script::Held& h) { return h.rail.get() == this; })) {
      host_.OnSliceDone(*held, SliceEnd::kLost, &error);
    }
    host_.OnRailDown(*this, error);
  }
  void OnSliceDone(Slice& slice, SliceEnd end, const Error* error) override { host_.OnSliceDone(slice, end, error); }
  void OnPiece(Slice& slice, uint64_t offset, std::span<const std::byte> piece) override {
    host_.OnPiece(slice, offset, piece);
  }
  void OnHashed(Slice& slice, uint64_t offset, uint64_t length, uint64_t sum) override {
    host_.OnHashed(slice, offset, length, sum);
  }
  void WantWrite(Rail&, bool want) override { host_.WantWrite(*this, want); }
  void Defer(Rail&, Slice& slice) override { host_.Defer(*this, slice); }

  void Deliver(Slice* slice, const std::optional<Error>& error) {
    if (error) return host_.OnSliceDone(*slice, SliceEnd::kFailed, &*error);
    inner_->Post({&slice, 1});
  }

 private:
  template <typename Matches>
  Slice* TakeHeld(Matches matches) {
    std::lock_guard lock(script_->mu_);
    const auto found = std::find_if(script_->held_.begin(), script_->held_.end(), matches);
    if (found == script_->held_.end()) return nullptr;
    Slice* slice = found->slice;
    const auto keep = std::move(found->rail);
    script_->held_.erase(found);
    return slice;
  }

  const std::shared_ptr<Script> script_;
  RailHost& host_;
  std::shared_ptr<Rail> inner_;
  bool closed_ = false;  // under the script's lock
};

class FaultyRegion final : public MemoryRegion {
 public:
  FaultyRegion(std::shared_ptr<Script> script, std::unique_ptr<MemoryRegion> inner)
      : script_(std::move(script)), inner_(std::move(inner)) {
    memory = inner_->memory;
    std::lock_guard lock(script_->mu_);
    ++script_->regions_;
  }
  ~FaultyRegion() override {
    std::lock_guard lock(script_->mu_);
    --script_->regions_;
  }
  MemoryRegion* inner() const { return inner_.get(); }

 private:
  const std::shared_ptr<Script> script_;
  const std::unique_ptr<MemoryRegion> inner_;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Script> script, TransportKind kind)
      : inner_(std::move(inner)), script_(std::move(script)), kind_(kind) {}

  TransportKind kind() const override { return kind_; }
  TransportLimits limits() const override {
    std::lock_guard lock(script_->mu_);
    TransportLimits limits = inner_->limits();
    if (script_->limits_.max_registration_bytes != 0) {
      limits.max_registration_bytes = script_->limits_.max_registration_bytes;
    }
    if (script_->limits_.remote_seam_bytes != 0) limits.remote_seam_bytes = script_->limits_.remote_seam_bytes;
    if (script_->limits_.max_rails != 0) limits.max_rails = script_->limits_.max_rails;
    return limits;
  }
  bool can_view() const override { return inner_->can_view(); }
  bool Reaches(const PeerAddress& address) const override { return inner_->Reaches(address); }

  Result<std::unique_ptr<MemoryRegion>> Register(std::span<std::byte> memory) override {
    {
      std::unique_lock lock(script_->mu_);
      const uint64_t count = script_->registrations_++;
      if (script_->hold_registrations_) {
        ++script_->waiting_registrations_;
        script_->changed_.notify_all();
        script_->changed_.wait(lock, [&] { return !script_->hold_registrations_; });
        --script_->waiting_registrations_;
      }
      if (script_->on_register_) {
        if (auto error = script_->on_register_(count)) return *error;
      }
    }
    TIERCEL_ASSIGN(std::unique_ptr<MemoryRegion> inner, inner_->Register(memory));
    return std::unique_ptr<MemoryRegion>(new FaultyRegion(script_, std::move(inner)));
  }
  // The wrapped transport's own: rails recognise their regions by type.
  Result<std::unique_ptr<MemoryRegion>> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }

  Result<std::shared_ptr<Rail>> Open(const OpenRequest& request, RailHost* host) override {
    {
      std::lock_guard lock(script_->mu_);
      const uint64_t count = script_->opens_++;
      if (script_->on_open_) {
        if (auto error = script_->on_open_(count)) return *error;
      }
    }
    auto rail = std::make_shared<FaultyRail>(script_, host);
    TIERCEL_ASSIGN(std::shared_ptr<Rail> inner, inner_->Open(request, rail.get()));
    rail->Wrap(std::move(inner));
    return std::shared_ptr<Rail>(std::move(rail));
  }

 private:
  const std::unique_ptr<Transport> inner_;
  const std::shared_ptr<Script> script_;
  const TransportKind kind_;
};

void Script::OnPost(std::function<Fate(const Posted&, uint64_t)> decide, Error error) {
  std::lock_guard lock(mu_);
  on_post_ = std::move(decide);
  post_error_ = std::move(error);
}

void Script::FailPosts(std::optional<Error> error) {
  std::lock_guard lock(mu_);
  fail_posts_ = std::move(error);
}

void Script::OnOpen(std::function<std::optional<Error>(uint64_t)> decide) {
  std::lock_guard lock(mu_);
  on_open_ = std::move(decide);
}

void Script::OnRegister(std::function<std::optional<Error>(uint64_t)> decide) {
  std::lock_guard lock(mu_);
  on_register_ = std::move(decide);
}

void Script::HoldRegistrations(bool hold) {
  std::lock_guard lock(mu_);
  hold_registrations_ = hold;
  changed_.notify_all();
}

void Script::SetLimits(const TransportLimits& limits) {
  std::lock_guard lock(mu_);
  limits_ = limits;
}

void Script::ReleaseHeld(std::optional<Error> error) {
  std::vector<Held> held;
  {
    std::lock_guard lock(mu_);
    held.swap(held_);
  }
  for (const Held& h : held) h.rail->Deliver(h.slice, error);
}

uint64_t Script::posts() const {
  std::lock_guard lock(mu_);
  return posted_.size();
}

std::vector<Script::Posted> Script::posted() const {
  std::lock_guard lock(mu_);
  return posted_;
}

uint64_t Script::opens() const {
  std::lock_guard lock(mu_);
  return opens_;
}

uint64_t Script::registrations() const {
  std::lock_guard lock(mu_);
  return registrations_;
}

uint64_t Script::regions() const {
  std::lock_guard lock(mu_);
  return regions_;
}

uint64_t Script::held() const {
  std::lock_guard lock(mu_);
  return held_.size();
}

void Script::WaitForHeldRegistration() {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return waiting_registrations_ > 0; });
}

std::unique_ptr<Transport> MakeTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Script> script,
                                         TransportKind kind) {
  return std::make_unique<FaultyTransport>(std::move(inner), std::move(script), kind);
}

}  // namespace tiercel::transfer::faulty
