// The admin port: HTTP for operators. Read-only.
//
//   /healthz   200 as long as the process answers
//   /readyz    200 when it serves, 503 with the reason while it does not
//   /metrics   Prometheus text format
//   /          a page for people: readiness and a few tables
//
// GET and HEAD only: 405 for other methods, 404 for other paths, 400 for what is malformed, 431 for more than 32 KiB of
// request line and header fields (414 when the line alone is longer). At most 64 connections at a time, 10 s for a
// request; one request a connection.
//
// Threads: one of its own, on which the handlers are called; nothing of the data path waits for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tiercel/result.h"

namespace tiercel::admin {

enum class MetricType : uint8_t { kCounter, kGauge };

struct Sample {
  double value = 0;
  std::vector<std::pair<std::string, std::string>> labels;
};
struct MetricFamily {
  std::string name;  // [a-z_]+; counters end with _total
  MetricType type = MetricType::kGauge;
  std::string help;
  std::vector<Sample> samples;
};
std::string MetricsText(const std::vector<MetricFamily>& families);

struct Readiness {
  bool ready = false;
  std::string reason;  // one line, when not ready
};

struct StatusTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
std::string StatusPage(const Readiness& readiness, const std::vector<StatusTable>& tables);

struct AdminHandlers {
  std::function<Readiness()> readiness;
  std::function<std::vector<MetricFamily>()> metrics;
  std::function<std::vector<StatusTable>()> status;
};

struct AdminOptions {
  std::vector<std::string> binds = {"127.0.0.1", "-::1"};  // addresses or names; "-ADDRESS": may fail; "*": all
  uint16_t port = 0;                                       // 0: a free one, the same for all
};

class AdminServer {
 public:
  virtual ~AdminServer() = default;  // stops: no handler runs any more when it returns
  virtual uint16_t port() const = 0;
  virtual std::vector<std::string> addresses() const = 0;  // host:port, [v6]:port
};

// kIo naming the address that cannot be bound.
Result<std::unique_ptr<AdminServer>> StartAdmin(const AdminOptions& options, const AdminHandlers& handlers);

}  // namespace tiercel::admin
