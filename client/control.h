// The client's conversation with the master: one connection, shared by all threads.
//
// The connection is re-made by itself (and greets anew: namespace, host). A command whose reply was lost is sent
// again only when asked for, within the call's deadline, with pauses. A master that is loading its index is
// waited for. Any number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/grant.h"
#include "client/deadline.h"
#include "client/stop.h"
#include "protocol/resp/conn/connection.h"
#include "tiercel/client.h"

namespace tiercel::client {

// What every new connection says first, after authentication: the namespace, where this process runs (so
// that near replicas are offered first), and the version of the conversation, which a master of another major refuses.
std::vector<std::vector<std::string>> Greeting(uint32_t name_space, const std::string& host_id);

class Control {
 public:
  // May the command be sent again when its reply was lost? Commands that answer the same twice may.
  enum class Again : uint8_t { kYes, kNo };
  using Command = std::vector<std::string_view>;

  // `stop` must outlive this. `host_id`: BOOTID/HOST.
  Control(std::unique_ptr<resp::Connection> connection, std::string host_id, StopSignal* stop);

  // An error reply is a reply; LOADING is waited for. kShutdown once closed.
  Result<resp::Reply> Call(std::span<const std::string_view> words, const Deadline& deadline, Again again);
  // One write, replies in order. All are sent again together.
  Result<std::vector<resp::Reply>> Pipeline(std::span<const Command> commands, const Deadline& deadline, Again again);
  // Best effort, for what nobody waits for: at most kAsideMs, the outcome is not looked at.
  void Tell(std::span<const std::string_view> words, const Deadline& deadline);
  static constexpr int64_t kAsideMs = 500;

  // Opens a data connection; asked for when one is made.
  Result<Ticket> FetchTicket(const Deadline& deadline);

  // Called on some caller's thread after the connection was re-made: the master may be another process.
  // Set once, before the first call.
  void OnNewConnection(std::function<void()> callback) { on_new_connection_ = std::move(callback); }
  void Close() { connection_->Close(); }

 private:
  template <typename T, typename Send>
  Result<T> WithRepeats(const Deadline& deadline, Again again, Send&& send);
  void NoticeEpoch();

  const std::unique_ptr<resp::Connection> connection_;
  const std::string host_id_;
  StopSignal* const stop_;
  std::function<void()> on_new_connection_;
  std::atomic<uint64_t> epoch_{0};
};

}  // namespace tiercel::client
