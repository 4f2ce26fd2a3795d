// Which stores there are and how the engine reaches them: a copy of STORES, asked for again whenever a replica
// names a store or an incarnation that is not in it, or one that had no address yet. Thread-safe; at most one question
// is under way.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/control.h"
#include "client/messages.h"
#include "transfer/engine.h"

namespace tiercel::client {

class StoreDirectory {
 public:
  struct Peer {
    transfer::PeerHandle handle;
    bool same_host = false;  // can be reached by shared memory
  };

  // Both must outlive this.
  StoreDirectory(Control* control, transfer::Engine* engine, std::string host_id)
      : control_(control), engine_(engine), host_id_(std::move(host_id)) {}

  // kStaleIncarnation when the master does not know this life of the store either.
  Result<Peer> Find(std::string_view name, Incarnation incarnation, const Deadline& deadline);
  // Asks the master and renews the copy.
  Result<std::vector<StoreStat>> Ask(const Deadline& deadline);
  void Forget();

 private:
  bool FindKnown(std::string_view name, Incarnation incarnation, Peer* out);

  Control* const control_;
  transfer::Engine* const engine_;
  const std::string host_id_;
  std::mutex asking_;  // held over a question, so that those who wait find its answer; taken before mutex_
  std::mutex mutex_;   // guards peers_ and asked_
  std::unordered_map<uint64_t, std::pair<std::string, Peer>> peers_;  // by incarnation
  uint64_t asked_ = 0;                                                // answers so far
};

}  // namespace tiercel::client
