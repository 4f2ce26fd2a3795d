// What a connection is: the state that commands read and change. Belongs to the session's loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "server/core/master.h"
#include "server/core/types.h"

namespace tiercel::net {

// The store that speaks on this connection, after its JOIN was accepted here or named by a later connection.
struct StoreBinding {
  core::StoreSlot slot = 0;
  Incarnation incarnation;
  bool joined_here = true;  // by STORE JOIN; else by ATTACH: it reports, but fetches no work
};

// How far a command has come that runs in several pieces, or again after it was parked. Reset for each command.
struct Progress {
  uint32_t attempt = 0;     // 0 on the first run; rises with each re-run
  bool timed_out = false;   // this run came because the deadline passed
  int64_t deadline_ms = 0;  // boot clock; 0: none was set
  uint64_t cursor = 0;      // the handler's own
  uint64_t count = 0;       // the handler's own
  std::string text;         // the handler's own; bounded by whoever fills it
  core::Seq waited = 0;     // what the reply, not encoded yet, rests on; an undone position stays here
  bool partial = false;     // a part of the reply was encoded by an earlier run
  // Outcome of DialBack, once it has come.
  std::optional<Status> dialed;

  bool begun() const { return attempt != 0 || cursor != 0 || count != 0 || !text.empty(); }
};

struct SessionState {
  core::ConnectionId id = 0;
  // Who
  std::string user = "default";
  uint64_t user_id = 0;  // UserId(user)
  bool authenticated = false;
  bool store_right = false;  // may use STORE commands
  bool in_process = false;   // the embedded store's own connection
  std::string name, lib_name, lib_version;
  std::string peer_address, local_address;  // "ip:port", "[v6]:port", "unix:path"
  std::string peer_ip;                      // of the peer, without port; empty for UNIX sockets and in-process
  std::string host_id;                      // what TICKET HOST told: where this caller is
  // How
  int protocol = 2;
  uint32_t name_space = 0;
  enum class ReplyMode : uint8_t { kOn, kOff, kSkipNext, kSkipThis } reply_mode = ReplyMode::kOn;
  bool no_evict = false, no_touch = false;
  // Store
  std::optional<StoreBinding> store;
  // Called once under the core's lock when the connection has gone, after ConnectionClosed. Set by STORE commands.
  std::function<void(core::Master&, Times)> on_close;

  Progress progress;
};

}  // namespace tiercel::net
