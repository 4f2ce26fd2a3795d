// A store's target over segments of real memory, with grants that a master could have given.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "server/node/store_target.h"
#include "tiers/segment.h"

namespace tiercel::node {

// A memfd, mapped.
class TestSegment final : public tiers::Segment {
 public:
  TestSegment(uint32_t id, uint32_t epoch, uint64_t size)
      : name_("test-" + std::to_string(id)), ref_{id, epoch}, size_(size) {
    memory_ = UniqueFd(memfd_create("tiercel-test", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(memory_.get(), static_cast<off_t>(size)), 0);
    void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
    EXPECT_NE(base, MAP_FAILED);
    mapping_ = Mapping(base, size);
  }
  Tier tier() const override { return Tier::kDram; }
  const std::string& name() const override { return name_; }
  SegmentRef ref() const override { return ref_; }
  uint64_t size() const override { return size_; }
  std::byte* base() const override { return mapping_.data(); }
  int file() const override { return memory_.get(); }
  Result<UniqueFd> ShareReadOnly() const override {
    if (!shared) return Error(ErrorCode::kNoPerm, "not shared in this test");
    return memory_.Duplicate();
  }
  bool huge_pages() const override { return false; }

  bool shared = true;

 private:
  const std::string name_;
  const SegmentRef ref_;
  const uint64_t size_;
  UniqueFd memory_;
  Mapping mapping_;
};

inline constexpr uint64_t kUser = 11;
inline const Incarnation kTestStore{0x9f3c20aa};

inline GrantKey TestKey(uint32_t id) {
  GrantKey key;
  key.id = id;
  key.key.fill(std::byte{0x5A});
  return key;
}

inline Grant MakeGrant(Right right, Version version, SegmentRef place, ExtentList extents, int64_t expiry_ms) {
  Grant grant;
  grant.right = right;
  grant.user = kUser;
  grant.version = version;
  grant.store = kTestStore;
  grant.place = place;
  grant.extents = std::move(extents);
  grant.expiry_ms = expiry_ms;
  Seal(TestKey(1), &grant);
  return grant;
}

class StoreFixture : public testing::Test {
 protected:
  static constexpr uint64_t kSegmentBytes = 1 << 20;
  using Kind = transfer::AccessRequest::Kind;
  using AccessPtr = std::unique_ptr<transfer::Access>;

  explicit StoreFixture(StoreTargetOptions options = {}) {
    options.incarnation = kTestStore;
    options.clock = &clock_;
    target_ = std::make_unique<StoreTarget>(options);
    auto segment = std::make_unique<TestSegment>(2, 41, kSegmentBytes);
    segment_ = segment.get();
    EXPECT_TRUE(target_->AddSegment(std::move(segment)).ok());
    target_->SetKeys({{TestKey(1)}, {TestKey(1)}});
    target_->SetMasterTime(0, clock_.Now().boot_ms);
    target_->HeardMaster(clock_.Now().boot_ms);
  }

  Result<AccessPtr> Admit(Kind kind, uint64_t version, Extent range, std::function<void()> revoke = [] {}) {
    return AdmitWithin(kind, version, ExtentList(range), range, std::move(revoke));
  }
  // `granted`: all of the replica; `range`: the part that this operation touches.
  Result<AccessPtr> AdmitWithin(
      Kind kind, uint64_t version, const ExtentList& granted, Extent range, std::function<void()> revoke = [] {}) {
    const Grant grant = MakeGrant(kind == Kind::kWrite ? Right::kWrite : Right::kRead, Version{version}, place_,
                                  granted, 1'000'000'000);
    const transfer::AccessRequest request{kind, place_, range.offset, range.length, &grant};
    return target_->Admit(request, peer_, std::move(revoke));
  }
  ErrorCode CodeOf(const Result<AccessPtr>& admitted) {
    return admitted.ok() ? ErrorCode::kInternal : admitted.error().code();
  }
  std::vector<Version> TakeClosed() {
    std::vector<Version> closed;
    target_->TakeClosed(&closed);
    return closed;
  }
  std::vector<Extent> TakeUnpinned() {
    std::vector<StoreTarget::Unpinned> unpinned;
    target_->TakeUnpinned(&unpinned);
    std::vector<Extent> ranges;
    for (const auto& u : unpinned) ranges.push_back(u.range);
    return ranges;
  }
  uint64_t Refusals(ErrorCode code) { return target_->Figures().refusals[static_cast<size_t>(code)]; }
  void Close(uint64_t put) {
    const Version version{put};
    target_->ClosePuts({&version, 1});
  }

  ManualClock clock_;
  std::unique_ptr<StoreTarget> target_;
  TestSegment* segment_ = nullptr;
  SegmentRef place_{2, 41};
  transfer::PeerIdentity peer_{.user = kUser, .client = 5, .address = "test"};
};

}  // namespace tiercel::node
