// Poller: readiness of many sockets for one loop.
//
// Asio re-arms a descriptor with a system call for every wait, which at one command a round trip is a tenth of all
// work. So a loop's sockets sit in an epoll set of their own, registered once, edge-triggered, for both directions;
// Asio waits for that set as for one descriptor. One re-arm then serves every socket that became ready meanwhile.
//
// Belongs to its loop.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>

#include "tiercel/result.h"

namespace tiercel::net {

class Poller {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    // Bits of epoll_event.events. A client must stay alive until the batch it was removed in has ended.
    virtual void OnReady(uint32_t events) = 0;
  };

  // `after_batch` runs behind every batch of events, in the loop.
  Poller(asio::io_context& context, std::function<void()> after_batch);

  Status Open();
  void Close();
  // Registers for the socket's whole life; closing the descriptor ends it.
  Status Add(int fd, Client* client);

 private:
  static constexpr int kBatch = 128;  // sockets served before the loop's other work gets its turn

  void Wait();
  void Drain();

  asio::posix::stream_descriptor set_;
  std::function<void()> after_batch_;
};

}  // namespace tiercel::net
