// Node: the store role of a process: its segments, its data servers, its conversation with the master.
//
// Whoever builds it names the concrete tiers and transports: it hands in segments, makes servers over target(), and
// hands those in too. Order of ends: the front end's own writes first, then Stop, then the Node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/node/control.h"
#include "server/node/store_target.h"
#include "tiercel/result.h"
#include "tiers/segment.h"
#include "transfer/target.h"

namespace tiercel::node {

struct NodeOptions {
  std::string store_name;
  std::string host;         // this machine, as replicas are spread over
  std::string storage_id;   // empty: random, for stores whose contents do not outlive the process
  Incarnation incarnation;  // none: random
  uint32_t proto_min = 1, proto_max = 1;
  std::vector<MasterEndpoint> masters;
  std::string data_advertise;  // empty: found
  uint64_t view_max_bytes = UINT64_MAX;
  int64_t store_timeout_ms = 10'000;
  const Clock* clock = nullptr;  // nullptr: the machine's
};

struct NodeFigures {
  std::string store_name;
  Incarnation incarnation;
  ControlFigures control;
  StoreTargetFigures target;
  int64_t heard_ms_ago = -1;  // -1: never
  uint64_t segments = 0, segment_bytes = 0;
};

class Node {
 public:
  // kInvalid: a name that is empty or has spaces, no master, segment ids that repeat, a wildcard to advertise.
  static Result<std::unique_ptr<Node>> Create(NodeOptions options,
                                              std::vector<std::unique_ptr<tiers::Segment>> segments);
  ~Node();  // stops without grace
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  StoreTarget* target() { return target_.get(); }
  Incarnation incarnation() const { return target_->incarnation(); }

  // Before Start. Every server serves target().
  void AddDataServer(std::unique_ptr<transfer::Server> server);
  void SetSocketServer(std::unique_ptr<transfer::Server> server, std::string path);

  // Starts the conversation with the master; kInvalid when there is no address to announce. Does not wait.
  Status Start();
  bool WaitServing(int64_t timeout_ms) { return control_ != nullptr && control_->WaitServing(timeout_ms); }

  // No new put; those that are open may end within `grace_ms`; then the store leaves its master, cuts what is left
  // and stops its servers. Idempotent.
  void Stop(int64_t grace_ms);

  NodeFigures Figures() const;
  std::vector<std::string> data_addresses() const;  // as bound

 private:
  Node(NodeOptions options, std::unique_ptr<StoreTarget> target);
  Result<std::string> AddressFor(const MasterEndpoint& master) const;

  const NodeOptions options_;
  const Clock& clock_;
  const std::unique_ptr<StoreTarget> target_;  // outlives all below
  std::vector<std::unique_ptr<transfer::Server>> servers_;
  std::unique_ptr<transfer::Server> socket_server_;
  std::string socket_path_;
  std::unique_ptr<Control> control_;
  bool stopped_ = false;
};

}  // namespace tiercel::node
