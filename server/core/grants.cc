// Keys, grants, tickets.
//
// Every key is derived from one secret: a store's grant keys from its name, incarnation and the key's number, ticket
// keys from the number alone. A new number comes every hour, as a task for each store; a store's grants are
// sealed with it when that store has confirmed it, tickets when all have, and the key before stays good meanwhile.
#include <algorithm>
#include <cstring>

#include "server/core/impl.h"

namespace tiercel::core {
namespace {

GrantKey Derive(const SipKey& master_key, std::string_view label, uint64_t incarnation, uint32_t number) {
  std::vector<std::byte> message;
  const auto put = [&](const void* data, size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    message.insert(message.end(), bytes, bytes + n);
  };
  put(&number, sizeof(number));
  put(&incarnation, sizeof(incarnation));
  put(label.data(), label.size());
  GrantKey key;
  key.id = number;
  const Mac128 mac = SipHash24Mac(master_key, message);
  std::memcpy(key.key.data(), mac.data(), key.key.size());
  return key;
}

}  // namespace

GrantKey Master::Impl::DeriveStoreKey(const Store& store, uint32_t number) const {
  return Derive(master_key, "grant:" + store.info.name, store.info.incarnation.value, number);
}

GrantKey Master::Impl::DeriveTicketKey(uint32_t number) const { return Derive(master_key, "ticket", 0, number); }

void Master::Impl::FillKeys(std::vector<GrantKey>* grant_keys, std::vector<GrantKey>* ticket_keys, const Store& store,
                            uint32_t newest) const {
  for (uint32_t number = newest; number >= 1 && number + 2 > newest; --number) {
    grant_keys->push_back(DeriveStoreKey(store, number));
    ticket_keys->push_back(DeriveTicketKey(number));
  }
}

void Master::Impl::RotateKeys(Times now) {
  if (now.boot_ms - key_born_ms < kKeyLifeMs) return;
  key_born_ms = now.boot_ms;
  ++newest_key;
  for (Store& store : stores) {
    if (store.info.state == StoreInfo::State::kGone) continue;
    Task task;
    task.kind = WorkItem::Kind::kKeys;
    task.key_number = newest_key;
    AddTask(store.slot, std::move(task));
  }
  UpdateTicketKey();
}

// Tickets are good at every store: sealed with the newest key that all of those that serve know.
void Master::Impl::UpdateTicketKey() {
  uint32_t known = newest_key;
  for (const Store& store : stores) {
    if (store.info.state == StoreInfo::State::kGone || store.info.state == StoreInfo::State::kAway) continue;
    known = std::min(known, store.sealing_key);
  }
  if (known == ticket_seal.id) return;
  ticket_seal = DeriveTicketKey(known);
}

Grant Master::MakeGrant(const ReplicaInfo& replica, Version version, Right right, uint64_t user, Times now) const {
  const Store& store = impl_->stores[replica.store];
  Grant grant;
  grant.right = right;
  grant.user = user;
  grant.version = version;
  grant.store = store.info.incarnation;
  grant.place = replica.place;
  grant.extents = replica.extents;
  grant.expiry_ms = now.boot_ms + impl_->options.grant_ttl_ms;
  Seal(store.seal, &grant);
  return grant;
}

Ticket Master::MakeTicket(uint64_t user, uint64_t client, Times now) const {
  Ticket ticket;
  ticket.user = user;
  ticket.client = client;
  ticket.expiry_ms = now.boot_ms + impl_->options.grant_ttl_ms;
  Seal(impl_->ticket_seal, &ticket);
  return ticket;
}

}  // namespace tiercel::core
