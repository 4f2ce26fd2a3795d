// INFO: Redis's sections with the field names that its exporters and dashboards read, and those of this server.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "base/memory_limits.h"
#include "base/units.h"
#include "server/net/handlers.h"
#include "server/net/server_shared.h"
#include "server/net/text.h"

namespace tiercel::net {
namespace {

// Everything that sections are made of, taken once.
struct Snapshot {
  Times now;
  ServerFigures figures;
  bool is_master = false;
  core::Counters counters;
  core::TierFigures dram;
  std::array<core::TierFigures, kTierCount> tiers;
  std::vector<uint64_t> keys;  // by namespace
  uint64_t metadata_bytes = 0, metadata_max = 0, generation = 0, open_puts = 0, stores = 0;
  bool index_read_only = false;
};

Snapshot Take(CommandContext& c) {
  Snapshot snapshot;
  snapshot.now = c.now;
  snapshot.figures = c.server.Figures();
  if (c.server.host == nullptr) return snapshot;
  snapshot.is_master = true;
  c.server.host->With([&](core::Master& master, Times) {
    snapshot.counters = master.counters();
    for (int tier = 0; tier < kTierCount; ++tier) {
      snapshot.tiers[static_cast<size_t>(tier)] = master.Figures(static_cast<Tier>(tier));
    }
    for (uint32_t i = 0; i < c.server.options.databases; ++i) snapshot.keys.push_back(master.Size(i));
    snapshot.metadata_bytes = master.metadata_bytes();
    snapshot.metadata_max = master.options().metadata_max_bytes;
    snapshot.generation = master.generation();
    snapshot.open_puts = master.open_puts();
    snapshot.stores = master.Stores().size();
    snapshot.index_read_only = master.index_read_only();
  });
  snapshot.dram = snapshot.tiers[0];
  return snapshot;
}

class Lines {
 public:
  explicit Lines(std::string* out) : out_(out) {}
  template <typename T>
  void Add(std::string_view name, const T& value) {
    fmt::format_to(std::back_inserter(*out_), "{}:{}\r\n", name, value);
  }

