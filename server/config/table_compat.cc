// Rows: directives of Redis that tools ask for. Each has the one value that describes this server.
#include "server/config/rows.h"

namespace tiercel::config {

void AddCompatibilityRows(Rows* rows) {
  rows->In(Section::kCompatibility);
  rows->Add(Fixed("maxmemory-policy", "allkeys-lru", "What eviction comes closest to in Redis's words."));
  rows->Add(Fixed("save", "", "There are no snapshots."));
  rows->Add(Fixed("appendonly", "no", "There is no append-only file."));
  rows->Add(Fixed("notify-keyspace-events", "", "Key-space events are not published to subscribers."));
  rows->Add(Fixed("slowlog-log-slower-than", "-1", "There is no slow log."));
  rows->Add(Fixed("slowlog-max-len", "0", "There is no slow log."));
  rows->Add(Fixed("latency-monitor-threshold", "0", "There is no latency monitor."));
  rows->Add(Fixed("hz", "10", "Housekeeping runs when there is something to do, not so many times a second."));
}

}  // namespace tiercel::config
