// Names of hosts, looked up where nobody waits for it: the system's resolver has no deadline and may take minutes.
//
// A first look-up is waited for shortly. What takes longer goes on in the background, fails this attempt to connect,
// and is there for the next one. Answers are used again; old ones too, while they are being asked for anew.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tiercel/result.h"
#include "transfer/tcp/address.h"

namespace tiercel::transfer::tcp {

class Resolver {
 public:
  using Addresses = std::vector<SocketAddress>;
  using LookUp = std::function<Result<Addresses>(const std::string& host, uint16_t port)>;
  struct Options {
    int64_t wait_ms = 100;         // for a name that was not known; all that Find ever blocks
    int64_t fresh_ms = 30'000;     // then an answer is asked for anew
    const Clock* clock = nullptr;  // of fresh_ms; nullptr: the machine's
    LookUp look_up;                // empty: the system's
  };
  static constexpr size_t kMaxNames = 1024;  // beyond, those that nobody is asking for are forgotten

  explicit Resolver(Options options);
  // Does not wait for a look-up under way: its thread ends by itself.
  ~Resolver() = default;

  // Numeric addresses at once. kUnreachable: the name has no address, or none yet. Thread-safe.
  Result<Addresses> Find(const std::string& host, uint16_t port);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace tiercel::transfer::tcp
