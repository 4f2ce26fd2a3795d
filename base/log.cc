#include "base/log.h"

#include <fcntl.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>

#include "base/fd.h"

namespace tiercel {
namespace {

using Sink = std::unique_ptr<spdlog::sinks::sink>;

constexpr const char* kNames[] = {"debug", "verbose", "notice", "warning", "error"};

void SetPattern(spdlog::sinks::sink* sink) {
  sink->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%d %H:%M:%S.%e %P %v"));
}

Sink StandardError() {
  Sink sink = std::make_unique<spdlog::sinks::stderr_sink_st>();
  SetPattern(sink.get());
  return sink;
}

// The one log of the process. A leaf: nothing is called under its lock but the sink.
struct Destination {
  std::mutex lock;
  Sink sink = StandardError();
  std::atomic<bool> to_file{false};
};

// Never destroyed: threads may log while the process ends.
Destination& TheDestination() {
  static Destination& destination = *new Destination;
  return destination;
}

std::atomic<int> g_level{static_cast<int>(LogLevel::kNotice)};

Result<Sink> OpenFile(const std::string& file) {
  // The library creates missing directories and retries with sleeps; a plain open says at once what is wrong.
  const UniqueFd probe(open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!probe) return SystemError("open log file " + file, errno);
  try {
    Sink sink = std::make_unique<spdlog::sinks::basic_file_sink_st>(file);
    SetPattern(sink.get());
    return sink;
  } catch (const spdlog::spdlog_ex& e) {
    return Error(ErrorCode::kIo, "open log file " + file + ": " + e.what());
  }
}

}  // namespace

Status OpenLog(const std::string& file, LogLevel level) {
  Sink sink;
  if (file.empty()) {
    sink = StandardError();
  } else {
    TIERCEL_ASSIGN(sink, OpenFile(file));
  }
  Destination& destination = TheDestination();
  {
    const std::lock_guard hold(destination.lock);
    destination.sink.swap(sink);
    destination.to_file = !file.empty();
  }
  SetLogLevel(level);
  return Ok();
}

void SetLogLevel(LogLevel level) { g_level.store(static_cast<int>(level), std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) {
  return level != LogLevel::kNothing && static_cast<int>(level) >= g_level.load(std::memory_order_relaxed);
}

void LogLine(LogLevel level, std::string_view line) {
  if (!LogEnabled(level)) return;
  std::string text = kNames[static_cast<int>(level)];
  text += ' ';
  text += line;
  // One event is one line, whatever a key or a peer's message contains.
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  const spdlog::details::log_msg message("", spdlog::level::info, text);
  Destination& destination = TheDestination();
  const std::lock_guard hold(destination.lock);
  try {
    destination.sink->log(message);
    destination.sink->flush();
  } catch (const spdlog::spdlog_ex&) {
    // A full disk must not stop the service, and there is nowhere left to say so.
  }
}

void FlushLog() {
  Destination& destination = TheDestination();
  const std::lock_guard hold(destination.lock);
  try {
    destination.sink->flush();
  } catch (const spdlog::spdlog_ex&) {
  }
}

bool LogGoesToFile() { return TheDestination().to_file; }

int64_t LogLimiter::Admit(int64_t boot_ms) {
  int64_t next_ms = next_ms_.load(std::memory_order_relaxed);
  while (boot_ms >= next_ms) {
    if (next_ms_.compare_exchange_weak(next_ms, boot_ms + period_ms_)) return skipped_.exchange(0);
  }
  skipped_.fetch_add(1, std::memory_order_relaxed);
  return -1;
}

}  // namespace tiercel
