// Control: the store's side of the conversation with its master. docs/store-control.md has the words.
//
// Three threads. The work thread joins, then fetches and carries out orders. The report thread tells what has
// happened and that the store is alive, on a connection of its own that never blocks at the master, and takes no
// lock that a data operation holds for longer than a few instructions. The verify thread re-hashes replicas, so
// that a long check delays no CLOSE.
//
// When either connection breaks, the work thread joins again with back-off and jitter; the report thread follows
// the session. Nothing that was to be told is lost in between. A join with the same generation changes nothing for
// puts; a new generation closes all older ones first. A refusal is logged once, not once an attempt.
//
// Bounds: orders of one answer (`work_max`), closed puts to be told (Outbox::kMaxPending, then no orders are
// fetched), kMaxVerifies and kMaxDrops under way (beyond: the item is answered RETRY).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "protocol/resp/conn/connection.h"
#include "server/node/control_wire.h"
#include "server/node/outbox.h"
#include "server/node/store_target.h"
#include "server/node/verify.h"

namespace tiercel::node {

// One master: the same place twice, or two adopted sockets of a master in this process.
struct MasterEndpoint {
  resp::ConnectionOptions work;
  resp::ConnectionOptions report;
};

struct ControlOptions {
  std::vector<MasterEndpoint> masters;  // tried in turn; at least one
  // Everything but data_address and generation_seen, which each join fills in.
  JoinRequest identity;
  // The data address to announce to this master, asked before each join.
  std::function<Result<std::string>(const MasterEndpoint&)> data_address;
  uint32_t work_max = 1024;
  int64_t work_block_ms = 5'000;
  int64_t call_timeout_ms = 5'000;
  // Orders and reports are gathered for this long, so that a burst of small puts costs the master two commands in
  // this time and not two commands each. Nobody waits for either.
  int64_t gather_ms = 2;
  Backoff::Options backoff;
  uint64_t seed = 1;             // of the jitter
  const Clock* clock = nullptr;  // nullptr: the machine's
};

enum class ControlState : uint8_t { kConnecting, kClosing, kServing, kLeft, kStopped };
std::string_view ControlStateName(ControlState state);

struct ControlFigures {
  ControlState state = ControlState::kConnecting;
  uint64_t generation = 0;
  std::string data_address;  // as announced last
  std::string last_failure;  // of a join or session, empty while all is well
  uint64_t joins = 0, failures = 0, refusals = 0;
  uint64_t closes = 0, verifies = 0, verifies_bad = 0, drops = 0, key_changes = 0, not_understood = 0;
  uint64_t reports = 0, report_errors = 0, pending_reports = 0;
};

class Control {
 public:
  static constexpr size_t kMaxVerifies = 1024;
  static constexpr size_t kMaxDrops = StoreTarget::kMaxSegments;

  // The target is not owned and outlives this.
  Control(ControlOptions options, StoreTarget* target);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  void Start();
  // True when the store serves. False when the time is over first (-1: no limit), or Stop came.
  bool WaitServing(int64_t timeout_ms);
  // True when no put is open at the store (any more).
  bool WaitPutsEnded(int64_t timeout_ms);
  // Tells what is still to be told, then that the store leaves: now for good, or (grace_ms > 0) at the latest then,
  // nothing new being placed here from now on. False: not joined, or no answer in time.
  bool Leave(const Leaving& how, int64_t timeout_ms);
  void Stop();  // idempotent
  ControlFigures Figures() const;

 private:
  using ConnectionPtr = std::shared_ptr<resp::Connection>;
  struct Session {
    uint64_t number = 0;  // a new one for each join
    size_t master = 0;
    int64_t ping_ms = 1'000;
  };
  struct Drop {
    uint64_t id = 0;
    SegmentRef place;
    uint64_t bytes = 0;
  };
  struct Verify {
    uint64_t id = 0;
    VerifyOrder order;
  };

  // control.cc: joining and carrying out orders, on the work thread.
  void WorkLoop();
  Status RunSession(size_t master);
  Status Join(size_t master, resp::Connection* connection);
  Status AnnounceSegments(resp::Connection* connection);
  Status WaitClosedBelow(Version floor);
  Result<bool> FetchWork(resp::Connection* connection);
  void Apply(const WorkReply& work, int64_t boot_ms);
  void CarryOut(const Order& order);
  void AnswerItem(uint64_t id, std::string kind, std::optional<ErrorCode> failure, uint64_t bytes);
  void StartVerify(const Order& order);
  void StartDrop(const Order& order);
  void NoteFailure(size_t master, const Error& error);
  bool EndSession();

  // control_report.cc: telling, on the report thread; verifying, on its thread.
  void ReportLoop();
  Status ServeReports(const Session& session, resp::Connection* connection, Backoff* backoff);
  Status TellLeave(resp::Connection* connection, const Leaving& how);
  Status TellAll(resp::Connection* connection, bool ping);
  Status Tell(resp::Connection* connection, Outbox::Batch batch);
  void NoteAnswer(const std::vector<Outbox::Clause>& clauses, const resp::Reply& reply);
  void Collect(bool ping);
  void VerifyLoop();

  // Both.
  ConnectionPtr Open(const resp::ConnectionOptions& options, ConnectionPtr* slot);
  Result<resp::Reply> Call(resp::Connection* connection, const Command& command, int64_t timeout_ms);
  void Heard();
  void AskForRejoin();
  void Pause(int64_t ms, uint64_t while_session);
  bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  const ControlOptions options_;
  StoreTarget* const target_;
  const Clock& clock_;

  std::atomic<bool> stop_{false};
  mutable std::mutex mu_;  // taken before the target's locks, never held over a call
  std::condition_variable changed_;
  ControlState state_ = ControlState::kConnecting;
  std::optional<Session> session_;
  uint64_t sessions_ = 0;
  ConnectionPtr work_connection_, report_connection_;
  bool rejoin_ = false;
  bool reports_waiting_ = false;
  std::optional<Leaving> leave_asked_;
  std::optional<Version> floor_to_tell_;  // puts below it were still in flight when it rose
  Outbox outbox_;
  std::vector<Drop> drops_;
  std::deque<Verify> verifies_;
  ControlFigures figures_;

  ErrorCode last_failure_code_ = ErrorCode::kInternal;
  LogLimiter failure_lines_{60'000};

  uint64_t generation_ = 0;  // highest seen; of the work thread
  std::thread work_thread_, report_thread_, verify_thread_;
};

}  // namespace tiercel::node
