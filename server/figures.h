// Figures of a running process: one table of rows, each shown by INFO and exported at /metrics.
//
// A sample is taken once per question, the core's part under its lock for a few microseconds.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/index_host.h"
#include "server/net/master_host.h"
#include "server/net/ports.h"
#include "server/net/server.h"
#include "server/node/node.h"
#include "server/node/payload.h"

namespace tiercel::server {

// Everything that the rows read. Parts that a process does not have are left at their defaults.
struct Sample {
  bool is_master = false, is_store = false;
  core::Counters counters;
  core::TierFigures dram;
  uint64_t metadata_bytes = 0, metadata_max_bytes = 0, open_puts = 0, generation = 0, objects = 0;
  uint64_t stores_serving = 0, stores_other = 0;
  core::RestoreFigures restored;
  bool index_read_only = false;
  uint64_t index_wait = 0;  // records on their way to the index
  index::IndexFigures index;
  IndexHost::Saves saves;
  node::NodeFigures node;
  node::PayloadFigures payload;
  net::ServerFigures front;
};

struct FigureRow {
  enum class Kind : uint8_t { kCounter, kGauge };
  std::string_view section;  // of INFO, as it stands behind "# "
  std::string_view name;     // in INFO; "tiercel_" + name (+ "_total" for counters) at /metrics
  Kind kind;
  bool of_master;  // shown by a master, else by a store
  std::string_view help;
  double (*value)(const Sample&);
};
std::span<const FigureRow> FigureTable();

class Figures final : public net::InfoPort {
 public:
  struct Sources {
    net::MasterHost* host = nullptr;  // nullptr: no master's role
    IndexHost* index = nullptr;       // with the host
    node::Node* node = nullptr;       // nullptr: no store's role
    node::Payload* payload = nullptr;
    net::Server* front = nullptr;  // set when it exists
  };
  // The sources outlive this.
  explicit Figures(const Sources& sources) : sources_(sources) {}
  void SetFront(net::Server* front) { sources_.front = front; }  // before anybody asks

  Sample Take() const;
  std::vector<std::string> Sections() const override;
  void Append(std::string_view section, std::string* out) const override;

 private:
  Sources sources_;
};

}  // namespace tiercel::server
