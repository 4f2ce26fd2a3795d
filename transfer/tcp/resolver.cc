#include "transfer/tcp/resolver.h"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tiercel::transfer::tcp {

// Shared with the thread that looks up, which may outlive the resolver: it may be stuck in the system's.
struct Resolver::State {
  using Name = std::pair<std::string, uint16_t>;
  struct Entry {
    Addresses addresses;
    int64_t fresh_until_ms = 0;
    bool asking = false;
    std::optional<Error> failure;  // of a look-up, while there is no address; told once
  };

  explicit State(Options o) : options(std::move(o)) {
    if (options.clock == nullptr) options.clock = &SystemClock::Get();
    if (!options.look_up) {
      options.look_up = [](const std::string& host, uint16_t port) { return Resolve(host, port, /*passive=*/false); };
    }
  }
  int64_t NowMs() const { return options.clock->Now().boot_ms; }
  void AskLocked(const std::shared_ptr<State>& self, const Name& name, Entry* entry);
  void Work();

  Options options;
  std::mutex mu;
  std::condition_variable answered;
  std::map<Name, Entry> entries;
  std::deque<Name> queue;  // entries that are `asking`
  bool working = false;    // there is a thread
};

void Resolver::State::AskLocked(const std::shared_ptr<State>& self, const Name& name, Entry* entry) {
  entry->asking = true;
  queue.push_back(name);
  if (std::exchange(working, true)) return;
  std::thread([self] { self->Work(); }).detach();
}

void Resolver::State::Work() {
  std::unique_lock lock(mu);
  while (!queue.empty()) {
    const Name name = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    Result<Addresses> found = options.look_up(name.first, name.second);
    lock.lock();
    if (found.ok() && found->empty()) found = Error(ErrorCode::kUnreachable, "resolve " + name.first + ": no address");
    Entry& entry = entries[name];
    entry.asking = false;
    entry.fresh_until_ms = NowMs() + options.fresh_ms;
    if (found.ok()) {
      entry.addresses = std::move(found).value();
      entry.failure.reset();
    } else if (entry.addresses.empty()) {  // what was right before is better than nothing
      entry.failure = std::move(found).error();
    }
    answered.notify_all();
  }
  working = false;
}

Resolver::Resolver(Options options) : state_(std::make_shared<State>(std::move(options))) {}

Result<Resolver::Addresses> Resolver::Find(const std::string& host, uint16_t port) {
  if (auto numeric = NumericAddress(host, port)) return Addresses{*numeric};
  State& state = *state_;
  const State::Name name(host, port);
  std::unique_lock lock(state.mu);
  if (state.entries.size() >= kMaxNames && !state.entries.contains(name)) {
    std::erase_if(state.entries, [](const auto& item) { return !item.second.asking; });
    if (state.entries.size() >= kMaxNames) return Error(ErrorCode::kUnreachable, "too many names are being resolved");
  }
  State::Entry& entry = state.entries[name];
  if (!entry.addresses.empty()) {
    if (!entry.asking && state.NowMs() >= entry.fresh_until_ms) state.AskLocked(state_, name, &entry);
    return entry.addresses;
  }
  if (!entry.asking && !entry.failure) state.AskLocked(state_, name, &entry);
  // Others may forget the entry, or tell its failure, meanwhile.
  const auto asking = [&] {
    const auto found = state.entries.find(name);
    return found != state.entries.end() && found->second.asking;
  };
  (void)state.answered.wait_for(lock, std::chrono::milliseconds(state.options.wait_ms), [&] { return !asking(); });
  State::Entry& now = state.entries[name];
  if (!now.addresses.empty()) return now.addresses;
  if (now.failure) return *std::exchange(now.failure, std::nullopt);
  return Error(ErrorCode::kUnreachable, fmt::format("resolve {}: no answer yet", host));
}

}  // namespace tiercel::transfer::tcp
