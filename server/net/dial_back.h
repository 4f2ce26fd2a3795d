// DialBack: can this address be reached from here? Connects over TCP and closes again; nothing is sent.
//
// Belongs to a loop. Destroying it before it has ended cancels: the callback is then never called.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/loop/loop.h"
#include "tiercel/result.h"

namespace tiercel::net {

class DialBack {
 public:
  // In the loop. `address` is host:port or [v6]:port; names are resolved, all addresses are tried in order. The
  // callback runs in the loop, never from within Start: Ok, or kUnreachable naming the address tried last.
  static std::unique_ptr<DialBack> Start(Loop& loop, const std::string& address, int64_t timeout_ms,
                                         std::function<void(Status)> callback);
  ~DialBack();

 private:
  struct Attempt;
  explicit DialBack(std::shared_ptr<Attempt> attempt);
  std::shared_ptr<Attempt> attempt_;
};

// "host:port", "[v6]:port" -> host and port; nullopt when malformed.
bool SplitHostPort(const std::string& address, std::string* host, std::string* port);

}  // namespace tiercel::net
