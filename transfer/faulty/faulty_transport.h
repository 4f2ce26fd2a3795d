// A wrapper around any transport that fails, holds and counts as a script says. For tests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transfer/transport.h"

namespace tiercel::transfer::faulty {

// Shared by the test and the transport; thread-safe. Decisions are functions, so that a test says exactly what it
// means; they run under the script's own lock and must not call it.
class Script {
 public:
  enum class Fate : uint8_t { kPass, kFail, kHold };
  struct Posted {
    OpKind kind{};
    const std::byte* memory = nullptr;
    uint64_t offset = 0;
    uint64_t length = 0;
  };

  // ---- what happens
  void OnPost(std::function<Fate(const Posted&, uint64_t count)> decide, Error error);  // count: posts before this
  void FailPosts(std::optional<Error> error);  // all of them, until told nullopt
  void OnOpen(std::function<std::optional<Error>(uint64_t count)> decide);
  void OnRegister(std::function<std::optional<Error>(uint64_t count)> decide);
  void HoldRegistrations(bool hold);
  void SetLimits(const TransportLimits& limits);
  // Held slices go to the wrapped transport, or fail with `error`.
  void ReleaseHeld(std::optional<Error> error = std::nullopt);

  // ---- what happened
  uint64_t posts() const;
  std::vector<Posted> posted() const;
  uint64_t opens() const;
  uint64_t registrations() const;  // calls
  uint64_t regions() const;        // registered now
  uint64_t held() const;
  void WaitForHeldRegistration();

 private:
  friend class FaultyTransport;
  friend class FaultyRail;
  friend class FaultyRegion;
  struct Held {
    std::shared_ptr<class FaultyRail> rail;
    Slice* slice;
    uint64_t serial;
  };

  mutable std::mutex mu_;
  std::condition_variable changed_;
  std::function<Fate(const Posted&, uint64_t)> on_post_;
  Error post_error_{ErrorCode::kUnreachable, "scripted failure"};
  std::optional<Error> fail_posts_;
  std::function<std::optional<Error>(uint64_t)> on_open_;
  std::function<std::optional<Error>(uint64_t)> on_register_;
  bool hold_registrations_ = false;
  uint64_t waiting_registrations_ = 0;
  TransportLimits limits_;
  std::vector<Posted> posted_;
  std::vector<Held> held_;
  uint64_t opens_ = 0;
  uint64_t registrations_ = 0;
  uint64_t regions_ = 0;
};

// `kind`: what it says it is; kFaulty stands behind all others in the default preference.
std::unique_ptr<Transport> MakeTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Script> script,
                                         TransportKind kind = TransportKind::kFaulty);

}  // namespace tiercel::transfer::faulty
