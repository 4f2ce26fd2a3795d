// CommandContext: what a handler gets, and the ways in which it answers.
//
// A handler is a plain function: Outcome Handler(CommandContext&). It runs on its session's loop. Handlers
// registered with LockNeed::kCore run inside a hold of the core's lock; LockNeed::kNone ones without it;
// LockNeed::kAny ones do not touch the core and run either way.
//
// Replies: `reply` encodes straight into the connection's output. A handler either encodes exactly one whole reply
// and returns kDone (or kClose), or encodes nothing and returns what a Park function gave it: then the same command
// runs again, from the start, when what it waits for has come, with progress().attempt raised. Meanwhile no later
// command of the connection runs. A reply that depends on journal records not yet durable waits in the output
// queue; handlers need not care.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/encoder.h"
#include "server/core/master.h"
#include "server/net/master_host.h"
#include "server/net/session_state.h"

namespace tiercel::net {

class Session;
struct ServerShared;

enum class Outcome : uint8_t {
  kDone,        // replied; an error is a reply
  kPark,        // nothing encoded: run again on a wake, or at the deadline with progress().timed_out
  kMore,        // part of the work is done (progress() says how far): let others run, then run again
  kStream,      // header or error is decided by the payload stream just started; the command ends with it
  kStreamMore,  // like kStream, and the command runs again behind it
  kClose,       // replied; close the connection when all replies have left
};

enum class LockNeed : uint8_t { kCore, kNone, kAny };

class CommandContext {
 public:
  CommandContext(Session* session, SessionState* session_state, const ServerShared* shared, MasterHost::Hold* core_hold,
                 const Times& times, std::string* out)
      : reply(out, session_state->protocol),
        state(*session_state),
        now(times),
        server(*shared),
        hold(*core_hold),
        session_(session) {}

  std::span<const std::string_view> args;  // args[0] is the command's name as sent
  const resp::CommandSpec* spec = nullptr;
  resp::Encoder reply;
  SessionState& state;
  const Times now;  // of this turn
  const ServerShared& server;
  MasterHost::Hold& hold;

  size_t argc() const { return args.size(); }
  std::string_view arg(size_t i) const { return args[i]; }
  core::Master& master() const { return hold.master(); }
  core::Caller caller() const { return {state.user_id, state.id}; }
  Progress& progress() const { return state.progress; }
  Session& session() const { return *session_; }

  // Key reference of argument i in the connection's namespace: hashed before the turn for a command's first key,
  // here (about 10 ns) for others.
  core::KeyRef Key(size_t i) const {
    if (first_key_ != nullptr && i == static_cast<size_t>(spec->first_key) &&
        first_key_->name_space == state.name_space) {
      return *first_key_;
    }
    return core::MakeKey(state.name_space, args[i]);
  }
  // True, and the error is replied, when argument i is longer than a key may be.
  bool KeyTooLong(size_t i);

  // ---- replies of errors
  Outcome Fail(const Error& error);
  Outcome Fail(ErrorCode code, std::string message) { return Fail(Error(code, std::move(message))); }
  Outcome FailLine(std::string_view line);  // "ERR ..." whole line
  Outcome FailSyntax();                     // ERR syntax error
  Outcome FailNotInteger();                 // ERR value is not an integer or out of range
  Outcome FailArity();                      // ERR wrong number of arguments for 'x' command
  // True, and -INDEXRO is replied, while the index cannot be written. Asked before changes by handlers whose calls of
  // the core answer only whether the key was there.
  bool IndexReadOnly();
  // A Status or Result that failed, else +OK.
  Outcome Finish(const Status& status);

  // ---- parking. REQUIRES: nothing was encoded. wait_ms counts from the first time this command parked, so that
  // re-parking does not prolong it; 0 or less with no deadline yet: no limit.
  Outcome ParkForWork(int64_t wait_ms) { return ParkFor(WakeReason::kWork, wait_ms); }
  Outcome ParkForSpace(int64_t wait_ms) { return ParkFor(WakeReason::kSpace, wait_ms); }
  Outcome ParkFor(WakeReason reason, int64_t wait_ms);
  // Connects to host:port (names are resolved) over TCP, then runs the command again with progress().dialed set.
  // The first error is that of the last address tried and names it. Nothing is sent.
  Outcome ParkForDialBack(const std::string& address, int64_t timeout_ms);

  // Multi-key loops call this before key i: every 256 keys it lets others have the lock.
  void Breathe(size_t i) {
    if (i == 0 || i % 256 != 0) return;
    Unlocked([] {});
  }
  // Runs f() without the core's lock in the middle of a command. References into the core are void afterwards.
  template <typename F>
  void Unlocked(F&& f) {
    waited_ = std::max(waited_, master().wait());
    hold.Release();
    f();
    hold.Acquire();
    if (undone_ == 0 && waited_ != 0 && master().WasUndone(waited_)) undone_ = waited_;
    master().BeginCommand();
  }

  // ---- for the session
  core::Seq waited() const { return waited_; }
  core::Seq undone() const { return undone_; }  // of waited(), before the lock was given away last; 0: none
  void set_first_key(const core::KeyRef* key) { first_key_ = key; }

 private:
  Session* const session_;
  const core::KeyRef* first_key_ = nullptr;
  core::Seq waited_ = 0, undone_ = 0;
};

// What changes are refused with while the index cannot be written.
Error IndexReadOnlyError();

using Handler = Outcome (*)(CommandContext&);

}  // namespace tiercel::net
