// Session: one client connection and its turns.
//
// A turn reads what the socket has (at most 256 KiB), parses all whole commands of it (at most 4,096) without the
// core's lock, hashes their keys, then runs them under one hold of it; handlers encode into the output queue, which
// leaves in one send. What cannot finish in the turn becomes the session's state, and no later command runs before
// it is over, so that one connection never holds more than one of each:
//   held      a command that parked or takes several turns, with a copy of its arguments
//   sender    a value on its way out
//   receiver  a large argument on its way in
// Back-pressure is by not reading: while any of them is there, or unsent replies exceed the budget, the socket is
// left alone. Replies that wait for the journal do not stop later commands.
//
// Belongs to its worker's loop. Split by verb: session.cc (turns, life), session_run.cc (commands), session_io.cc
// (bytes in and out), session_values.cc (large values).
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "protocol/resp/decoder.h"
#include "server/net/command_context.h"
#include "server/net/incoming_value.h"
#include "server/net/input_buffer.h"
#include "server/net/output_queue.h"
#include "server/net/poller.h"
#include "server/net/registry.h"
#include "server/net/session_state.h"
#include "server/net/value_sender.h"
#include "server/net/worker.h"

namespace tiercel::net {

class DialBack;

class Session final : public Poller::Client {
 public:
  Session(Worker* worker, UniqueFd socket, SessionState state, bool from_listener);
  ~Session() override;

  core::ConnectionId id() const { return state_.id; }
  int fd() const { return socket_.get(); }
  SessionState& state() { return state_; }
  bool closed() const { return closed_; }

  // ---- from the worker
  void OnReady(uint32_t events) override;
  void Run();
  // A wake or, with `timed_out`, the deadline: runs the held command again.
  void Resume(bool timed_out);
  void OnTransfer();  // a transfer of the sender or receiver ended
  // The journal moved. Under the lock: takes off what waits no longer; then, without it, SendWaiting.
  void ReleaseWaiting(core::Master& master);
  bool waits_for_journal() const { return out_.waiting(); }
  void Sweep(Times now);  // once a second
  void BeginDrain();
  bool from_listener() const { return from_listener_; }
  void CloseNow();
  // Where the worker's lists have it.
  struct Parking {
    std::optional<WakeReason> reason;
    std::list<Session*>::iterator at;
    int64_t deadline_ms = 0;
  };
  Parking& parking() { return parking_; }
  bool& runnable() { return runnable_; }
  bool& watches_durable() { return watches_durable_; }

  // ---- from handlers, by way of CommandContext
  Outcome ParkFor(WakeReason reason, int64_t wait_ms, Times now);
  Outcome ParkForDialBack(const std::string& address, int64_t timeout_ms);
  // Without a segment in this process: sends arguments[argument] to another store, then runs the command again, with
  // Incoming(argument).
  Outcome ParkForUpload(const core::KeyRef& key, size_t argument, uint64_t size);
  // The value that was received for this argument, or nullptr: then it stands in the arguments.
  IncomingValue* Incoming(size_t argument);
  // Under the lock, after BeginRead gave `info`: answers with bytes [from, from + length) of that version, which is
  // let go of afterwards. `more`: the command runs again behind it.
  Outcome Send(core::Master& master, const core::KeyRef& key, const core::ObjectInfo& info, uint64_t from,
               uint64_t length, Times now, bool more);
  // Under the lock: the value will not be sent after all. REQUIRES: called by the handler that began it, if any.
  void CancelSend(core::Master& master, Times now);
  bool Muted() const {
    return state_.reply_mode == SessionState::ReplyMode::kOff ||
           state_.reply_mode == SessionState::ReplyMode::kSkipThis;
  }
  void MarkPublishedUser();  // the row of CLIENT LIST follows name, user, ...
  ClientRow& row() { return *row_; }
  Worker& worker() { return *worker_; }
  ServerShared& shared() { return *shared_; }

 private:
  enum class Step {
    kAgain,   // something was done: go on
    kYield,   // go on after the others
    kWait,    // nothing to do before an event
    kClosed,  // destroyed at the end of the batch
  };

