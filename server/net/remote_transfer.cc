#include "server/net/remote_transfer.h"

#include <utility>

#include "server/net/session.h"

namespace tiercel::net {

core::PayloadPort::Done RemoteTransfer::OnDone(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker,
                                               core::ConnectionId session) {
  worker->transfers().insert(transfer);
  return [transfer, worker, session](Status status) {
    worker->loop().Post([transfer, worker, session, status = std::move(status)]() mutable {
      transfer->ended_ = std::move(status);
      transfer->handle_.reset();
      worker->transfers().erase(transfer);
      if (Session* waiting = worker->Find(session)) waiting->OnTransfer();
    });
  };
}

void RemoteTransfer::Read(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker, core::ConnectionId session,
                          core::PayloadPort* port, const core::RemotePlace& place, uint64_t offset, size_t bytes) {
  transfer->handle_ =
      port->Read(place, offset, transfer->memory().first(bytes), kTimeoutMs, OnDone(transfer, worker, session));
}

void RemoteTransfer::Write(const std::shared_ptr<RemoteTransfer>& transfer, Worker* worker, core::ConnectionId session,
                           core::PayloadPort* port, const core::RemotePlace& place, uint64_t offset, size_t bytes) {
  transfer->handle_ =
      port->Write(place, offset, transfer->memory().first(bytes), kTimeoutMs, OnDone(transfer, worker, session));
}

}  // namespace tiercel::net
