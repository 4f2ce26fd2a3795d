#include "server/core/put_table.h"

namespace tiercel::core {

uint32_t PutTable::Allocate() {
  const uint32_t slot = puts_.Allocate();
  Put& put = puts_[slot];
  std::vector<PutReplica> replicas = std::move(put.replicas);  // keeps its memory
  replicas.clear();
  put = Put();
  put.replicas = std::move(replicas);
  return slot;
}

void PutTable::Free(uint32_t slot) { puts_.Free(slot); }

void PutTable::Enter(uint32_t slot) {
  Put& put = puts_[slot];
  by_version_[put.version] = slot;
  uint32_t& head = by_hash_[put.hash];
  put.same_hash = head;
  head = slot;
  Connection& connection = connections_[put.connection];
  put.connection_previous = 0;
  put.connection_next = connection.first;
  if (connection.first != 0) puts_[connection.first].connection_previous = slot;
  connection.first = slot;
  ++connection.count;
  LinkNewest(slot);
}

void PutTable::Leave(uint32_t slot) {
  Put& put = puts_[slot];
  if (put.orphan) --orphans_;
  TIERCEL_CHECK(by_version_.Erase(put.version));
  uint32_t* at = by_hash_.Find(put.hash);
  if (*at == slot && put.same_hash == 0) {
    by_hash_.Erase(put.hash);
  } else {
    while (*at != slot) at = &puts_[*at].same_hash;
    *at = put.same_hash;
  }
  if (put.connection_next != 0) puts_[put.connection_next].connection_previous = put.connection_previous;
  if (put.connection_previous != 0) puts_[put.connection_previous].connection_next = put.connection_next;
  Connection& connection = *connections_.Find(put.connection);
  if (put.connection_previous == 0) connection.first = put.connection_next;
  if (--connection.count == 0) connections_.Erase(put.connection);
  UnlinkOrder(slot);
}

void PutTable::LinkNewest(uint32_t slot) {
  Put& put = puts_[slot];
  put.newer = 0;
  put.older = newest_;
  if (newest_ != 0) puts_[newest_].newer = slot;
  newest_ = slot;
  if (oldest_ == 0) oldest_ = slot;
}

void PutTable::UnlinkOrder(uint32_t slot) {
  const Put& put = puts_[slot];
  (put.older != 0 ? puts_[put.older].newer : oldest_) = put.newer;
  (put.newer != 0 ? puts_[put.newer].older : newest_) = put.older;
}

void PutTable::Touch(uint32_t slot, int64_t now_ms) {
  puts_[slot].last_sign_ms = now_ms;
  if (slot == newest_) return;
  UnlinkOrder(slot);
  LinkNewest(slot);
}

uint32_t PutTable::FindVersion(uint64_t version) const {
  const uint32_t* slot = by_version_.Find(version);
  return slot == nullptr ? 0 : *slot;
}

uint32_t PutTable::FirstOf(ConnectionId connection) const {
  const Connection* c = connections_.Find(connection);
  return c == nullptr ? 0 : c->first;
}

uint32_t PutTable::CountOf(ConnectionId connection) const {
  const Connection* c = connections_.Find(connection);
  return c == nullptr ? 0 : c->count;
}

void PutTable::Remember(const Ended& ended) {
  const uint64_t at = ended.version % kRemembered;
  std::unique_ptr<Ended[]>& chunk = ended_[at / kEndedChunk];
  if (chunk == nullptr) {
    chunk = std::make_unique<Ended[]>(kEndedChunk);
    ++ended_chunks_;
  }
  chunk[at % kEndedChunk] = ended;
}

const PutTable::Ended* PutTable::FindEnded(uint64_t version) const {
  const uint64_t at = version % kRemembered;
  const std::unique_ptr<Ended[]>& chunk = ended_[at / kEndedChunk];
  if (chunk == nullptr || chunk[at % kEndedChunk].version != version) return nullptr;
  return &chunk[at % kEndedChunk];
}

void PutTable::ForgetEnded(uint64_t version) {
  if (FindEnded(version) != nullptr) ended_[version % kRemembered / kEndedChunk][version % kEndedChunk] = Ended();
}

uint64_t PutTable::memory_bytes() const {
  return puts_.memory_bytes() + by_version_.memory_bytes() + by_hash_.memory_bytes() + connections_.memory_bytes() +
         ended_chunks_ * kEndedChunk * sizeof(Ended);
}

}  // namespace tiercel::core
