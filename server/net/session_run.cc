// Commands of a session: from bytes to replies.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "protocol/resp/errors.h"
#include "server/net/dial_back.h"
#include "server/net/dispatch.h"
#include "server/net/server_shared.h"
#include "server/net/session.h"

namespace tiercel::net {
namespace {

// Counts calls and time by command, with one reading of the clock for a run of the same command: a pipeline pays
// nothing for it.
class UsageClock {
 public:
  explicit UsageClock(WorkerStats* stats) : stats_(stats), last_(MonotonicNanos()) {}
  ~UsageClock() { Charge(); }
  // `calls` is 0 when a command goes on that has been counted.
  void Began(resp::CommandId id, uint64_t calls = 1) {
    if (id != id_) {
      Charge();
      id_ = id;
    }
    calls_ += calls;
  }

 private:
  void Charge() {
    if (id_ == resp::CommandId::kCount) return;
    const int64_t now = MonotonicNanos();
    CommandStats& stats = stats_->by_command[static_cast<size_t>(id_)];
    stats.calls.Add(calls_);
    stats.nanos.Add(static_cast<uint64_t>(now - last_));
    stats_->commands.Add(calls_);
    last_ = now;
    calls_ = 0;
  }

  WorkerStats* const stats_;
  int64_t last_;
  resp::CommandId id_ = resp::CommandId::kCount;
  uint64_t calls_ = 0;
};

// The command runs again before its reply is whole.
bool GoesOn(Outcome outcome) {
  return outcome == Outcome::kPark || outcome == Outcome::kMore || outcome == Outcome::kStreamMore;
}

}  // namespace

static_assert(resp::kCommandIdCount <= kMaxCommands);

resp::DecoderLimits Session::DecoderLimits() const {
  resp::DecoderLimits limits;
  limits.max_bulk_bytes = shared_->limits.proto_max_bulk_len.load(std::memory_order_relaxed);
  limits.max_command_bytes = shared_->limits.query_buffer_limit.load(std::memory_order_relaxed);
  limits.authenticated = state_.authenticated;
  return limits;
}

// Parsing goes on at the first byte not consumed; what was parsed behind it is forgotten.
void Session::ResetDecoder() {
  decoder_ = resp::Decoder(DecoderLimits());
  starved_ = in_.empty();
}

// ---- parsing

void Session::AddCommand(Batch* batch, size_t end) {
  const std::vector<std::string_view>& args = decoder_.arguments();
  const std::span<const char> input = in_.data();
  const auto first = static_cast<uint32_t>(batch->args.size());
  for (const std::string_view arg : args) {
    const bool in_place = arg.empty() || (arg.data() >= input.data() && arg.data() < input.data() + input.size());
    // The words of a quoted inline command are the decoder's until its next step.
    batch->args.push_back(in_place ? arg : std::string_view(batch->words.emplace_back(arg)));
  }
  ParsedCommand command;
  command.first = first;
  command.count = static_cast<uint32_t>(args.size());
  command.end = end;
  const std::span<const std::string_view> words(batch->args.data() + first, args.size());
  command.spec = resp::ResolveCommand(words);
  if (command.spec != nullptr && command.spec->first_key > 0 &&
      static_cast<size_t>(command.spec->first_key) < args.size()) {
    command.key = static_cast<int32_t>(batch->keys.size());
    batch->keys.push_back(core::MakeKey(state_.name_space, words[static_cast<size_t>(command.spec->first_key)]));
  }
  batch->commands.push_back(command);
}

// Whole commands of the input, up to a large argument, an error, or the end. A connection that has not logged in is
// parsed command by command, because what may follow depends on it.
void Session::Parse(Batch* batch) {
  batch->Clear();
  batch->end = Batch::End::kStarved;
  if (decoder_authenticated_ != state_.authenticated) {
    decoder_authenticated_ = state_.authenticated;
    decoder_.set_limits(DecoderLimits());
  }
  const std::span<const char> input = in_.data();
  const size_t most = state_.authenticated ? Worker::kTurnCommands : 1;
  size_t at = 0;
  while (true) {
    if (batch->commands.size() >= most) {
      batch->end = Batch::End::kFull;
      break;
    }
    const resp::Decoder::Step step = decoder_.Next(input.subspan(at));
    at += step.consumed;
    if (step.event == resp::Decoder::Event::kCommand) {
      if (!incoming_.empty() || !buffered_.empty()) {
        batch->end = Batch::End::kBulkCommand;
        break;
      }
      AddCommand(batch, at);
      continue;
    }
    if (step.event == resp::Decoder::Event::kBulk) batch->end = Batch::End::kBulk;
    if (step.event == resp::Decoder::Event::kError) batch->end = Batch::End::kError;
    break;
  }
  batch->consumed = at;
}

// ---- running

void Session::RunBatch() {
  Batch& batch = worker_->batch();
  Parse(&batch);
  bool stopped = false;
  size_t consumed = batch.consumed;
  if (!batch.commands.empty()) {
    const Times now = worker_->Now();
    last_read_ms_ = now.boot_ms;
    row_->last_active_ms.store(now.boot_ms, std::memory_order_relaxed);
    row_->last_command.store(batch.commands.back().spec, std::memory_order_relaxed);
    UsageClock usage(&worker_->stats());
    MasterHost::Hold hold(shared_->host, false);
    size_t prefetched = 0;
    for (const ParsedCommand& command : batch.commands) {
      const core::KeyRef* key = command.key < 0 ? nullptr : &batch.keys[static_cast<size_t>(command.key)];
      if (key != nullptr && static_cast<size_t>(command.key) >= prefetched && shared_->host != nullptr) {
        if (!hold.held()) hold.Acquire();
        const size_t n = std::min(core::Master::kPrefetch, batch.keys.size() - prefetched);
        hold.master().Prefetch(std::span(batch.keys).subspan(prefetched, n));
        prefetched += n;
      }
      if (command.spec != nullptr) usage.Began(command.spec->id);
      if (!RunOne(command.spec, std::span(batch.args).subspan(command.first, command.count), key, &hold, now)) {
        consumed = command.end;
        stopped = true;
        break;
      }
    }
  }
  if (closed_) return;
  // A stop behind the last command is one like any other: what follows it must not be taken as parsed.
  in_.Consume(consumed);
  if (stopped) {
    ResetDecoder();
    return;
  }
  switch (batch.end) {
    case Batch::End::kStarved: starved_ = true; break;
    case Batch::End::kFull:
      if (in_.empty()) starved_ = true;
      break;
    case Batch::End::kBulk: BeginBulk(); break;
    case Batch::End::kBulkCommand: RunBulkCommand(); break;
    case Batch::End::kError: ProtocolError(decoder_.error()); break;
  }
}

// A command with at least one large argument: alone, since its arguments are not in the input.
void Session::RunBulkCommand() {
  std::vector<std::string_view> args = decoder_.arguments();
  starved_ = in_.empty();
  bool dropped = false;
  for (const Buffered& argument : buffered_) {
    dropped = dropped || argument.dropped;
    args[argument.argument] = argument.bytes;
  }
  const resp::CommandSpec* spec = resp::ResolveCommand(args);
  if (dropped) {
    const size_t start = out_.size();
    resp::Encoder(&out_.bytes(), state_.protocol)
        .Error(Error(ErrorCode::kTooBig, "an argument of this command is larger than it may be"));
    CountReply(spec, start);
    SettleIncoming();
    return;
  }
  const Times now = worker_->Now();
  last_read_ms_ = now.boot_ms;
  row_->last_active_ms.store(now.boot_ms, std::memory_order_relaxed);
  row_->last_command.store(spec, std::memory_order_relaxed);
  {
    UsageClock usage(&worker_->stats());
    MasterHost::Hold hold(shared_->host, false);
    if (spec != nullptr) usage.Began(spec->id);
    RunOne(spec, args, nullptr, &hold, now);
  }
  if (!closed_ && !held_) SettleIncoming();
}

// Runs one command and takes care of what it left. False: no later command may run now.
bool Session::RunOne(const resp::CommandSpec* spec, std::span<const std::string_view> args, const core::KeyRef* key,
                     MasterHost::Hold* hold, const Times& now) {
  using Mode = SessionState::ReplyMode;
  if (state_.reply_mode == Mode::kSkipNext) state_.reply_mode = Mode::kSkipThis;
  const size_t start = out_.size();
  CommandContext context(this, &state_, shared_, hold, now, &out_.bytes());
  context.args = args;
  context.spec = spec;
  context.set_first_key(key);

  Outcome outcome = Outcome::kDone;
  if (Admit(spec, args, &context)) {
    const HandlerRow& row = RowOf(spec->id);
    if (row.lock == LockNeed::kCore) {
      if (!hold->held()) hold->Acquire();
      hold->master().BeginCommand();
      outcome = row.run(context);
      const core::Seq wait = std::max(context.waited(), hold->master().wait());
      if (wait != 0 || state_.progress.waited != 0) RestOn(hold->master(), start, outcome, wait, context.undone());
      if (outcome != Outcome::kDone && (out_.size() > start || outcome == Outcome::kStreamMore)) {
        state_.progress.partial = true;
      }
    } else {
      if (row.lock == LockNeed::kNone && hold->held()) hold->Release();
      outcome = row.run(context);
    }
  }
  if (out_.size() > start) CountReply(spec, start);
  if (state_.reply_mode != Mode::kOn) {
    out_.Mute(start);
    if (state_.reply_mode == Mode::kSkipThis && !GoesOn(outcome)) state_.reply_mode = Mode::kOn;
  }
  if (!Settle(outcome, spec, args)) return false;
  if (out_.unsent() < shared_->limits.reply_budget_bytes.load(std::memory_order_relaxed)) return true;
  hold->Release();
  return Flush() && out_.unsent() < shared_->limits.reply_budget_bytes.load(std::memory_order_relaxed);
}

// The reply that begins at `start` leaves when `wait` is durable, and becomes an error when that was undone: now, or in
// an earlier part of the command (`undone`, 0 if not). A run that has encoded nothing and goes on leaves it to the
// next.
void Session::RestOn(const core::Master& master, size_t start, Outcome outcome, core::Seq wait, core::Seq undone) {
  Progress& progress = state_.progress;
  wait = std::max(wait, progress.waited);
  // Asked before durable(), which goes past what was undone. Of several positions the highest does not tell: what came
  // after a failure was not undone by it.
  if (undone == 0 && progress.waited != 0 && master.WasUndone(progress.waited)) undone = progress.waited;
  if (undone == 0 && master.WasUndone(wait)) undone = wait;
  const bool encoded = out_.size() > start || outcome == Outcome::kStream || outcome == Outcome::kStreamMore;
  progress.waited = 0;
  if (!encoded && GoesOn(outcome)) {
    progress.waited = undone != 0 ? undone : wait;
    return;
  }
  if (undone == 0 && wait <= master.durable()) return;
  // A reply in several parts cannot be taken back once a part may have left.
  const bool whole = !progress.partial && !GoesOn(outcome);
  out_.Hold(start, undone != 0 ? undone : wait, whole);
  worker_->WatchDurable(this);
  if (undone != 0) worker_->Wake(WakeBit(WakeReason::kDurable));  // nobody else will tell
}

// What Redis checks before it runs a command, in its order. False: answered with an error.
bool Session::Admit(const resp::CommandSpec* spec, std::span<const std::string_view> args, CommandContext* context) {
  if (spec == nullptr) {
    context->Fail(resp::ResolveError(args));
    return false;
  }
  const auto reject = [&](std::string_view line) {
    worker_->stats().by_command[static_cast<size_t>(spec->id)].rejected.Add();
    context->FailLine(line);
    return false;
  };
  const uint32_t flags = spec->flags;
  if (!state_.authenticated && (flags & resp::kNoAuth) == 0) return reject(resp::kNoAuthLine);
  if ((flags & resp::kStoreRight) != 0 && !state_.store_right) {
    return reject("NOPERM this user has no right to speak as a store (+@store)");
  }
  if (shared_->host == nullptr && (flags & resp::kStoreRole) == 0) {
    return reject("ERR this process has the role of a store only; this command is the master's");
  }
  if ((flags & resp::kLoadingOk) == 0 && shared_->loading.load(std::memory_order_relaxed)) {
    return reject(resp::kLoadingLine);
  }
  if ((flags & resp::kDenyOom) != 0 && shared_->draining.load(std::memory_order_relaxed)) {
    return reject("UNREACHABLE the server is ending and takes no more values");
  }
  return true;
}

void Session::CountReply(const resp::CommandSpec* spec, size_t start) {
  const std::string& bytes = out_.bytes();
  if (start >= bytes.size() || bytes[start] != '-') return;
  const size_t end = bytes.find_first_of(" \r", start);
  const std::string_view word(bytes.data() + start + 1, end - start - 1);
  WorkerStats& stats = worker_->stats();
  stats.by_error[ErrorSlot(word)].Add();
  if (spec != nullptr) stats.by_command[static_cast<size_t>(spec->id)].failed.Add();
}

// False: the batch stops behind this command.
bool Session::Settle(Outcome outcome, const resp::CommandSpec* spec, std::span<const std::string_view> args) {
  switch (outcome) {
    case Outcome::kDone:
      if (state_.progress.begun() || held_) DropHeld();
      return !closing_;
    case Outcome::kClose:
      DropHeld();
      BeginClosing();
      return false;
    case Outcome::kPark:
      HoldCommand(spec, args);
      ++state_.progress.attempt;
      row_->parked.store(true, std::memory_order_relaxed);
      return false;
    case Outcome::kMore:
      HoldCommand(spec, args);
      ++state_.progress.attempt;
      held_->ready = true;
      return false;
    case Outcome::kStream: DropHeld(); return false;
    case Outcome::kStreamMore:
      HoldCommand(spec, args);
      ++state_.progress.attempt;
      return false;
  }
  return false;
}

// Keeps the command for another run; its arguments are copied once, the input goes on without it.
void Session::HoldCommand(const resp::CommandSpec* spec, std::span<const std::string_view> args) {
  if (held_) {
    held_->ready = false;
    return;
  }
  held_.emplace();
  held_->spec = spec;
  size_t bytes = 0;
  for (const std::string_view arg : args) bytes += arg.size();
  held_->bytes.reserve(bytes);
  held_->args.reserve(args.size());
  for (const std::string_view arg : args) {
    const size_t at = held_->bytes.size();
    held_->bytes.append(arg);
    held_->args.push_back(std::string_view(held_->bytes).substr(at, arg.size()));
  }
}

void Session::DropHeld() {
  held_.reset();
  state_.progress = {};
}

void Session::RunHeld() {
  held_->ready = false;
  const Times now = worker_->Now();
  bool over;
  {
    UsageClock usage(&worker_->stats());
    MasterHost::Hold hold(shared_->host, false);
    usage.Began(held_->spec->id, 0);
    // The arguments may be dropped with `held_` while the command settles: nothing below uses them.
    RunOne(held_->spec, held_->args, nullptr, &hold, now);
    over = !held_;
  }
  if (closed_ || !over) return;
  SettleIncoming();
}

void Session::Park(WakeReason reason, int64_t deadline_ms) {
  TIERCEL_CHECK(!parking_.reason, "a session waits for one thing");
  parking_.reason = reason;
  parking_.deadline_ms = deadline_ms;
  worker_->Park(this);
}

Outcome Session::ParkFor(WakeReason reason, int64_t wait_ms, Times now) {
  if (state_.progress.deadline_ms == 0 && wait_ms > 0) state_.progress.deadline_ms = now.boot_ms + wait_ms;
  Park(reason, state_.progress.deadline_ms);
  return Outcome::kPark;
}

Outcome Session::ParkForDialBack(const std::string& address, int64_t timeout_ms) {
  dial_request_ = {address, timeout_ms};
  return Outcome::kPark;
}

// Outside of the lock under which it was asked for.
void Session::StartDial() {
  const DialRequest request = *std::exchange(dial_request_, std::nullopt);
  dial_ = DialBack::Start(worker_->loop(), request.address, request.timeout_ms, [this](Status status) {
    // In the loop, and never after dial_ was destroyed.
    state_.progress.dialed = std::move(status);
    dial_.reset();
    Resume(false);
    worker_->AfterBatch();
  });
}

void Session::ProtocolError(std::string_view line) {
  worker_->stats().closed_protocol_error.Add();
  if (!line.empty()) {
    const size_t start = out_.size();
    resp::Encoder(&out_.bytes(), state_.protocol).ErrorLine(line);
    CountReply(nullptr, start);
  } else {
    close_silently_ = true;
  }
  BeginClosing();
}

}  // namespace tiercel::net
