// A store as the master knows it: its puts that are not closed yet, the work that it fetches, its keys.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/core/flat_map.h"
#include "server/core/types.h"

namespace tiercel::core {

// A put that the store may still be writing. Leaves the table when the store has answered CLOSED (or, for a put of
// this process, when its writer has ended it).
struct OpenPut {
  enum class State : uint8_t { kOpen, kCloseQueued, kCloseSent } state = State::kOpen;
  uint32_t held = 0;  // space that waits for it
  int64_t close_since_ms = 0;
};

struct Store {
  StoreInfo info;
  StoreSlot slot = 0;
  std::vector<uint32_t> segments;  // serving
  std::vector<uint32_t> staged;
  std::optional<Error> staging_error;
  bool connected = false;    // has a control connection: its name is taken
  bool ready = false;        // was ready in this incarnation
  bool paused = false;       // has said that it will be back: until its next join
  bool must_rejoin = false;  // did not close a put in time
  // Its segments are to be named again before READY, those that are not are gone: after a restart of the master, or of
  // the store on the same storage.
  bool must_announce = false;
  StoreInfo noted;            // as the index knows it (name, storage id, host, incarnation)
  uint64_t closed_below = 0;  // puts below may be former masters': to be closed before space is given out
  std::optional<int64_t> leave_at_ms;
  uint32_t host = 0;                         // equal for stores on one host
  std::map<uint32_t, uint32_t> gone_epochs;  // by segment id, of this storage: may not come again

  FlatMap<OpenPut> open;
  std::deque<uint64_t> open_order;  // versions as they were opened; closed ones are dropped lazily
  std::deque<uint64_t> to_close;
  int64_t next_release_check_ms = 0;
  uint32_t waiting = 0;  // Held that wait for the store to speak again, chained

  std::deque<uint64_t> work;  // ids to hand out
  uint32_t work_items = 0;    // queued or handed out

  // Grants are sealed with this key, the newest that the store is known to have.
  uint32_t sealing_key = 1;
  GrantKey seal;
};

}  // namespace tiercel::core
