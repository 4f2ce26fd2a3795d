// Telling the master: outcomes, closed puts, signs of life.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "server/node/control.h"

namespace tiercel::node {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::string_view kStale = InfoOf(ErrorCode::kStaleIncarnation).word;
constexpr std::string_view kNoStore = InfoOf(ErrorCode::kNoStore).word;

// The master does not take this connection for one of this store's: the command had no effect.
bool MeansUnknownStore(const Error& error) {
  return error.word() == kNoStore || error.word() == kStale || error.word() == InfoOf(ErrorCode::kNoPerm).word ||
         error.word() == InfoOf(ErrorCode::kNoAuth).word;
}

// The words of the report are wrong, in the master's eyes: nothing that time would mend.
bool IsRefusedForGood(const Error& error) {
  return error.word() == InfoOf(ErrorCode::kInvalid).word || error.word() == InfoOf(ErrorCode::kTooBig).word;
}

// The same, said of one clause. An item may be another store's, and an unpinned place of an epoch that is gone:
// that is no reason to join again.
bool MeansUnknownStore(Outbox::Clause clause, const resp::Reply& answer) {
  if (!answer.is_error()) return false;
  const std::string_view word = answer.ToError().word();
  const bool about_place = clause == Outbox::Clause::kItem || clause == Outbox::Clause::kUnpinned;
  return word == kNoStore || (word == kStale && !about_place);
}

}  // namespace

void Control::ReportLoop() {
  Backoff backoff(options_.backoff, options_.seed + 1);
  while (!stopping()) {
    Session session;
    {
      std::unique_lock lock(mu_);
      changed_.wait(lock, [this] { return stop_ || session_.has_value(); });
      if (stop_) return;
      session = *session_;
    }
    const ConnectionPtr connection = Open(options_.masters[session.master].report, &report_connection_);
    if (connection == nullptr) return;
    const Status ended = ServeReports(session, connection.get(), &backoff);
    if (ended.ok()) continue;  // the session has ended
    if (!stopping()) {
      std::lock_guard lock(mu_);
      ++figures_.report_errors;
    }
    Pause(backoff.NextMs(), session.number);
  }
}

// Ok when this session is over; an error when the connection has to be made anew.
Status Control::ServeReports(const Session& session, resp::Connection* connection, Backoff* backoff) {
  TIERCEL_ASSIGN(
      const resp::Reply attached,
      Call(connection, AttachCommand(options_.identity.name, options_.identity.incarnation), options_.call_timeout_ms));
  if (attached.is_error()) return attached.ToError();
  backoff->Succeeded();
  auto next_ping = SteadyClock::now();
  while (true) {
    std::optional<Leaving> leave;
    {
      std::unique_lock lock(mu_);
      const auto due = [&] {
        return stop_ || !session_ || session_->number != session.number || reports_waiting_ || leave_asked_;
      };
      changed_.wait_until(lock, next_ping, due);
      if (reports_waiting_ && !leave_asked_) {
        changed_.wait_for(lock, std::chrono::milliseconds(options_.gather_ms), [this] { return stop_.load(); });
      }
      if (stop_ || !session_ || session_->number != session.number) return Ok();
      reports_waiting_ = false;
      leave = leave_asked_;
    }
    const bool ping = leave || SteadyClock::now() >= next_ping;
    TIERCEL_TRY(TellAll(connection, ping));
    if (ping) next_ping = SteadyClock::now() + std::chrono::milliseconds(session.ping_ms);
    if (leave) TIERCEL_TRY(TellLeave(connection, *leave));
  }
}

Status Control::TellLeave(resp::Connection* connection, const Leaving& how) {
  TIERCEL_ASSIGN(const resp::Reply left, Call(connection, LeaveCommand(how), options_.call_timeout_ms));
  if (left.is_error()) Log(LogLevel::kWarning, "the master does not let go of this store: {}", left.text);
  {
    std::lock_guard lock(mu_);
    leave_asked_.reset();
    if (how.grace_ms == 0 && !how.kept && state_ != ControlState::kStopped) state_ = ControlState::kLeft;
  }
  changed_.notify_all();
  return Ok();
}

// Everything that is to be told now; at a ping at least one command, if only an empty one.
Status Control::TellAll(resp::Connection* connection, bool ping) {
  Collect(ping);
  bool first = true;
  while (!stopping()) {
    Outbox::Batch batch;
    {
      std::lock_guard lock(mu_);
      batch = outbox_.Take();
    }
    if (ping && first) target_->TakeAlive(&batch.alive);
    if (batch.empty() && !(ping && first)) return Ok();
    first = false;
    TIERCEL_TRY(Tell(connection, std::move(batch)));
  }
  return Ok();
}

