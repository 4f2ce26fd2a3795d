// Joining the master, fetching its orders and carrying them out.
#include "server/node/control.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace tiercel::node {

namespace {

std::string PlaceOf(const resp::ConnectionOptions& options) {
  if (options.adopted_fd >= 0 || options.adopt) return "the master in this process";
  if (!options.unix_socket.empty()) return options.unix_socket;
  return options.host.find(':') == std::string::npos ? fmt::format("{}:{}", options.host, options.port)
                                                     : fmt::format("[{}]:{}", options.host, options.port);
}

}  // namespace

std::string_view ControlStateName(ControlState state) {
  switch (state) {
    case ControlState::kConnecting: return "connecting";
    case ControlState::kClosing: return "closing";
    case ControlState::kServing: return "serving";
    case ControlState::kLeft: return "left";
    case ControlState::kStopped: return "stopped";
  }
  return "?";
}

Control::Control(ControlOptions options, StoreTarget* target)
    : options_(std::move(options)),
      target_(target),
      clock_(options_.clock != nullptr ? *options_.clock : SystemClock::Get()) {
  TIERCEL_CHECK(!options_.masters.empty());
  TIERCEL_CHECK(static_cast<bool>(options_.data_address));
  target_->OnClosed([this] {
    {
      std::lock_guard lock(mu_);
      reports_waiting_ = true;
    }
    changed_.notify_all();
  });
}

Control::~Control() { Stop(); }

void Control::Start() {
  TIERCEL_CHECK(!work_thread_.joinable());
  work_thread_ = std::thread([this] { WorkLoop(); });
  report_thread_ = std::thread([this] { ReportLoop(); });
  verify_thread_ = std::thread([this] { VerifyLoop(); });
}

void Control::Stop() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
    state_ = ControlState::kStopped;
    if (work_connection_) work_connection_->Close();
    if (report_connection_) report_connection_->Close();
  }
  changed_.notify_all();
  for (std::thread* thread : {&work_thread_, &report_thread_, &verify_thread_}) {
    if (thread->joinable()) thread->join();
  }
}

bool Control::WaitServing(int64_t timeout_ms) {
  std::unique_lock lock(mu_);
  const auto serving = [this] { return stop_ || state_ == ControlState::kServing; };
  if (timeout_ms < 0) {
    changed_.wait(lock, serving);
  } else {
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), serving);
  }
  return state_ == ControlState::kServing;
}

bool Control::WaitPutsEnded(int64_t timeout_ms) {
  std::unique_lock lock(mu_);
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [this] { return stop_ || target_->open_puts() == 0; });
}

ControlFigures Control::Figures() const {
  std::lock_guard lock(mu_);
  ControlFigures figures = figures_;
  figures.state = state_;
  figures.pending_reports = outbox_.closed_pending() + target_->closed_pending();
  return figures;
}

void Control::WorkLoop() {
  Backoff backoff(options_.backoff, options_.seed);
  size_t master = 0;
  uint64_t joins_before = 0;
  while (!stopping()) {
    const Status ended = RunSession(master);
    if (!EndSession()) return;
    if (!ended.ok()) NoteFailure(master, ended.error());
    uint64_t joins = 0;
    {
      std::lock_guard lock(mu_);
      joins = figures_.joins;
    }
    // A session that served is retried at the same master without delay; else the next one has its turn.
    if (std::exchange(joins_before, joins) != joins) {
      backoff.Succeeded();
    } else {
      master = (master + 1) % options_.masters.size();
    }
    Pause(backoff.NextMs(), 0);
  }
}

Status Control::RunSession(size_t master) {
  const ConnectionPtr connection = Open(options_.masters[master].work, &work_connection_);
  if (connection == nullptr) return Error(ErrorCode::kShutdown, "stopping");
  TIERCEL_TRY(Join(master, connection.get()));
  while (!stopping()) {
    {
      std::unique_lock lock(mu_);
      if (std::exchange(rejoin_, false)) return Error(ErrorCode::kStaleIncarnation, "the master asks for a new join");
      changed_.wait(
          lock, [this] { return stop_ || outbox_.closed_pending() + target_->closed_pending() < Outbox::kMaxPending; });
    }
    TIERCEL_ASSIGN(const bool had_work, FetchWork(connection.get()));
    if (had_work) Pause(options_.gather_ms, 0);
  }
  return Ok();
}

