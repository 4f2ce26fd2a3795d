#include "server/net/poller.h"

#include <sys/epoll.h>

#include <cerrno>

#include "base/fd.h"

namespace tiercel::net {

Poller::Poller(asio::io_context& context, std::function<void()> after_batch)
    : set_(context), after_batch_(std::move(after_batch)) {}

Status Poller::Open() {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return SystemError("epoll_create1", errno);
  set_.assign(fd);
  Wait();
  return Ok();
}

void Poller::Close() {
  asio::error_code ignored;
  set_.close(ignored);
}

Status Poller::Add(int fd, Client* client) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = client;
  if (::epoll_ctl(set_.native_handle(), EPOLL_CTL_ADD, fd, &event) != 0) return SystemError("epoll_ctl", errno);
  return Ok();
}

void Poller::Wait() {
  set_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    Drain();
    if (set_.is_open()) Wait();  // arming reports what is ready by now: nothing is missed
  });
}

void Poller::Drain() {
  std::array<epoll_event, kBatch> events;
  const int n = ::epoll_wait(set_.native_handle(), events.data(), kBatch, 0);
  for (int i = 0; i < n; ++i) {
    static_cast<Client*>(events[static_cast<size_t>(i)].data.ptr)->OnReady(events[static_cast<size_t>(i)].events);
  }
  after_batch_();
}

}  // namespace tiercel::net
