#include "transfer/shm/shm_transport.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transfer/shm/shm_rail.h"

namespace tiercel::transfer::shm {
namespace {

constexpr size_t kMaxKnown = 4096;  // lives of stores that this process remembers

// What the transport, its rails and its memory share; outlives each of them.
class Registry {
 public:
  std::shared_ptr<PeerSegments> SegmentsOf(Incarnation store) {
    std::lock_guard lock(mu_);
    std::erase_if(segments_, [](const auto& item) { return item.second.expired(); });
    std::weak_ptr<PeerSegments>& known = segments_[store.value];
    std::shared_ptr<PeerSegments> segments = known.lock();
    if (segments == nullptr) known = segments = std::make_shared<PeerSegments>();
    return segments;
  }
  void AddRail(const std::shared_ptr<ShmRail>& rail) {
    std::lock_guard lock(mu_);
    std::erase_if(rails_, [](const auto& weak) { return weak.expired(); });
    rails_.push_back(rail);
  }
  void MemoryEnds(uint32_t id) {
    std::vector<std::shared_ptr<ShmRail>> rails;
    {
      std::lock_guard lock(mu_);
      for (const auto& weak : rails_) {
        if (auto rail = weak.lock()) rails.push_back(std::move(rail));
      }
    }
    for (const auto& rail : rails) rail->ForgetMemory(id);
  }
  void SetKnown(Incarnation store) {
    std::lock_guard lock(mu_);
    if (known_.size() >= kMaxKnown) known_.clear();
    known_.insert(store.value);
  }
  bool Known(Incarnation store) {
    std::lock_guard lock(mu_);
    return known_.contains(store.value);
  }

 private:
  std::mutex mu_;
  std::unordered_map<uint64_t, std::weak_ptr<PeerSegments>> segments_;
  std::vector<std::weak_ptr<ShmRail>> rails_;
  std::unordered_set<uint64_t> known_;  // stores that have been connected to
};

class ShmTransport final : public Transport {
 public:
  TransportKind kind() const override { return TransportKind::kShm; }
  bool can_view() const override { return true; }
  bool Reaches(const PeerAddress& address) const override { return !address.data_socket.empty(); }

  Result<std::unique_ptr<MemoryRegion>> Allocate(size_t bytes) override {
    TIERCEL_ASSIGN(std::unique_ptr<SharedMemory> memory,
                   SharedMemory::Create(bytes, [registry = registry_](uint32_t id) { registry->MemoryEnds(id); }));
    return std::unique_ptr<MemoryRegion>(std::move(memory));
  }

  Result<std::shared_ptr<Rail>> Open(const OpenRequest& request, RailHost* host) override {
    const std::string& path = request.address.data_socket;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) {
      return Error(ErrorCode::kNoDevice, fmt::format("the path of a data socket has {} bytes, at most {}", path.size(),
                                                     sizeof(address.sun_path) - 1));
    }
    std::memcpy(address.sun_path, path.data(), path.size());
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return SystemError("create a socket for " + path, errno);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      const int error = errno;
      const Incarnation store = request.address.incarnation;
      // On one host a socket that nobody listens on any more belongs to a process that has ended.
      if ((error == ECONNREFUSED || error == ENOENT) && registry_->Known(store)) {
        return Error(ErrorCode::kStaleIncarnation,
                     fmt::format("{}: incarnation {:016x} has ended", request.address.name, store.value));
      }
      Error failed = SystemError("connect to " + path, error);
      return Error(ErrorCode::kUnreachable, failed.message());
    }
    const Incarnation store = request.address.incarnation;
    auto rail = std::make_shared<ShmRail>(
        std::move(socket), request, path, registry_->SegmentsOf(store),
        [registry = registry_, store] { registry->SetKnown(store); }, host);
    registry_->AddRail(rail);
    return std::shared_ptr<Rail>(std::move(rail));
  }

 private:
  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

}  // namespace

std::unique_ptr<Transport> MakeTransport() { return std::make_unique<ShmTransport>(); }

}  // namespace tiercel::transfer::shm
