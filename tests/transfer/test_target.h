// A Target over memfds with all the checks of a real store, and hooks to look at and disturb it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/grant.h"
#include "transfer/target.h"

namespace tiercel::transfer {

class TestTarget final : public Target {
 public:
  explicit TestTarget(const Clock& clock, uint64_t incarnation = 0x1001);
  ~TestTarget() override;

  // ---- Target
  Incarnation incarnation() const override { return incarnation_; }
  int64_t GrantTimeMs() const override { return clock_.Now().boot_ms; }
  Result<PeerIdentity> Authenticate(const Ticket& ticket, const std::string& address) override;
  Result<std::unique_ptr<Access>> Admit(const AccessRequest& request, const PeerIdentity& peer,
                                        std::function<void()> revoke) override;
  Result<Share> ShareSegment(SegmentRef place, const PeerIdentity& peer) override;
  void CountRefusal(ErrorCode cause) override;

  // ---- for tests
  enum class Sharing { kSealed, kUnsealed, kShort, kRefused };
  std::span<std::byte> AddSegment(SegmentRef place, uint64_t size, Sharing sharing = Sharing::kSealed);
  void SetEpoch(uint32_t segment, uint32_t epoch);
  std::span<std::byte> memory(SegmentRef place);
  ino_t inode(SegmentRef place);

  static constexpr uint64_t kUser = 77;
  Ticket MakeTicket(uint64_t user = kUser, int64_t ttl_ms = 3'600'000) const;
  std::shared_ptr<Grant> MakeGrant(Right right, SegmentRef place, Extent range, uint64_t user = kUser,
                                   int64_t ttl_ms = 60'000, uint64_t version = 5) const;
  // Puts with this version are refused from now on; what is under way is revoked.
  void ClosePut(Version version);
  void RevokeAll();

  uint64_t refusals(ErrorCode cause) const;
  uint64_t refusals() const;
  int live() const { return live_; }
  uint64_t admitted() const { return admitted_; }
  uint64_t shares() const { return shares_; }
  // Called at the start of Admit, on the server's thread.
  void OnAdmit(std::function<void(const AccessRequest&)> hook);

 private:
  struct Segment {
    uint32_t epoch = 0;
    uint64_t size = 0;
    Sharing sharing{};
    UniqueFd file;
    Mapping mapping;
  };
  class TestAccess;
  Result<std::unique_ptr<Access>> Check(const AccessRequest& request, const PeerIdentity& peer,
                                        std::function<void()>& revoke);

  const Clock& clock_;
  const Incarnation incarnation_;
  const GrantKey key_;
  mutable std::mutex mu_;
  std::map<uint32_t, Segment> segments_;
  std::map<ErrorCode, uint64_t> refusals_;
  std::set<uint64_t> closed_puts_;
  std::set<TestAccess*> accesses_;
  std::function<void(const AccessRequest&)> hook_;
  std::atomic<int> live_{0};
  std::atomic<uint64_t> admitted_{0};
  std::atomic<uint64_t> shares_{0};
};

}  // namespace tiercel::transfer