Status Control::Join(size_t master, resp::Connection* connection) {
  const MasterEndpoint& endpoint = options_.masters[master];
  JoinRequest request = options_.identity;
  TIERCEL_ASSIGN(request.data_address, options_.data_address(endpoint));
  request.generation_seen = generation_;
  {
    std::lock_guard lock(mu_);
    figures_.data_address = request.data_address;
  }
  TIERCEL_ASSIGN(const resp::Reply reply, Call(connection, JoinCommand(request), options_.call_timeout_ms));
  const int64_t boot_ms = clock_.Now().boot_ms;
  auto joined = ParseJoinReply(reply);
  if (!joined.ok()) {
    std::lock_guard lock(mu_);
    ++figures_.refusals;
    return Error(joined.error().code(), fmt::format("{} refuses store {} (data address {}): {}", PlaceOf(endpoint.work),
                                                    request.name, request.data_address, joined.error().ToString()));
  }
  if (joined->generation < generation_) {
    return Error(ErrorCode::kStaleIncarnation,
                 fmt::format("{} is in generation {}, but this store has seen {}: not obeyed", PlaceOf(endpoint.work),
                             joined->generation, generation_));
  }
  Version floor = joined->floor;
  if (joined->generation > generation_) {
    generation_ = joined->generation;
    floor = std::max(floor, Version{joined->generation << kCounterBits});
  }
  target_->SetKeys({std::move(joined->keys), std::move(joined->ticket_keys)});
  target_->SetMasterTime(joined->time_ms, boot_ms);
  target_->RaiseFloor(floor);
  Heard();
  {
    // From here on the report thread tells the master that this store lives, however long closing takes.
    std::lock_guard lock(mu_);
    if (stop_) return Error(ErrorCode::kShutdown, "stopping");
    state_ = ControlState::kClosing;
    figures_.generation = generation_;
    rejoin_ = false;
    session_ = Session{++sessions_, master, joined->ping_ms};
  }
  changed_.notify_all();
  TIERCEL_TRY(AnnounceSegments(connection));
  TIERCEL_TRY(WaitClosedBelow(floor));
  TIERCEL_ASSIGN(const resp::Reply ready, Call(connection, ReadyCommand(floor), options_.call_timeout_ms));
  if (ready.is_error()) return ready.ToError();
  Heard();
  {
    std::lock_guard lock(mu_);
    if (stop_) return Error(ErrorCode::kShutdown, "stopping");
    state_ = ControlState::kServing;
    ++figures_.joins;
    figures_.last_failure.clear();
  }
  changed_.notify_all();
  Log(LogLevel::kNotice, "store {} serves {} at {}, generation {}", request.name, PlaceOf(endpoint.work),
      request.data_address, generation_);
  return Ok();
}

Status Control::AnnounceSegments(resp::Connection* connection) {
  const std::vector<StoreTarget::SegmentOffer> offers = target_->Offers();
  std::vector<Command> commands;
  std::vector<std::vector<std::string_view>> views;
  for (const auto& offer : offers) commands.push_back(SegmentCommand(offer));
  for (const Command& command : commands) views.push_back(Views(command));
  if (views.empty()) return Ok();
  TIERCEL_ASSIGN(const auto replies, connection->Pipeline(views, options_.call_timeout_ms));
  for (size_t i = 0; i < replies.size() && i < offers.size(); ++i) {
    if (!replies[i].is_error()) continue;
    const Error refusal = replies[i].ToError();
    // The master has given up this epoch of the segment: it comes back empty, under the next one.
    if (refusal.word() == InfoOf(ErrorCode::kOldEpoch).word) target_->DropSegment(offers[i].place);
    std::lock_guard lock(mu_);
    ++figures_.refusals;
    return Error(refusal.code(), fmt::format("segment {}: {}", offers[i].name, refusal.ToString()));
  }
  return Ok();
}

Status Control::WaitClosedBelow(Version floor) {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return stop_ || rejoin_ || target_->AllClosedBelow(floor); });
  if (stop_) return Error(ErrorCode::kShutdown, "stopping");
  if (rejoin_) return Error(ErrorCode::kStaleIncarnation, "the master asks for a new join");
  return Ok();
}

// True when there was something to do.
Result<bool> Control::FetchWork(resp::Connection* connection) {
  TIERCEL_ASSIGN(const resp::Reply reply, Call(connection, WorkCommand(options_.work_max, options_.work_block_ms),
                                               options_.work_block_ms + options_.call_timeout_ms));
  const int64_t boot_ms = clock_.Now().boot_ms;
  TIERCEL_ASSIGN(const WorkReply work, ParseWorkReply(reply));
  Heard();
  if (!work.empty) Apply(work, boot_ms);
  return !work.orders.empty();
}

void Control::Apply(const WorkReply& work, int64_t boot_ms) {
  target_->SetMasterTime(work.time_ms, boot_ms);
  target_->RaiseFloor(work.floor);
  if (!target_->AllClosedBelow(work.floor)) {
    std::lock_guard lock(mu_);
    floor_to_tell_ = work.floor;
  }
  for (const Order& order : work.orders) CarryOut(order);
}

void Control::CarryOut(const Order& order) {
  using Kind = core::WorkItem::Kind;
  if (!order.understood) {
    {
      std::lock_guard lock(mu_);
      ++figures_.not_understood;
    }
    AnswerItem(order.item.id, order.kind, order.bad, 0);
    return;
  }
  switch (order.item.kind) {
    case Kind::kClose: {
      target_->ClosePuts(order.item.puts);
      std::lock_guard lock(mu_);
      figures_.closes += order.item.puts.size();
      return;
    }
    case Kind::kVerify: return StartVerify(order);
    case Kind::kDrop: return StartDrop(order);
    case Kind::kKeys: {
      target_->SetKeys({order.item.keys, order.item.ticket_keys});
      if (order.item.id != 0) AnswerItem(order.item.id, order.kind, std::nullopt, 0);
      std::lock_guard lock(mu_);
      ++figures_.key_changes;
      return;
    }
  }
}

