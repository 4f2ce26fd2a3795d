#include "client/store_directory.h"

#include <fmt/format.h>

#include "client/host.h"

namespace tiercel::client {

bool StoreDirectory::FindKnown(std::string_view name, Incarnation incarnation, Peer* out) {
  std::lock_guard lock(mutex_);
  auto found = peers_.find(incarnation.value);
  if (found == peers_.end() || found->second.first != name) return false;
  *out = found->second.second;
  return true;
}

Result<StoreDirectory::Peer> StoreDirectory::Find(std::string_view name, Incarnation incarnation,
                                                  const Deadline& deadline) {
  Peer peer;
  if (FindKnown(name, incarnation, &peer)) return peer;
  uint64_t asked_before;
  {
    std::lock_guard lock(mutex_);
    asked_before = asked_;
  }
  std::lock_guard asking(asking_);
  bool answered_meanwhile;
  {
    std::lock_guard lock(mutex_);
    answered_meanwhile = asked_ != asked_before;
  }
  if (!answered_meanwhile) {
    auto stores = Ask(deadline);
    if (!stores.ok()) return std::move(stores).error();
  }
  if (FindKnown(name, incarnation, &peer)) return peer;
  return Error(ErrorCode::kStaleIncarnation,
               fmt::format("the master knows no store {} with incarnation {:016x}", name, incarnation.value));
}

Result<std::vector<StoreStat>> StoreDirectory::Ask(const Deadline& deadline) {
  const std::string_view words[] = {"STORES"};
  TIERCEL_ASSIGN(resp::Reply reply, control_->Call(words, deadline, Control::Again::kYes));
  TIERCEL_ASSIGN(std::vector<StoreStat> stores, ParseStores(reply));
  decltype(peers_) fresh;
  for (const StoreStat& stat : stores) {
    // Known to a restarted master and not back yet. It will be under this same incarnation, with its addresses: to keep
    // it without them would make it unreachable for good.
    if (stat.address.empty() && stat.socket.empty()) continue;
    const bool same_host = OnThisHost(host_id_, stat.host, stat.socket);
    Peer peer{engine_->AddPeer({.name = stat.name,
                                .incarnation = stat.incarnation,
                                .data_address = stat.address,
                                .data_socket = same_host ? stat.socket : std::string()}),
              same_host};
    fresh.emplace(stat.incarnation.value, std::pair(stat.name, peer));
  }
  std::lock_guard lock(mutex_);
  peers_ = std::move(fresh);
  ++asked_;
  return stores;
}

void StoreDirectory::Forget() {
  std::lock_guard lock(mutex_);
  peers_.clear();
}

}  // namespace tiercel::client
