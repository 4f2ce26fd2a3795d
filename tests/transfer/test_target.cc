#include "tests/transfer/test_target.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/check.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace tiercel::transfer {

class TestTarget::TestAccess final : public Access {
 public:
  TestAccess(TestTarget* target, const AccessRequest& request, Version version, std::function<void()> revoke_now)
      : target_(*target),
        segment(request.place.segment),
        range{request.offset, request.length},
        write(request.kind == AccessRequest::Kind::kWrite),
        view(request.kind == AccessRequest::Kind::kView),
        put(version),
        revoke(std::move(revoke_now)) {}
  ~TestAccess() override {
    std::lock_guard lock(target_.mu_);
    target_.accesses_.erase(this);
    --target_.live_;
  }

  TestTarget& target_;
  const uint32_t segment;
  const Extent range;
  const bool write;
  const bool view;
  const Version put;
  std::function<void()> revoke;
};

TestTarget::TestTarget(const Clock& clock, uint64_t incarnation)
    : clock_(clock), incarnation_{incarnation}, key_{.id = 3, .key = {std::byte{9}, std::byte{1}, std::byte{7}}} {}

TestTarget::~TestTarget() { TIERCEL_CHECK(live_ == 0, "every access ends before its target"); }

std::span<std::byte> TestTarget::AddSegment(SegmentRef place, uint64_t size, Sharing sharing) {
  return AddAt(place, size, sharing, nullptr);
}