  // session.cc
  Step Advance();
  void BeginClosing();
  Step AdvanceClosing();
  void EndTurn();
  void Detach();

  // session_run.cc
  void Park(WakeReason reason, int64_t deadline_ms);
  void StartDial();
  void Parse(Batch* batch);
  void AddCommand(Batch* batch, size_t end);
  void RunBatch();
  void RunBulkCommand();
  bool RunOne(const resp::CommandSpec* spec, std::span<const std::string_view> args, const core::KeyRef* key,
              MasterHost::Hold* hold, const Times& now);
  bool Admit(const resp::CommandSpec* spec, std::span<const std::string_view> args, CommandContext* context);
  void RestOn(const core::Master& master, size_t start, Outcome outcome, core::Seq wait, core::Seq undone);
  bool Settle(Outcome outcome, const resp::CommandSpec* spec, std::span<const std::string_view> args);
  void CountReply(const resp::CommandSpec* spec, size_t start);
  void RunHeld();
  void HoldCommand(const resp::CommandSpec* spec, std::span<const std::string_view> args);
  void DropHeld();
  void ResetDecoder();
  resp::DecoderLimits DecoderLimits() const;
  void ProtocolError(std::string_view line);

  // session_io.cc
  Step Receive();
  bool Flush();
  Step SendPieces();
  bool GrowQuery();
  void ReleaseQuery();
  void Progressed(size_t sent);

  // session_values.cc
  Step AdvanceSender();
  Step AdvanceReceiver();
  Step AdvanceBuffering();
  void BeginBulk();
  Step ReceiveInto(std::span<std::byte> room);
  void EndReceiver();
  void TakeFromInput();
  void SettleIncoming();

  Worker* const worker_;
  ServerShared* const shared_;
  UniqueFd socket_;
  SessionState state_;
  const bool from_listener_;
  std::shared_ptr<ClientRow> row_;

  resp::Decoder decoder_;
  InputBuffer in_;
  OutputQueue out_;
  bool starved_ = true;  // nothing more can be parsed before more bytes come
  bool readable_ = false, writable_ = true, hung_up_ = false, eof_ = false;
  bool closing_ = false;  // closes when everything has left
  bool shut_ = false;     // our direction is closed; the peer's is drained
  bool closed_ = false, runnable_ = false, watches_durable_ = false, in_turn_ = false;
  bool close_silently_ = false, broken_ = false, decoder_authenticated_ = false;
  int64_t last_read_ms_ = 0, last_write_ms_ = 0, closing_ms_ = 0;
  bool wrote_ = false;           // since the last sweep, which notes when: a send reads no clock
  uint64_t query_reserved_ = 0;  // of the server's budget of query buffers

  struct Held {
    const resp::CommandSpec* spec = nullptr;
    std::string bytes;
    std::vector<std::string_view> args;
    bool ready = false;  // runs again in the next turn
  };
  std::optional<Held> held_;
  Parking parking_;
  struct DialRequest {
    std::string address;
    int64_t timeout_ms = 0;
  };
  std::optional<DialRequest> dial_request_;
  std::unique_ptr<DialBack> dial_;
  std::unique_ptr<ValueSender> sender_;
  bool sender_header_sent_ = false, sender_more_ = false;
  std::vector<iovec> iov_;
  uint64_t turn_bytes_ = 0;  // of values moved in this turn

  // A large argument that is being received, and those of the same command that were.
  std::unique_ptr<IncomingValue> receiver_;
  bool receiver_is_upload_ = false;
  bool receiver_timed_out_ = false;
  size_t upload_offset_ = 0;
  int64_t receiver_since_ms_ = 0;  // boot clock; when it first waited for a place
  struct Buffered {  // a large argument that is no value: an unusual one, kept in memory within the query limit
    size_t argument = 0;
    uint64_t size = 0;
    std::string bytes;
    bool dropped = false;
  };
  std::optional<Buffered> buffering_;
  std::vector<Buffered> buffered_;
  std::vector<std::unique_ptr<IncomingValue>> incoming_;
  bool line_end_pending_ = false;  // CRLF behind the large argument
};

}  // namespace tiercel::net
