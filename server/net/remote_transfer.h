// RemoteTransfer: one asynchronous read or write of another store's bytes, with the memory it uses.
//
// Started in a loop; its end is posted back to the loop, where the session is looked up by id, so that a session may
// go away meanwhile: memory and handle live on until the port has let go of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "server/core/payload_port.h"
#include "server/net/worker.h"

namespace tiercel::net {

class RemoteTransfer {
 public:
  explicit RemoteTransfer(size_t bytes) : size_(bytes), memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}

  std::span<std::byte> memory() { return {memory_.get(), size_}; }
  // Set in the loop once the transfer has ended.
  const std::optional<Status>& ended() const { return ended_; }

  // In the loop. The session is told by OnTransfer.
  static void Read(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker, core::ConnectionId session,
                   core::PayloadPort* port, const core::RemotePlace& place, uint64_t offset, size_t bytes);
  static void Write(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker, core::ConnectionId session,
                    core::PayloadPort* port, const core::RemotePlace& place, uint64_t offset, size_t bytes);
  // After the loop has been joined: cancels and waits.
  void Abandon() { handle_.reset(); }

  static constexpr int64_t kTimeoutMs = 10'000;

 private:
  static core::PayloadPort::Done OnDone(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker,
                                        core::ConnectionId session);

  const size_t size_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<core::PayloadPort::Transfer> handle_;
  std::optional<Status> ended_;
};

}  // namespace tiercel::net