std::pair<std::span<std::byte>, std::span<std::byte>> TestTarget::AddAdjacentSegments(SegmentRef first,
                                                                                      uint64_t first_size,
                                                                                      SegmentRef second,
                                                                                      uint64_t second_size) {
  void* both = mmap(nullptr, first_size + second_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TIERCEL_CHECK(both != MAP_FAILED);
  return {AddAt(first, first_size, Sharing::kSealed, both),
          AddAt(second, second_size, Sharing::kSealed, static_cast<std::byte*>(both) + first_size)};
}

std::span<std::byte> TestTarget::AddAt(SegmentRef place, uint64_t size, Sharing sharing, void* where) {
  UniqueFd file(memfd_create("test-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  TIERCEL_CHECK(file && ftruncate(file.get(), static_cast<off_t>(size)) == 0);
  void* p = mmap(where, size, PROT_READ | PROT_WRITE, MAP_SHARED | (where != nullptr ? MAP_FIXED : 0), file.get(), 0);
  TIERCEL_CHECK(p != MAP_FAILED);
  if (sharing == Sharing::kSealed || sharing == Sharing::kShort) {
    TIERCEL_CHECK(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0);
  }
  std::lock_guard lock(mu_);
  Segment& s = segments_[place.segment];
  s.epoch = place.epoch;
  s.size = size;
  s.sharing = sharing;
  s.file = std::move(file);
  s.mapping = Mapping(p, size);
  return s.mapping.bytes();
}

void TestTarget::SetEpoch(uint32_t segment, uint32_t epoch) {
  std::lock_guard lock(mu_);
  segments_.at(segment).epoch = epoch;
}

std::span<std::byte> TestTarget::memory(SegmentRef place) {
  std::lock_guard lock(mu_);
  return segments_.at(place.segment).mapping.bytes();
}

ino_t TestTarget::inode(SegmentRef place) {
  std::lock_guard lock(mu_);
  struct stat file{};
  TIERCEL_CHECK(fstat(segments_.at(place.segment).file.get(), &file) == 0);
  return file.st_ino;
}

Ticket TestTarget::MakeTicket(uint64_t user, int64_t ttl_ms) const {
  Ticket ticket{.user = user, .client = 12, .expiry_ms = clock_.Now().boot_ms + ttl_ms};
  Seal(key_, &ticket);
  return ticket;
}

std::shared_ptr<Grant> TestTarget::MakeGrant(Right right, SegmentRef place, Extent range, uint64_t user, int64_t ttl_ms,
                                             uint64_t version) const {
  auto grant = std::make_shared<Grant>();
  grant->right = right;
  grant->user = user;
  grant->version = {version};
  grant->store = incarnation_;
  grant->place = place;
  grant->extents = ExtentList(range);
  grant->expiry_ms = clock_.Now().boot_ms + ttl_ms;
  Seal(key_, grant.get());
  return grant;
}

Result<PeerIdentity> TestTarget::Authenticate(const Ticket& ticket, const std::string& address) {
  if (ticket.key_id != key_.id || !MacIsRight(key_, ticket) || ticket.expiry_ms < clock_.Now().boot_ms) {
    CountRefusal(ErrorCode::kUnauthenticated);
    return Error(ErrorCode::kUnauthenticated, "the ticket is not good here");
  }
  return PeerIdentity{.user = ticket.user, .client = ticket.client, .address = address};
}

Result<std::unique_ptr<Access>> TestTarget::Admit(const AccessRequest& request, const PeerIdentity& peer,
                                                  std::function<void()> revoke) {
  std::function<void(const AccessRequest&)> hook;
  {
    std::lock_guard lock(mu_);
    hook = hook_;
  }
  if (hook) hook(request);
  auto access = Check(request, peer, revoke);
  if (!access.ok()) CountRefusal(access.error().code());
  return access;
}

Result<std::unique_ptr<Access>> TestTarget::Check(const AccessRequest& request, const PeerIdentity& peer,
                                                  std::function<void()>& revoke) {
  std::lock_guard lock(mu_);
  const auto found = segments_.find(request.place.segment);
  if (found == segments_.end()) return Error(ErrorCode::kUnknownSegment, "no such segment");
  Segment& segment = found->second;
  if (request.place.epoch != segment.epoch) return Error(ErrorCode::kOldEpoch, "old epoch");
  const auto inside = [&](uint64_t begin, uint64_t size) {
    return request.offset >= begin && request.offset - begin <= size &&
           request.length <= size - (request.offset - begin);
  };
  if (request.length == 0 || !inside(0, segment.size)) return Error(ErrorCode::kOutOfRange, "not in the segment");
  const Grant& g = *request.grant;
  const bool write = request.kind == AccessRequest::Kind::kWrite;
  if (g.key_id != key_.id || !MacIsRight(key_, g) || g.user != peer.user || g.store != incarnation_ ||
      g.place != request.place || g.right != (write ? Right::kWrite : Right::kRead)) {
    return Error(ErrorCode::kBadGrant, "the grant is not good for this");
  }
  bool covered = false;
  for (const Extent& e : g.extents) covered = covered || inside(e.offset, e.length);
  if (!covered) return Error(ErrorCode::kBadGrant, "not in the grant");
  if (g.expiry_ms < clock_.Now().boot_ms) return Error(ErrorCode::kGrantExpired, "the grant has expired");
  if (write && closed_puts_.contains(g.version.value)) return Error(ErrorCode::kStalePut, "the put is closed");
  for (const TestAccess* other : accesses_) {
    if (other->segment != request.place.segment || (!write && !other->write)) continue;
    if (other->range.offset < request.offset + request.length &&
        request.offset < other->range.offset + other->range.length) {
      return Error(ErrorCode::kInUse, "the range is in use");
    }
  }
  auto access = std::make_unique<TestAccess>(this, request, g.version, std::move(revoke));
  access->memory = segment.mapping.bytes().subspan(request.offset, request.length);
  access->file = segment.file.get();
  access->file_offset = request.offset;
  accesses_.insert(access.get());
  ++live_;
  ++admitted_;
  return std::unique_ptr<Access>(std::move(access));
}

Result<Target::Share> TestTarget::ShareSegment(SegmentRef place, const PeerIdentity&) {
  std::lock_guard lock(mu_);
  ++shares_;
  const auto found = segments_.find(place.segment);
  if (found == segments_.end()) return Error(ErrorCode::kUnknownSegment, "no such segment");
  const Segment& segment = found->second;
  if (segment.epoch != place.epoch) return Error(ErrorCode::kOldEpoch, "old epoch");
  if (segment.sharing == Sharing::kRefused) return Error(ErrorCode::kNoPerm, "this segment is not shared");
  const std::string path = "/proc/self/fd/" + std::to_string(segment.file.get());
  UniqueFd memory(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!memory) return SystemError("open a segment for reading", errno);
  const uint64_t size = segment.sharing == Sharing::kShort ? segment.size + 4096 : segment.size;
  return Share{.memory = std::move(memory), .size = size};
}

void TestTarget::CountRefusal(ErrorCode cause) {
  std::lock_guard lock(mu_);
  ++refusals_[cause];
}

uint64_t TestTarget::refusals(ErrorCode cause) const {
  std::lock_guard lock(mu_);
  const auto found = refusals_.find(cause);
  return found == refusals_.end() ? 0 : found->second;
}

uint64_t TestTarget::refusals() const {
  std::lock_guard lock(mu_);
  uint64_t sum = 0;
  for (const auto& [cause, count] : refusals_) sum += count;
  return sum;
}

void TestTarget::ClosePut(Version version) {
  std::lock_guard lock(mu_);
  closed_puts_.insert(version.value);
  for (TestAccess* access : accesses_) {
    if (access->write && access->put == version && access->revoke) std::exchange(access->revoke, nullptr)();
  }
}

void TestTarget::RevokeAll() {
  std::lock_guard lock(mu_);
  for (TestAccess* access : accesses_) {
    if (access->revoke) std::exchange(access->revoke, nullptr)();
  }
}

void TestTarget::OnAdmit(std::function<void(const AccessRequest&)> hook) {
  std::lock_guard lock(mu_);
  hook_ = std::move(hook);
}

}  // namespace tiercel::transfer