void Control::StartVerify(const Order& order) {
  const core::WorkItem& item = order.item;
  {
    std::lock_guard lock(mu_);
    ++figures_.verifies;
    if (verifies_.size() < kMaxVerifies) {
      verifies_.push_back(
          {item.id,
           {item.version, item.name_space, item.key, item.size, item.sum, item.source.place, item.source.extents}});
      changed_.notify_all();
      return;
    }
  }
  AnswerItem(item.id, order.kind, ErrorCode::kRetry, 0);
}

void Control::StartDrop(const Order& order) {
  const SegmentRef place = order.item.segment;
  uint64_t bytes = 0;
  for (const auto& offer : target_->Offers()) {
    if (offer.place.segment == place.segment) bytes = offer.size;
  }
  if (!target_->DropSegment(place)) return AnswerItem(order.item.id, order.kind, ErrorCode::kOldEpoch, 0);
  Log(LogLevel::kNotice, "segment {} gives up epoch {}, by order of the master", place.segment, place.epoch);
  bool taken = false;
  {
    std::lock_guard lock(mu_);
    ++figures_.drops;
    // After a new join the master may order again what is still under way.
    std::erase_if(drops_, [&](const Drop& drop) { return drop.id == order.item.id; });
    taken = drops_.size() < kMaxDrops;
    if (taken) drops_.push_back({order.item.id, place, bytes});
    reports_waiting_ = true;
  }
  if (!taken) return AnswerItem(order.item.id, order.kind, ErrorCode::kRetry, 0);
  changed_.notify_all();
}

void Control::AnswerItem(uint64_t id, std::string kind, std::optional<ErrorCode> failure, uint64_t bytes) {
  {
    std::lock_guard lock(mu_);
    outbox_.AddItem({id, std::move(kind), failure, bytes});
    reports_waiting_ = true;
  }
  changed_.notify_all();
}

// One line for a new failure. The same one again is only counted; one of the same kind in other words is told now
// and then.
void Control::NoteFailure(size_t master, const Error& error) {
  std::string text = error.ToString();
  {
    std::lock_guard lock(mu_);
    ++figures_.failures;
    const bool same_kind = !figures_.last_failure.empty() && last_failure_code_ == error.code();
    const bool same = same_kind && figures_.last_failure == text;
    figures_.last_failure = text;
    last_failure_code_ = error.code();
    if (same || (failure_lines_.Admit(clock_.Now().boot_ms) < 0 && same_kind)) return;
  }
  const MasterEndpoint& endpoint = options_.masters[master];
  Log(LogLevel::kWarning, "store {} and {}: {}; trying again", options_.identity.name, PlaceOf(endpoint.work), text);
}

// False when there is to be no other one.
bool Control::EndSession() {
  bool again = false;
  {
    std::lock_guard lock(mu_);
    session_.reset();
    again = !stop_ && state_ != ControlState::kLeft;
    if (again) state_ = ControlState::kConnecting;
  }
  changed_.notify_all();
  return again;
}

// A new connection each time, except where there is only the one adopted socket. nullptr when stopping.
Control::ConnectionPtr Control::Open(const resp::ConnectionOptions& options, ConnectionPtr* slot) {
  ConnectionPtr old;
  std::lock_guard lock(mu_);
  if (stop_) return nullptr;
  if (options.adopted_fd >= 0 && *slot != nullptr) return *slot;
  old = std::exchange(*slot, ConnectionPtr(resp::Connection::Create(options)));
  return *slot;
}

// A connection may come back by itself within a call. For a master it is then a stranger's: whatever it answers, the
// store has to join (or attach) first.
Result<resp::Reply> Control::Call(resp::Connection* connection, const Command& command, int64_t timeout_ms) {
  const std::vector<std::string_view> views = Views(command);
  const uint64_t before = connection->epoch();
  auto reply = connection->Call(views, timeout_ms);
  if (reply.ok() && before != 0 && connection->epoch() != before) {
    return Error(ErrorCode::kUnreachable, "the connection to the master was made anew");
  }
  return reply;
}

void Control::Heard() { target_->HeardMaster(clock_.Now().boot_ms); }

// The master does not know this store as it thinks it should: the work thread joins again.
void Control::AskForRejoin() {
  {
    std::lock_guard lock(mu_);
    rejoin_ = true;
    // A call that waits for work is cut short; an adopted socket would not come back, so there it runs out.
    if (session_ && options_.masters[session_->master].work.adopted_fd < 0 && work_connection_) {
      work_connection_->Close();
    }
  }
  changed_.notify_all();
}

// Ends early when stopping, or when the session is another one already (0: whatever the session).
void Control::Pause(int64_t ms, uint64_t while_session) {
  std::unique_lock lock(mu_);
  const auto over = [&] { return stop_ || (while_session != 0 && (!session_ || session_->number != while_session)); };
  changed_.wait_for(lock, std::chrono::milliseconds(ms), over);
}

}  // namespace tiercel::node
