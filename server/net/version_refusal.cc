#include "server/net/version_refusal.h"

#include "base/log.h"
#include "server/net/server_shared.h"

namespace tiercel::net {

Outcome RefuseVersion(CommandContext& c, std::string sentence) {
  c.server.versions_refused.fetch_add(1, std::memory_order_relaxed);
  static LogLimiter limiter;
  if (const int64_t skipped = limiter.Admit(c.now.boot_ms); skipped >= 0) {
    c.Unlocked([&] {  // a line of the log is a system call
      Log(LogLevel::kWarning, "{} is refused: {} ({} more like this)",
          c.state.peer_address.empty() ? "a connection of this process" : c.state.peer_address, sentence, skipped);
    });
  }
  return c.Fail(ErrorCode::kNoProto, std::move(sentence));
}

}  // namespace tiercel::net
