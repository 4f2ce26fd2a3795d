#include "tests/crash/load.h"

#include <chrono>

#include "base/clock.h"

namespace tiercel::test {
namespace {

using Outcome = Ledger::Outcome;

constexpr int kKeysAWriter = 24;
constexpr uint32_t kFlushedSpace = 1;
constexpr size_t kMaxFaults = 20;

int64_t WallMs() { return SystemClock::Get().Now().wall_ms; }

// Mostly small, some that take several pieces, few of more than one block.
size_t SizeOf(Random& random) {
  switch (random.Below(32)) {
    case 0: return 0;
    case 1: return 1'000'000 + random.Below(1'200'000);
    case 2:
    case 3:
    case 4:
    case 5:
    case 6: return 4'096 + random.Below(150'000);
    default: return 1 + random.Below(3'000);
  }
}

}  // namespace

// ---- Journal

void Journal::Told(Version version) {
  uint64_t before = highest_.load();
  while (before < version.value && !highest_.compare_exchange_weak(before, version.value)) {
  }
}

void Journal::Acknowledged() {
  const std::lock_guard hold(mutex_);
  ++acknowledged_;
  changed_.notify_all();
}

bool Journal::AwaitMore(uint64_t commands) {
  std::unique_lock hold(mutex_);
  const uint64_t wanted = acknowledged_ + commands;
  return changed_.wait_for(hold, std::chrono::milliseconds(HangGuardMs(60'000)),
                           [&] { return acknowledged_ >= wanted; });
}

uint64_t Journal::acknowledged() const {
  const std::lock_guard hold(mutex_);
  return acknowledged_;
}

void Journal::Fault(std::string what) {
  const std::lock_guard hold(mutex_);
  if (faults_.size() < kMaxFaults) faults_.push_back(std::move(what));
}

std::vector<std::string> Journal::faults() const {
  const std::lock_guard hold(mutex_);
  return faults_;
}

// ---- Writer

Writer::Writer(Deployment* system, Journal* journal, uint64_t seed, int index, bool flushes)
    : system_(system),
      journal_(journal),
      index_(index),
      flushes_(flushes),
      random_(seed + static_cast<uint64_t>(index) * 1'000'003),
      next_number_((static_cast<uint64_t>(index) + 1) << 32) {
  for (int i = 0; i < kKeysAWriter; ++i) {
    std::string key = "w" + std::to_string(index) + "-" + std::to_string(i);
    if (i == 0) key += std::string("\0\r\n\xff", 4);
    ledger_.AddKey(key);
  }
}

Writer::~Writer() { Stop(); }

void Writer::Run() {
  stopping_ = false;
  thread_ = std::thread([this] { Loop(); });
}

void Writer::Stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void Writer::Loop() {
  while (!stopping_) OneCommand();
}

void Writer::OneCommand() {
  const std::string key = ledger_.keys()[random_.Below(ledger_.keys().size())];
  const uint64_t what = random_.Below(100);
  if (what < 25) return flushes_ ? Set(key) : PutByClient(key);
  if (what < 50) return Set(key);
  if (what < 64) return Delete(key);
  if (what < 76) return ChangeEnd(key);
  if (what < 84) return ChangePin(key);
  if (flushes_ && what < 86) return Flush();
  Read(key);
}

Held Writer::NewValue() { return {.number = next_number_++, .size = SizeOf(random_)}; }

// A broken connection is made anew for the next command; this one's outcome is unknown.
RedisReply Writer::Call(const std::vector<std::string_view>& words) {
  if (redis_ == nullptr || !redis_->connected()) {
    redis_ = std::make_unique<Redis>(
        "127.0.0.1", static_cast<uint16_t>(std::stoi(system_->Options().master.substr(10))), HangGuardMs(20'000));
    if (flushes_ && !redis_->Call({"SELECT", std::to_string(kFlushedSpace)}).is_ok()) {
      redis_.reset();
      return {};
    }
  }
  return redis_->Call(words);
}

void Writer::PutByClient(const std::string& key) {
  if (client_ == nullptr) client_ = system_->ConnectClient();
  if (client_ == nullptr) return;
  Held value = NewValue();
  const std::string bytes = ValueOf(value.number, value.size);
  PutOptions options;
  options.replace = !ledger_.KnownAbsent(key);
  if (random_.OneIn(3)) options.replicas = 2;
  if (random_.OneIn(6)) options.hard_pin = value.hard_pin = true;
  if (random_.OneIn(5)) options.ttl_ms = random_.OneIn(2) ? 200 + random_.Below(400) : 3'600'000;
  const uint64_t floor = journal_->highest();
  Span when{.from_ms = WallMs()};
  const auto put = client_->Put(key, bytes, options);
  when.to_ms = WallMs();
  if (options.ttl_ms.has_value()) value.end = Span{when.from_ms + *options.ttl_ms, when.to_ms + *options.ttl_ms};
  if (!put.ok()) {
    if (!options.replace && put.error().code() == ErrorCode::kExists) {
      journal_->Fault(key + " is absent, and a put says that it exists: " + put.error().ToString());
    }
    return ledger_.Put(key, value, Outcome::kUnknown);
  }
  value.version = put->version;
  if (put->version.value <= floor && put->outcome == PutOutcome::kStored) {
    journal_->Fault(key + " got version " + std::to_string(put->version.value) + " after " + std::to_string(floor));
  }
  journal_->Told(put->version);
  ledger_.Put(key, value, Outcome::kDone);
  Note(Outcome::kDone);
}

void Writer::Set(const std::string& key) {
  Held value = NewValue();
  const std::string bytes = ValueOf(value.number, value.size);
  std::vector<std::string> words = {"SET", key, bytes};
  std::optional<int64_t> ttl_ms;
  if (random_.OneIn(5)) ttl_ms = random_.OneIn(2) ? 200 + random_.Below(400) : 3'600'000;
  if (ttl_ms.has_value()) words.insert(words.end(), {"PX", std::to_string(*ttl_ms)});
  Span when{.from_ms = WallMs()};
  const RedisReply reply = Call({words.begin(), words.end()});
  when.to_ms = WallMs();
  if (ttl_ms.has_value()) value.end = Span{when.from_ms + *ttl_ms, when.to_ms + *ttl_ms};
  const Outcome outcome = reply.is_ok() ? Outcome::kDone : Outcome::kUnknown;
  ledger_.Put(key, value, outcome);
  Note(outcome);
}

void Writer::Delete(const std::string& key) {
  Outcome outcome = Outcome::kUnknown;
  if (!flushes_ && client_ != nullptr && random_.OneIn(2)) {
    if (client_->Remove(key).ok()) outcome = Outcome::kDone;
  } else if (Call({"DEL", key}).type == REDIS_REPLY_INTEGER) {
    outcome = Outcome::kDone;
  }
  ledger_.Delete(key, outcome);
  Note(outcome);
}

void Writer::ChangeEnd(const std::string& key) {
  const bool ends = random_.Below(3) != 0;
  const int64_t ttl_ms = random_.OneIn(4) ? 200 + static_cast<int64_t>(random_.Below(400)) : 3'600'000;
  Span when{.from_ms = WallMs()};
  const RedisReply reply = ends ? Call({"PEXPIRE", key, std::to_string(ttl_ms)}) : Call({"PERSIST", key});
  when.to_ms = WallMs();
  std::optional<Span> end;
  if (ends) end = Span{when.from_ms + ttl_ms, when.to_ms + ttl_ms};
  Outcome outcome = Outcome::kUnknown;
  if (reply.type == REDIS_REPLY_INTEGER) outcome = reply.integer == 1 ? Outcome::kDone : Outcome::kRefused;
  ledger_.Expire(key, end, outcome);
  Note(outcome);
}

void Writer::ChangePin(const std::string& key) {
  const bool hard = random_.OneIn(2);
  const RedisReply reply = Call({"PIN", key, hard ? "HARD" : "NONE"});
  Outcome outcome = reply.is_ok() ? Outcome::kDone : Outcome::kUnknown;
  if (reply.is_error() && (reply.text.starts_with("NOKEY") || reply.text.starts_with("PINFULL"))) {
    outcome = Outcome::kRefused;
  }
  ledger_.Pin(key, hard, outcome);
  Note(outcome);
}

void Writer::Flush() {
  const Outcome outcome = Call({"FLUSHDB"}).is_ok() ? Outcome::kDone : Outcome::kUnknown;
  ledger_.Flush(outcome);
  Note(outcome);
}

void Writer::Read(const std::string& key) {
  std::string fault;
  if (!flushes_ && client_ != nullptr && random_.OneIn(2)) {
    const auto got = client_->Get(key);
    if (got.ok() && got->has_value()) fault = ledger_.CheckBytes(key, (*got)->view());
  } else if (const RedisReply got = Call({"GET", key}); got.type == REDIS_REPLY_STRING) {
    fault = ledger_.CheckBytes(key, got.text);
  }
  if (!fault.empty()) journal_->Fault("while running: " + fault);
}

// ---- reading back

Seen Writer::Look(const std::string& key) {
  Seen seen;
  seen.when.from_ms = WallMs();
  const RedisReply about = Call({"OBJECT", "PLACES", key});
  seen.when.to_ms = WallMs();
  if (about.is_error() || about.broken()) journal_->Fault(key + " cannot be looked at: " + about.Describe());
  if (about.type == REDIS_REPLY_ARRAY) {
    const RedisReply got = Call({"GET", key});
    if (got.type == REDIS_REPLY_STRING) {
      seen.bytes = got.text;
    } else if (about.Field("ttl-ms").integer < 0) {
      journal_->Fault(key + " is listed and not read: " + got.Describe() + " of " + about.Describe().substr(0, 400));
    }
    seen.version = Version{static_cast<uint64_t>(about.Field("version").integer)};
    seen.ttl_ms = about.Field("ttl-ms").integer;
    seen.hard_pin = about.Field("hard-pin").integer == 1;
    if (!seen.bytes.has_value()) seen.when.to_ms = WallMs();
  }
  return seen;
}

void Writer::CheckAll() {
  redis_.reset();  // it may have broken unnoticed
  for (const std::string& key : ledger_.keys()) {
    const Seen seen = Look(key);
    if (const std::string fault = ledger_.Check(key, seen); !fault.empty()) journal_->Fault(fault);
    journal_->Told(seen.version);
    if (flushes_ || !seen.bytes.has_value() || seen.ttl_ms >= 0) continue;
    // The same through the client, which reads from the stores and verifies by itself.
    if (client_ == nullptr) client_ = system_->ConnectClient();
    const auto got = client_ == nullptr ? Result<std::optional<Buffer>>(Error(ErrorCode::kUnreachable, "no client"))
                                        : client_->Get(key);
    if (!got.ok() || !got->has_value() || (*got)->view() != *seen.bytes) {
      journal_->Fault(key + " is not read by the client as by RESP: " +
                      (got.ok() ? "other bytes or a miss" : got.error().ToString()));
    }
  }
}

// ---- Load

Load::Load(Deployment* system, uint64_t seed, int writers) {
  for (int i = 0; i < writers; ++i) {
    writers_.push_back(std::make_unique<Writer>(system, &journal_, seed, i, /*flushes=*/i + 1 == writers));
  }
}

void Load::Run() {
  for (auto& writer : writers_) writer->Run();
}

void Load::Stop() {
  for (auto& writer : writers_) writer->Stop();
}

void Load::CheckAll() {
  for (auto& writer : writers_) writer->CheckAll();
}

}  // namespace tiercel::test
