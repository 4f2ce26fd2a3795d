#include "server/net/server_shared.h"

#include "server/net/worker.h"

namespace tiercel::net {

void LiveLimits::Set(const Limits& limits) {
  max_clients = limits.max_clients;
  idle_timeout_ms = limits.idle_timeout_ms;
  idle_write_timeout_ms = limits.idle_write_timeout_ms;
  idle_read_timeout_ms = limits.idle_read_timeout_ms;
  put_wait_ms = limits.put_wait_ms;
  reply_budget_bytes = limits.reply_budget_bytes;
  proto_max_bulk_len = limits.proto_max_bulk_len;
  query_buffer_limit = limits.query_buffer_limit;
  query_buffers_total = limits.query_buffers_total;
}

Limits LiveLimits::Get() const {
  Limits limits;
  limits.max_clients = max_clients;
  limits.idle_timeout_ms = idle_timeout_ms;
  limits.idle_write_timeout_ms = idle_write_timeout_ms;
  limits.idle_read_timeout_ms = idle_read_timeout_ms;
  limits.put_wait_ms = put_wait_ms;
  limits.reply_budget_bytes = reply_budget_bytes;
  limits.proto_max_bulk_len = proto_max_bulk_len;
  limits.query_buffer_limit = query_buffer_limit;
  limits.query_buffers_total = query_buffers_total;
  return limits;
}

namespace {

// What only rises, by reference: RESETSTAT subtracts exactly these.
template <typename Figures, typename F>
void ForEachCount(Figures& figures, F&& f) {
  f(figures.connections_received);
  f(figures.connections_rejected);
  f(figures.closed_idle);
  f(figures.closed_slow_reader);
  f(figures.closed_protocol_error);
  f(figures.closed_corrupt);
  f(figures.commands);
  f(figures.bytes_in);
  f(figures.bytes_out);
  f(figures.reads);
  f(figures.writes);
  f(figures.values_received);
  f(figures.values_sent);
  f(figures.value_bytes_received);
  f(figures.value_bytes_sent);
  f(figures.accept_pauses);
  f(figures.versions_refused);
}

void AddCounts(const WorkerStats& stats, ServerFigures* sum) {
  sum->connections_received += stats.connections_received.get();
  sum->connections_rejected += stats.connections_rejected.get();
  sum->closed_idle += stats.closed_idle.get();
  sum->closed_slow_reader += stats.closed_slow_reader.get();
  sum->closed_protocol_error += stats.closed_protocol_error.get();
  sum->closed_corrupt += stats.closed_corrupt.get();
  sum->commands += stats.commands.get();
  sum->bytes_in += stats.bytes_in.get();
  sum->bytes_out += stats.bytes_out.get();
  sum->reads += stats.reads.get();
  sum->writes += stats.writes.get();
  sum->values_received += stats.values_received.get();
  sum->values_sent += stats.values_sent.get();
  sum->value_bytes_received += stats.value_bytes_received.get();
  sum->value_bytes_sent += stats.value_bytes_sent.get();
  sum->accept_pauses += stats.accept_pauses.get();
  sum->connections += stats.connections.load(std::memory_order_relaxed);
  sum->parked += stats.parked.load(std::memory_order_relaxed);
}

}  // namespace

// With a row for every command and every error word, so that sums and baselines line up.
ServerFigures ServerShared::Sum() const {
  ServerFigures sum;
  sum.by_command.resize(resp::kCommandIdCount);
  sum.by_error.resize(kErrorCount + 1);
  sum.versions_refused = versions_refused.load(std::memory_order_relaxed);
  for (const Worker* worker : workers) {
    const WorkerStats& stats = worker->stats();
    AddCounts(stats, &sum);
    for (size_t i = 0; i < resp::kCommandIdCount; ++i) {
      sum.by_command[i].calls += stats.by_command[i].calls.get();
      sum.by_command[i].usec += stats.by_command[i].nanos.get();  // nanoseconds until Figures rounds them
      sum.by_command[i].failed += stats.by_command[i].failed.get();
      sum.by_command[i].rejected += stats.by_command[i].rejected.get();
    }
    for (size_t i = 0; i <= kErrorCount; ++i) sum.by_error[i].second += stats.by_error[i].get();
  }
  return sum;
}

ServerFigures ServerShared::Figures() const {
  ServerFigures now = Sum();
  ServerFigures before;
  {
    std::lock_guard lock(stats_mutex_);
    before = baseline_;
  }
  before.by_command.resize(now.by_command.size());
  before.by_error.resize(now.by_error.size());
  std::vector<uint64_t> base;
  ForEachCount(before, [&](uint64_t value) { base.push_back(value); });
  size_t next = 0;
  ForEachCount(now, [&](uint64_t& value) { value -= base[next++]; });

  ServerFigures out = now;
  out.by_command.clear();
  out.by_error.clear();
  for (size_t i = 0; i < now.by_command.size(); ++i) {
    ServerFigures::Command row = now.by_command[i];
    row.calls -= before.by_command[i].calls;
    row.usec = (row.usec - before.by_command[i].usec) / 1000;
    row.failed -= before.by_command[i].failed;
    row.rejected -= before.by_command[i].rejected;
    if (row.calls == 0 && row.rejected == 0) continue;
    row.name = resp::SpecOf(static_cast<resp::CommandId>(i)).name;
    out.by_command.push_back(std::move(row));
  }
  for (size_t i = 0; i < now.by_error.size(); ++i) {
    const uint64_t count = now.by_error[i].second - before.by_error[i].second;
    if (count == 0) continue;
    out.by_error.emplace_back(i < kErrorCount ? std::string(kErrorTable[i].word) : "OTHER", count);
  }
  return out;
}

void ServerShared::ResetStats() {
  ServerFigures sum = Sum();
  std::lock_guard lock(stats_mutex_);
  baseline_ = std::move(sum);
}

}  // namespace tiercel::net
