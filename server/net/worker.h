// Worker: one loop with its connections.
//
// Everything here belongs to the loop, except Wake, Adopt and the counters. A session that cannot go on parks: it
// is listed by what it waits for, and by its deadline; the host's wakes and one timer run it again. Sessions that
// used up their turn stand in a queue and go on after the others. A closed session is destroyed at the end of the
// loop's current batch, because events of the batch may still name it.
#pragma once

#include <array>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "base/loop/loop.h"
#include "protocol/resp/command_table.h"
#include "server/core/types.h"
#include "server/net/master_host.h"
#include "server/net/poller.h"
#include "server/net/server.h"
#include "server/net/session_state.h"
#include "server/net/worker_stats.h"

namespace tiercel::net {

class RemoteTransfer;
class Session;
struct ServerShared;

// The commands of one turn, parsed and not yet run. Memory is the loop's, used by one session at a time.
struct ParsedCommand {
  const resp::CommandSpec* spec = nullptr;  // nullptr: unknown
  uint32_t first = 0, count = 0;            // in Batch::args
  size_t end = 0;                           // bytes of the input up to its end
  int32_t key = -1;                         // in Batch::keys: the first key, or -1
};
struct Batch {
  std::vector<ParsedCommand> commands;
  std::vector<std::string_view> args;
  std::vector<core::KeyRef> keys;
  std::deque<std::string> words;  // of inline commands, which do not stand in the input as they are
  // Why parsing ended, and how much of the input is used up when all of it has run.
  enum class End { kStarved, kFull, kBulk, kBulkCommand, kError } end = End::kStarved;
  size_t consumed = 0;
  void Clear();
};

class Worker final : public WakeTarget {
 public:
  Worker(ServerShared* shared, int number);
  ~Worker() override;  // REQUIRES: Stop was called or Start never

  Status Open();
  void Start();
  // Closes all sessions and joins.
  void Stop();

  Loop& loop() { return loop_; }
  ServerShared& shared() { return *shared_; }
  WorkerStats& stats() { return stats_; }
  const WorkerStats& stats() const { return stats_; }

  // Any thread: takes over a connected socket. `from_listener` ones count against maxclients (already counted).
  void Adopt(UniqueFd socket, SessionState state, bool from_listener);
  void Wake(uint32_t reasons) override;
  // Any thread: closes the connection, if it is still there.
  void Kill(core::ConnectionId id);
  // Any thread: closes connections of listeners as soon as they owe nothing. idle: none is left.
  void BeginDrain();
  bool idle() const { return from_listeners_.load(std::memory_order_relaxed) == 0; }

  // ---- for sessions, in the loop
  std::span<char> shared_input() { return {input_.get(), kInputBytes}; }
  Batch& batch() { return batch_; }
  core::ObjectInfo& object_scratch() { return object_; }
  core::PutPlan& plan_scratch() { return plan_; }
  StreamHasher& hasher() { return hasher_; }
  Times Now() const;
  void Schedule(Session* session);  // goes on after the others
  void Park(Session* session);      // under the core's lock; parking() says for what and until when
  void Unpark(Session* session);
  void WatchDurable(Session* session);
  void Closed(Session* session);  // destroys it at the end of the batch
  void AfterBatch();              // behind everything that ran sessions
  Session* Find(core::ConnectionId id);
  // A transfer whose end must be awaited, also when its session has gone. Erased by its own end.
  std::unordered_set<std::shared_ptr<RemoteTransfer>>& transfers() { return transfers_; }

  static constexpr size_t kInputBytes = 256 * 1024;  // at most read and parsed in one turn of a session
  static constexpr size_t kTurnCommands = 4096;      // and at most so many commands

 private:
  void RunWakes();
  void RunDeadlines();
  void ArmDeadline();
  void ArmSweep();
  void Sweep();
  void BuryClosed();
  void ReleaseDurable();
  void Unlist(Session* session, WakeReason reason);

  ServerShared* const shared_;
  Loop loop_;
  Poller poller_;
  WorkerStats stats_;
  std::unique_ptr<char[]> input_;
  Batch batch_;
  core::ObjectInfo object_;
  core::PutPlan plan_;
  StreamHasher hasher_;

  std::unordered_map<core::ConnectionId, std::unique_ptr<Session>> sessions_;
  std::atomic<uint64_t> from_listeners_{0};  // of them; written in the loop
  std::vector<std::unique_ptr<Session>> graveyard_;
  std::vector<Session*> runnable_, running_;  // used up their turn; those of the current pass
  bool run_posted_ = false;
  std::array<std::list<Session*>, kWakeReasons> parked_;  // in the order in which they parked
  std::vector<Session*> durable_watchers_;
  std::atomic<uint32_t> wakes_{0};
  std::set<std::pair<int64_t, Session*>> deadlines_;
  asio::steady_timer deadline_timer_, sweep_timer_;
  bool deadlines_dirty_ = false;
  std::unordered_set<std::shared_ptr<RemoteTransfer>> transfers_;
  bool stopping_ = false;
};

}  // namespace tiercel::net
