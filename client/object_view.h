// A value in shared memory: pinned pieces of a store's segment, after they were verified.
#pragma once

#include <memory>
#include <vector>

#include "client/messages.h"
#include "client/store_directory.h"
#include "tiercel/client.h"
#include "transfer/engine.h"

namespace tiercel::client {

class PinnedView final : public ObjectView {
 public:
  // Pins the value's bytes (without the trailer) at the store. kNoDevice when the store is not on this host.
  static Result<std::unique_ptr<PinnedView>> Pin(std::shared_ptr<transfer::Engine> engine,
                                                 const StoreDirectory::Peer& peer, const Found& found,
                                                 const resp::ReplicaDescriptor& replica, int64_t timeout_ms);

  uint64_t size() const override { return size_; }
  Version version() const override { return version_; }
  bool alive() const override;
  std::span<const std::span<const std::byte>> pieces() const override { return pieces_; }

  // Block sums of the pinned bytes as they are now.
  std::vector<uint64_t> Sums() const;

 private:
  PinnedView(std::shared_ptr<transfer::Engine> engine, Version version, uint64_t size)
      : engine_(std::move(engine)), version_(version), size_(size) {}

  std::shared_ptr<transfer::Engine> engine_;  // views may outlive their client; destroyed last
  const Version version_;
  const uint64_t size_;
  std::vector<std::unique_ptr<transfer::Engine::View>> pins_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace tiercel::client