// Moves what has happened since the last time into the outbox.
void Control::Collect(bool ping) {
  // Before the closed ones: a place is told as unpinned only behind its put's CLOSED.
  std::vector<StoreTarget::Unpinned> unpinned;
  if (ping) target_->TakeUnpinned(&unpinned);
  std::lock_guard lock(mu_);
  target_->TakeClosed(outbox_.closed());
  outbox_.unpinned()->insert(outbox_.unpinned()->end(), unpinned.begin(), unpinned.end());
  if (floor_to_tell_ && target_->AllClosedBelow(*floor_to_tell_)) {
    outbox_.SetClosedBelow(*std::exchange(floor_to_tell_, std::nullopt));
  }
  std::erase_if(drops_, [this](const Drop& drop) {
    if (!target_->Drained(drop.place.segment)) return false;
    outbox_.AddItem({drop.id, "DROP", std::nullopt, drop.bytes});
    return true;
  });
}

Status Control::Tell(resp::Connection* connection, Outbox::Batch batch) {
  std::vector<Outbox::Clause> clauses;
  const Command command = Outbox::ToCommand(batch, &clauses);
  auto reply = Call(connection, command, options_.call_timeout_ms);
  const bool taken = reply.ok() && !reply->is_error();
  std::optional<Error> refusal;
  if (taken) {
    for (size_t i = 0; i < std::min(clauses.size(), reply->items.size()); ++i) {
      if (MeansUnknownStore(clauses[i], reply->items[i])) refusal = reply->items[i].ToError();
    }
  }
  if (reply.ok() && reply->is_error() && IsRefusedForGood(reply->ToError())) {
    // Telling it again would be refused again. After a new join the master repeats what it waits for.
    Log(LogLevel::kWarning, "store {}: the master does not take a report: {}", options_.identity.name, reply->text);
    AskForRejoin();
    return reply->ToError();
  }
  if (!taken || refusal) {
    {
      std::lock_guard lock(mu_);
      outbox_.PutBack(std::move(batch));
    }
    if (!reply.ok()) return std::move(reply).error();
    if (!refusal) refusal = reply->ToError();
    if (taken || MeansUnknownStore(*refusal)) AskForRejoin();
    return *refusal;
  }
  Heard();
  NoteAnswer(clauses, *reply);
  changed_.notify_all();  // whoever waits for room in the outbox
  return Ok();
}

void Control::NoteAnswer(const std::vector<Outbox::Clause>& clauses, const resp::Reply& reply) {
  uint64_t errors = reply.items.size() == clauses.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(clauses.size(), reply.items.size()); ++i) {
    // An item that was lost to a time-out and told again is NOTASK: as it should be.
    const bool repeated_item = clauses[i] == Outbox::Clause::kItem && reply.items[i].is_error() &&
                               reply.items[i].ToError().code() == ErrorCode::kNoTask;
    if (reply.items[i].is_error() && !repeated_item) ++errors;
  }
  std::lock_guard lock(mu_);
  ++figures_.reports;
  figures_.report_errors += errors;
}

bool Control::Leave(const Leaving& how, int64_t timeout_ms) {
  std::unique_lock lock(mu_);
  if (stop_ || !session_) return false;
  leave_asked_ = how;
  changed_.notify_all();
  const auto over = [this] { return stop_ || !leave_asked_; };
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), over) && !stop_;
}

void Control::VerifyLoop() {
  while (true) {
    Verify verify;
    {
      std::unique_lock lock(mu_);
      changed_.wait(lock, [this] { return stop_ || !verifies_.empty(); });
      if (stop_) return;
      verify = std::move(verifies_.front());
      verifies_.pop_front();
    }
    const Status checked = VerifyReplica(target_, verify.order, stop_);
    if (stopping()) return;
    std::optional<ErrorCode> failure;
    if (!checked.ok()) {
      failure = checked.error().code();
      Log(LogLevel::kWarning, "verify: {}", checked.error().ToString());
      std::lock_guard lock(mu_);
      ++figures_.verifies_bad;
    }
    AnswerItem(verify.id, "VERIFY", failure, verify.order.size);
  }
}

}  // namespace tiercel::node
