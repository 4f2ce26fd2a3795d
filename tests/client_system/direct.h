// A client by hand: look-ups and put plans as the master gives them, and each replica read and written by itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/make_client.h"
#include "protocol/resp/descriptor.h"
#include "tests/client_system/cluster.h"
#include "transfer/engine.h"

namespace tiercel::test {

class Direct {
 public:
  // Speaks to the cluster's master; bytes move over this wire alone.
  Direct(const ClientOptions& options, TransportChoice wire);
  ~Direct();

  resp::Reply Call(const std::vector<std::string>& words);

  struct Found {
    Version version;  // of a plan: the put
    uint64_t size = 0, sum = 0;
    int64_t lease_ms = 0;
    std::vector<resp::ReplicaDescriptor> replicas;
  };
  std::optional<Found> Look(const std::string& key, int64_t lease_ms);  // nullopt: null
  Found Start(const std::vector<std::string>& put_start);
  static Found Parse(const resp::Reply& map);

  // The first bytes that lie in a replica's extents; kOk and its state tell.
  transfer::OpResult Read(const resp::ReplicaDescriptor& replica, std::span<std::byte> memory);
  // Bytes into a replica at this place of the value.
  transfer::OpResult Write(const resp::ReplicaDescriptor& replica, uint64_t at, std::span<const std::byte> bytes);

 private:
  transfer::OpResult Move(transfer::OpKind kind, const resp::ReplicaDescriptor& replica, uint64_t at,
                          std::span<std::byte> memory);
  transfer::PeerHandle Peer(const resp::ReplicaDescriptor& replica);

  const transfer::TransportMask mask_;
  std::unique_ptr<resp::Connection> connection_;
  std::shared_ptr<transfer::Engine> engine_;
};

// What lies in a replica's extents for this value: its bytes and, when it has several blocks, their sums.
std::vector<std::byte> StoredForm(std::span<const std::byte> value);

}  // namespace tiercel::test
