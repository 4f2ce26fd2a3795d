// Payload: how the front end reaches bytes: segments of this process directly, those of other stores through the
// transfer engine.
//
// Threads: everything is thread-safe; FindLocal takes no lock. The engine is made when it is first needed. A
// transfer's callback runs on one of the engine's threads, on the thread that destroys its handle, or, when nothing
// could be started, before Read or Write returns.
// Bounds: `max_transfers` at a time (beyond: kRetry), kMaxPeers remembered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "server/core/payload_port.h"
#include "server/node/store_target.h"
#include "tiercel/result.h"
#include "transfer/engine.h"

namespace tiercel::node {

struct PayloadOptions {
  StoreTarget* local = nullptr;  // this process's store, when it has one; outlives the port
  std::string host;              // of this process: only stores of the same host are reached by their data socket
  // With this source of tickets. Transfers are submitted from event loops: an engine whose Submit waits for
  // admission would hold them up.
  std::function<Result<std::unique_ptr<transfer::Engine>>(transfer::Engine::TicketSource)> make_engine;
  transfer::Engine::TicketSource tickets;
  uint32_t max_transfers = 4096;
};

struct PayloadFigures {
  uint64_t transfers_now = 0, transfers_refused = 0;
  uint64_t reads = 0, writes = 0, failed = 0;
};

class Payload final : public core::PayloadPort {
 public:
  static constexpr size_t kMaxPeers = 4096;

  explicit Payload(PayloadOptions options);
  ~Payload() override;  // REQUIRES: no Transfer and no LocalWrite is left

  const core::LocalSegment* FindLocal(Incarnation store, SegmentRef place) const override;
  Result<LocalWrite> BeginLocalWrite(SegmentRef place, Version put, const ExtentList& extents) override;
  std::unique_ptr<Transfer> Read(const core::RemotePlace& place, uint64_t offset, std::span<std::byte> memory,
                                 int64_t timeout_ms, Done done) override;
  std::unique_ptr<Transfer> Write(const core::RemotePlace& place, uint64_t offset, std::span<const std::byte> memory,
                                  int64_t timeout_ms, Done done) override;
  PayloadFigures Figures() const;

 protected:
  void EndLocalWrite(SegmentRef place, Version put, const ExtentList& extents) override;

 private:
  class RunningTransfer;
  struct Peer {
    transfer::PeerHandle handle;
    std::string data_address, data_socket;
  };

  std::unique_ptr<Transfer> Start(transfer::OpKind kind, const core::RemotePlace& place, uint64_t offset,
                                  std::span<std::byte> memory, int64_t timeout_ms, Done done);
  Result<std::unique_ptr<transfer::Batch>> Submit(transfer::OpKind kind, const core::RemotePlace& place,
                                                  uint64_t offset, std::span<std::byte> memory, int64_t timeout_ms);
  Result<transfer::Engine*> EngineOnce();
  transfer::PeerHandle PeerOf(transfer::Engine* engine, const core::StoreInfo& store);

  const PayloadOptions options_;
  std::mutex mu_;
  std::unique_ptr<transfer::Engine> engine_;
  std::unordered_map<uint64_t, Peer> peers_;  // by incarnation
  std::atomic<uint64_t> running_{0}, refused_{0}, reads_{0}, writes_{0}, failed_{0};
};

// The operations that move [offset, offset + memory.size()) of an object whose bytes lie in the grant's extents end
// to end: one an extent. kOutOfRange when the extents do not hold that much.
Result<std::vector<transfer::Operation>> CutAtExtents(transfer::OpKind kind, transfer::PeerHandle peer,
                                                      const std::shared_ptr<const Grant>& grant, uint64_t offset,
                                                      std::span<std::byte> memory);

}  // namespace tiercel::node