 private:
  std::string* const out_;
};

uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long total = 0, resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

void ServerSection(CommandContext& c, const Snapshot& s, std::string* out) {
  Lines lines(out);
  const ServerOptions& options = c.server.options;
  utsname system{};
  ::uname(&system);
  const int64_t uptime_s = (s.now.boot_ms - c.server.started.boot_ms) / 1000;
  lines.Add("redis_version", kRedisVersion);
  lines.Add("redis_mode", "standalone");
  lines.Add("server_name", "tiercel");
  lines.Add("tiercel_version", options.version);
  lines.Add("os", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  lines.Add("arch_bits", 64);
  lines.Add("monotonic_clock", "CLOCK_BOOTTIME");
  lines.Add("multiplexing_api", "epoll");
  lines.Add("process_id", ::getpid());
  lines.Add("run_id", options.run_id);
  lines.Add("tcp_port", c.server.port);
  lines.Add("server_time_usec", s.now.wall_ms * 1000);
  lines.Add("uptime_in_seconds", uptime_s);
  lines.Add("uptime_in_days", uptime_s / 86400);
  lines.Add("hz", 10);
  lines.Add("configured_hz", 10);
  lines.Add("executable", options.executable);
  lines.Add("config_file", options.config_file);
  lines.Add("io_threads_active", c.server.workers.size() > 1 ? 1 : 0);
  for (size_t i = 0; i < c.server.addresses.size(); ++i) {
    lines.Add(fmt::format("listener{}", i), c.server.addresses[i]);
  }
}

void ClientsSection(CommandContext& c, const Snapshot& s, std::string* out) {
  Lines lines(out);
  uint64_t query = 0, output = 0;
  for (const auto& row : c.server.registry.All()) {
    query = std::max(query, row->query_bytes.load(std::memory_order_relaxed));
    output = std::max(output, row->output_bytes.load(std::memory_order_relaxed));
  }
  lines.Add("connected_clients", s.figures.connections);
  lines.Add("cluster_connections", 0);
  lines.Add("maxclients", c.server.limits.max_clients.load(std::memory_order_relaxed));
  lines.Add("client_recent_max_input_buffer", query);
  lines.Add("client_recent_max_output_buffer", output);
  lines.Add("blocked_clients", s.figures.parked);
  lines.Add("tracking_clients", 0);
  lines.Add("clients_in_timeout_table", 0);
}

void MemorySection(CommandContext&, const Snapshot& s, std::string* out) {
  Lines lines(out);
  const core::SpaceBytes& bytes = s.dram.bytes;
  const uint64_t dataset = bytes.live + bytes.reserved + bytes.quarantined();
  const uint64_t used = dataset + s.metadata_bytes;
  const uint64_t resident = ResidentBytes();
  MemoryLimits limits;
  if (const auto read = ReadMemoryLimits(); read.ok()) limits = *read;
  lines.Add("used_memory", used);
  lines.Add("used_memory_human", HumanBytes(used));
  lines.Add("used_memory_rss", resident);
  lines.Add("used_memory_rss_human", HumanBytes(resident));
  lines.Add("used_memory_overhead", s.metadata_bytes);
  lines.Add("used_memory_dataset", dataset);
  lines.Add("used_memory_dataset_perc", fmt::format("{:.2f}%", used == 0 ? 0.0 : 100.0 * dataset / used));
  lines.Add("total_system_memory", limits.total_bytes);
  lines.Add("total_system_memory_human", HumanBytes(limits.total_bytes));
  lines.Add("maxmemory", s.dram.usable);
  lines.Add("maxmemory_human", HumanBytes(s.dram.usable));
  lines.Add("maxmemory_policy", "allkeys-lru");
  lines.Add("mem_fragmentation_ratio", fmt::format("{:.2f}", used == 0 ? 1.0 : 1.0 * resident / used));
  lines.Add("mem_not_counted_for_evict", 0);
  lines.Add("lazyfree_pending_objects", 0);
  lines.Add("metadata_bytes", s.metadata_bytes);
  lines.Add("metadata_max_bytes", s.metadata_max);
}

void PersistenceSection(CommandContext& c, const Snapshot& s, std::string* out) {
  Lines lines(out);
  lines.Add("loading", c.server.loading.load(std::memory_order_relaxed) ? 1 : 0);
  lines.Add("async_loading", 0);
  const ProcessPort::Saves saves =
      c.server.ports.process == nullptr ? ProcessPort::Saves{} : c.server.ports.process->saves();
  lines.Add("rdb_changes_since_last_save", 0);
  lines.Add("rdb_bgsave_in_progress", saves.running ? 1 : 0);
  lines.Add("rdb_last_save_time", saves.last_wall_ms / 1000);
  lines.Add("rdb_last_bgsave_status", saves.last_failed ? "err" : "ok");
  lines.Add("aof_enabled", 0);
  lines.Add("aof_rewrite_in_progress", 0);
  lines.Add("index_read_only", s.index_read_only ? 1 : 0);
}

void StatsSection(CommandContext&, const Snapshot& s, std::string* out) {
  Lines lines(out);
  const ServerFigures& f = s.figures;
  uint64_t errors = 0;
  for (const auto& [word, count] : f.by_error) errors += count;
  lines.Add("total_connections_received", f.connections_received);
  lines.Add("total_commands_processed", f.commands);
  lines.Add("instantaneous_ops_per_sec", 0);
  lines.Add("total_net_input_bytes", f.bytes_in);
  lines.Add("total_net_output_bytes", f.bytes_out);
  lines.Add("rejected_connections", f.connections_rejected);
  lines.Add("expired_keys", s.counters.expired_objects);
  lines.Add("evicted_keys", s.counters.evicted_objects);
  lines.Add("keyspace_hits", s.counters.lookups_hit);
  lines.Add("keyspace_misses", s.counters.lookups_miss);
  lines.Add("pubsub_channels", 0);
  lines.Add("pubsub_patterns", 0);
  lines.Add("latest_fork_usec", 0);
  lines.Add("total_error_replies", errors);
  lines.Add("total_reads_processed", f.reads);
  lines.Add("total_writes_processed", f.writes);
  lines.Add("connections_closed_idle", f.closed_idle);
  lines.Add("connections_closed_slow_reader", f.closed_slow_reader);
  lines.Add("connections_closed_protocol_error", f.closed_protocol_error);
  lines.Add("connections_closed_corrupt_value", f.closed_corrupt);
  lines.Add("accept_pauses", f.accept_pauses);
  lines.Add("values_received", f.values_received);
  lines.Add("value_bytes_received", f.value_bytes_received);
  lines.Add("values_sent", f.values_sent);
  lines.Add("value_bytes_sent", f.value_bytes_sent);
}

void ReplicationSection(CommandContext&, const Snapshot&, std::string* out) {
  Lines lines(out);
  lines.Add("role", "master");
  lines.Add("connected_slaves", 0);
  lines.Add("master_repl_offset", 0);
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

void CpuSection(CommandContext&, const Snapshot&, std::string* out) {
  Lines lines(out);
  rusage own{}, children{};
  ::getrusage(RUSAGE_SELF, &own);
  ::getrusage(RUSAGE_CHILDREN, &children);
  lines.Add("used_cpu_sys", fmt::format("{:.6f}", Seconds(own.ru_stime)));
  lines.Add("used_cpu_user", fmt::format("{:.6f}", Seconds(own.ru_utime)));
  lines.Add("used_cpu_sys_children", fmt::format("{:.6f}", Seconds(children.ru_stime)));
  lines.Add("used_cpu_user_children", fmt::format("{:.6f}", Seconds(children.ru_utime)));
}

void ModulesSection(CommandContext&, const Snapshot&, std::string*) {}

void CommandStatsSection(CommandContext&, const Snapshot& s, std::string* out) {
  Lines lines(out);
  for (const ServerFigures::Command& row : s.figures.by_command) {
    const double per_call = row.calls == 0 ? 0.0 : static_cast<double>(row.usec) / static_cast<double>(row.calls);
    lines.Add(fmt::format("cmdstat_{}", row.name),
              fmt::format("calls={},usec={},usec_per_call={:.2f},rejected_calls={},failed_calls={}", row.calls,
                          row.usec, per_call, row.rejected, row.failed));
  }
}

void ErrorStatsSection(CommandContext&, const Snapshot& s, std::string* out) {
  Lines lines(out);
  for (const auto& [word, count] : s.figures.by_error) {
    lines.Add(fmt::format("errorstat_{}", word), fmt::format("count={}", count));
  }
}

void ClusterSection(CommandContext&, const Snapshot&, std::string* out) { Lines(out).Add("cluster_enabled", 0); }

void KeyspaceSection(CommandContext&, const Snapshot& s, std::string* out) {
  Lines lines(out);
  for (size_t i = 0; i < s.keys.size(); ++i) {
    if (s.keys[i] > 0) lines.Add(fmt::format("db{}", i), fmt::format("keys={},expires=0,avg_ttl=0", s.keys[i]));
  }
}

void TiercelSection(CommandContext& c, const Snapshot& s, std::string* out) {
  Lines lines(out);
  const core::Counters& n = s.counters;
  lines.Add("roles", !s.is_master ? "store" : "master");
  lines.Add("generation", s.generation);
  lines.Add("stores", s.stores);
  lines.Add("open_puts", s.open_puts);
  lines.Add("draining", c.server.draining.load(std::memory_order_relaxed) ? 1 : 0);
  lines.Add("puts_created", n.puts_created);
  lines.Add("puts_ended", n.puts_ended);
  lines.Add("puts_failed", n.puts_failed);
  lines.Add("puts_revoked", n.puts_revoked);
  lines.Add("puts_orphaned", n.puts_orphaned);
  lines.Add("puts_taken_over", n.puts_taken_over);
  lines.Add("puts_timed_out", n.puts_timed_out);
  lines.Add("puts_partial", n.puts_partial);
  lines.Add("puts_no_space", n.puts_no_space);
  lines.Add("evicted_bytes", n.evicted_bytes);
  lines.Add("evicted_soft_pinned", n.evicted_soft_pinned);
  lines.Add("deleted_objects", n.deleted_objects);
  lines.Add("replaced_objects", n.replaced_objects);
  lines.Add("lost_objects", n.lost_objects);
  lines.Add("leases_granted", n.leases_granted);
  lines.Add("leases_refused", n.leases_refused);
  lines.Add("replicas_corrupt", n.replicas_corrupt);
  lines.Add("replicas_unreachable", n.replicas_reported_unreachable);
  lines.Add("journal_failures", n.journal_failures);
  for (int tier = 0; tier < kTierCount; ++tier) {
    const core::TierFigures& f = s.tiers[static_cast<size_t>(tier)];
    if (f.configured == 0) continue;
    lines.Add(fmt::format("tier_{}", TierName(static_cast<Tier>(tier))),
              fmt::format("configured={},usable={},free={},reserved={},live={},quarantined={},leased={},soft_pinned={},"
                          "hard_pinned={},objects={}",
                          f.configured, f.usable, f.bytes.free, f.bytes.reserved, f.bytes.live, f.bytes.quarantined(),
                          f.leased, f.soft_pinned, f.hard_pinned, f.objects));
  }
}

struct Section {
  std::string_view name;
  bool by_default;
  void (*append)(CommandContext&, const Snapshot&, std::string*);
};

constexpr Section kSections[] = {
    {"Server", true, ServerSection},
    {"Clients", true, ClientsSection},
    {"Memory", true, MemorySection},
    {"Persistence", true, PersistenceSection},
    {"Stats", true, StatsSection},
    {"Replication", true, ReplicationSection},
    {"CPU", true, CpuSection},
    {"Modules", true, ModulesSection},
    {"Commandstats", false, CommandStatsSection},
    {"Errorstats", true, ErrorStatsSection},
    {"Cluster", true, ClusterSection},
    {"Keyspace", true, KeyspaceSection},
    {"Tiercel", true, TiercelSection},
};

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

bool Wanted(CommandContext& c, std::string_view name, bool by_default) {
  if (c.argc() == 1) return by_default;
  const std::string lower = LowerCase(name);
  for (size_t i = 1; i < c.argc(); ++i) {
    if (EqualsIgnoreCase(c.arg(i), lower)) return true;
    if (EqualsIgnoreCase(c.arg(i), "default") && by_default) return true;
    if (EqualsIgnoreCase(c.arg(i), "all") || EqualsIgnoreCase(c.arg(i), "everything")) return true;
  }
  return false;
}

void AppendTitle(std::string_view title, std::string* out) {
  if (!out->empty()) out->append("\r\n");
  fmt::format_to(std::back_inserter(*out), "# {}\r\n", title);
}

}  // namespace

Outcome DoInfo(CommandContext& c) {
  std::string text;
  const Snapshot snapshot = Take(c);
  for (const Section& section : kSections) {
    if (!Wanted(c, section.name, section.by_default)) continue;
    AppendTitle(section.name, &text);
    section.append(c, snapshot, &text);
  }
  if (c.server.ports.info != nullptr) {
    for (const std::string& title : c.server.ports.info->Sections()) {
      if (!Wanted(c, title, true)) continue;
      AppendTitle(title, &text);
      c.server.ports.info->Append(LowerCase(title), &text);
    }
  }
  c.reply.Verbatim(text);
  return Outcome::kDone;
}

}  // namespace tiercel::net
