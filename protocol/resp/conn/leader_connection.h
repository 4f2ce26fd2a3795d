// Leader and followers over one socket.
//
// All state is under one mutex, which is never held over a system call that waits. Three roles, each held by at most
// one thread at a time, and never for longer than one step:
//   sender     gathers what is queued, everybody's, and hands it to the socket (which never blocks)
//   leader     waits for the socket, reads, and gives replies to those whose they are
//   connector  makes a new link
// A synchronous caller queues its request and then does whatever is not being done until its own reply is there: with
// one caller that is send, poll and receive in its own thread. Who leaves wakes somebody who can lead. A leader asleep
// in poll is woken through an eventfd when the socket has become too full to take what others send.
//
// Rejected: a reader thread. It costs every call a switch of threads, which is most of a call's time on the same host.
//
// Memory of a request is the caller's, so a caller leaves only when nobody is in a system call with it (in_send), and
// a caller who must leave in the middle of its request breaks the link: half a command cannot be taken back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/fd.h"
#include "protocol/resp/conn/connection.h"
#include "protocol/resp/conn/exchange.h"
#include "protocol/resp/conn/link.h"

namespace tiercel::resp {

class LeaderConnection final : public Connection {
 public:
  explicit LeaderConnection(ConnectionOptions options);
  ~LeaderConnection() override;

  Result<Reply> Call(std::span<const std::string_view> arguments, int64_t timeout_ms) override;
  Result<std::vector<Reply>> Pipeline(std::span<const std::vector<std::string_view>> commands,
                                      int64_t timeout_ms) override;
  void CallAsync(std::span<const std::string_view> arguments, int64_t timeout_ms,
                 std::function<void(Result<Reply>)> done) override;
  void Drive(int64_t timeout_ms) override;
  uint64_t pending() const override;
  bool connected() const override;
  uint64_t epoch() const override;
  void Close() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Visit;  // a thread inside: the destructor waits for it

  // ---- connection.cc: the life of an exchange
  void Run(Exchange* exchange);
  std::optional<Error> EnqueueLocked(Exchange* exchange);
  bool GiveUpLocked(Exchange* exchange);
  Error TimeOutErrorLocked() const;
  void AnswerLocked(Exchange* exchange, std::optional<Error> error);
  void FinishIfFreeLocked(Exchange* exchange);
  void FailQueuedLocked(const Error& error);
  void HandOverLocked();
  void KickLeaderLocked();

  // ---- link_io.cc: the three roles
  bool CanSendLocked() const;
  void SendLocked(Lock* lock);
  void LeadLocked(Lock* lock, Deadline deadline, const Exchange* leader);
  void DeliverLocked(std::vector<Reply> replies);
  void BreakLocked(const Error& error);
  void DropStaleLinkLocked(Lock* lock);
  void ConnectLocked(Lock* lock, Deadline deadline, std::condition_variable* wake);
  struct Made {
    std::shared_ptr<Link> link;
    std::optional<Error> error;
    bool fatal = false;
  };
  Made MakeLink(Deadline deadline);
  void AdoptLocked(Made made);
  bool MakeEventsLocked();

  // ---- drive.cc: asynchronous calls
  void DriveStep(Lock* lock, Deadline deadline);
  bool ExpireLocked(Deadline now);
  void RunCallbacks(Lock* lock);

  const ConnectionOptions options_;
  const std::string peer_;
  // Made by the first connector that finds descriptors for them; never again after that, so that a leader and a
  // connector read them without the mutex. Without a link nobody needs them.
  UniqueFd kick_;  // eventfd: wakes the leader; read by it
  UniqueFd stop_;  // eventfd: readable for good once closed

  mutable std::mutex mutex_;
  std::shared_ptr<Link> link_;   // nullptr: not connected
  std::deque<Exchange*> queue_;  // not sent, or not wholly; bounded by max_pending
  uint64_t pending_ = 0;         // replies that are expected or will be; <= max_pending
  bool sending_ = false, leading_ = false, connecting_ = false, closed_ = false;
  const Exchange* leader_ = nullptr;  // of the thread that leads; nullptr: of one that drives
  bool adopted_ = false;              // options_.adopted_fd has been used
  Backoff backoff_;                   // the connector's
  Deadline next_attempt_{};           // not before then
  std::optional<Error> last_error_;   // why there is no link
  uint64_t epoch_ = 0;

  std::condition_variable driver_wake_;
  Deadline async_deadline_ = Deadline::max();        // no asynchronous exchange ends before
  uint64_t async_count_ = 0;                         // not finished
  std::deque<std::unique_ptr<Exchange>> callbacks_;  // finished: bounded by max_pending (counted in pending_)

  uint32_t inside_ = 0;
  std::condition_variable left_;
};

}  // namespace tiercel::resp
