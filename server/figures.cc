#include "server/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tiercel::server {
namespace {

using Kind = FigureRow::Kind;

#define FIGURE(section, name, kind, master, help, expression)                                                \
  FigureRow {                                                                                                \
    section, name, Kind::kind, master, help, [](const Sample& s) { return static_cast<double>(expression); } \
  }

constexpr FigureRow kTable[] = {
    FIGURE("Tiers", "dram_configured_bytes", kGauge, true, "Bytes of all DRAM segments", s.dram.configured),
    FIGURE("Tiers", "dram_usable_bytes", kGauge, true, "Bytes of DRAM segments whose stores serve", s.dram.usable),
    FIGURE("Tiers", "dram_free_bytes", kGauge, true, "Bytes that a put may take", s.dram.bytes.free),
    FIGURE("Tiers", "dram_reserved_bytes", kGauge, true, "Bytes of open puts", s.dram.bytes.reserved),
    FIGURE("Tiers", "dram_live_bytes", kGauge, true, "Bytes of readable objects", s.dram.bytes.live),
    FIGURE("Tiers", "dram_fencing_bytes", kGauge, true, "Bytes of puts that ended badly, not yet closed by their store",
           s.dram.bytes.fencing),
    FIGURE("Tiers", "dram_dying_bytes", kGauge, true, "Unlinked bytes that a lease or reader still holds",
           s.dram.bytes.dying),
    FIGURE("Tiers", "dram_parked_bytes", kGauge, true, "Bytes that a store found still in use", s.dram.bytes.parked),
    FIGURE("Tiers", "dram_high_watermark_bytes", kGauge, true, "Used bytes above which eviction begins",
           s.dram.high_watermark),
    FIGURE("Tiers", "dram_low_watermark_bytes", kGauge, true, "Used bytes down to which eviction goes",
           s.dram.low_watermark),
    FIGURE("Tiers", "objects", kGauge, true, "Readable objects", s.objects),
    FIGURE("Tiers", "metadata_bytes", kGauge, true, "Memory of the master's tables", s.metadata_bytes),
    FIGURE("Tiers", "metadata_max_bytes", kGauge, true, "Limit of the memory of the master's tables",
           s.metadata_max_bytes),
    FIGURE("Tiers", "lookups_hit", kCounter, true, "Look-ups that found a readable object", s.counters.lookups_hit),
    FIGURE("Tiers", "lookups_miss", kCounter, true, "Look-ups of absent keys", s.counters.lookups_miss),
    FIGURE("Tiers", "expired_objects", kCounter, true, "Objects whose time to live ended", s.counters.expired_objects),
    FIGURE("Tiers", "deleted_objects", kCounter, true, "Objects removed by command", s.counters.deleted_objects),
    FIGURE("Tiers", "replaced_objects", kCounter, true, "Objects replaced by a new version",
           s.counters.replaced_objects),
    FIGURE("Tiers", "lost_objects", kCounter, true, "Objects whose last replica was lost", s.counters.lost_objects),
    FIGURE("Tiers", "replicas_corrupt", kCounter, true, "Replicas dropped because their bytes were wrong",
           s.counters.replicas_corrupt),
    FIGURE("Leases", "leases_granted", kCounter, true, "Look-ups that granted a lease", s.counters.leases_granted),
    FIGURE("Leases", "leases_refused", kCounter, true, "Look-ups answered with a lease of 0, the cap being reached",
           s.counters.leases_refused),
    FIGURE("Leases", "leased_bytes", kGauge, true, "Bytes held by leases", s.dram.leased),
    FIGURE("Leases", "lease_cap_bytes", kGauge, true, "Most bytes that leases may hold", s.dram.lease_cap),
    FIGURE("Leases", "soft_pinned_bytes", kGauge, true, "Bytes of soft-pinned objects", s.dram.soft_pinned),
    FIGURE("Leases", "hard_pinned_bytes", kGauge, true, "Bytes of hard-pinned objects", s.dram.hard_pinned),
    FIGURE("Leases", "hard_pin_budget_bytes", kGauge, true, "Most bytes that may be hard-pinned",
           s.dram.hard_pin_budget),
    FIGURE("Eviction", "evicted_objects", kCounter, true, "Objects evicted for space", s.counters.evicted_objects),
    FIGURE("Eviction", "evicted_bytes", kCounter, true, "Bytes evicted for space", s.counters.evicted_bytes),
    FIGURE("Eviction", "evicted_soft_pinned", kCounter, true, "Soft-pinned objects evicted for space",
           s.counters.evicted_soft_pinned),
    FIGURE("Eviction", "eviction_dry_runs", kCounter, true, "Evictions that freed nothing",
           s.counters.eviction_dry_runs),
    FIGURE("Puts", "puts_open", kGauge, true, "Reservations that have not ended", s.open_puts),
    FIGURE("Puts", "puts_created", kCounter, true, "Puts begun", s.counters.puts_created),
    FIGURE("Puts", "puts_ended", kCounter, true, "Puts published", s.counters.puts_ended),
    FIGURE("Puts", "puts_failed", kCounter, true, "Puts of which no replica succeeded", s.counters.puts_failed),
    FIGURE("Puts", "puts_revoked", kCounter, true, "Puts given back", s.counters.puts_revoked),
    FIGURE("Puts", "puts_orphaned", kCounter, true, "Puts whose connection closed", s.counters.puts_orphaned),
    FIGURE("Puts", "puts_taken_over", kCounter, true, "Silent or orphaned puts taken over", s.counters.puts_taken_over),
    FIGURE("Puts", "puts_given_up", kCounter, true, "Orphaned puts given up because others needed their space",
           s.counters.puts_given_up),
    FIGURE("Puts", "puts_timed_out", kCounter, true, "Puts given up because their deadline had passed",
           s.counters.puts_timed_out),
    FIGURE("Puts", "puts_partial", kCounter, true, "Puts with fewer replicas than asked for", s.counters.puts_partial),
    FIGURE("Puts", "puts_no_space", kCounter, true, "Puts refused for want of space", s.counters.puts_no_space),
    FIGURE("Stores", "stores_serving", kGauge, true, "Stores that serve", s.stores_serving),
    FIGURE("Stores", "stores_not_serving", kGauge, true, "Known stores that do not serve", s.stores_other),
    FIGURE("Stores", "stores_joined", kCounter, true, "Times that a store joined", s.counters.stores_joined),
    FIGURE("Stores", "stores_suspect", kCounter, true, "Times that a store became suspect", s.counters.stores_suspect),
    FIGURE("Stores", "stores_away", kCounter, true, "Times that a store went away", s.counters.stores_away),
    FIGURE("Stores", "stores_gone", kCounter, true, "Stores that were given up", s.counters.stores_gone),
    FIGURE("Stores", "generation", kGauge, true, "Which life of the master this is", s.generation),
    FIGURE("Index", "index_records", kGauge, true, "Objects of which the index has a record", s.index.records),
    FIGURE("Index", "index_table_bytes", kGauge, true, "Bytes of the index's tables on disk", s.index.table_bytes),
    FIGURE("Index", "index_log_bytes", kGauge, true, "Bytes of the index's write-ahead log", s.index.log_bytes),
    FIGURE("Index", "index_waiting_changes", kGauge, true, "Changes that are not in the index yet", s.index_wait),
    FIGURE("Index", "index_batches", kCounter, true, "Batches written to the index", s.index.batches),
    FIGURE("Index", "index_records_written", kCounter, true, "Records written to the index", s.index.records_written),
    FIGURE("Index", "index_errors", kCounter, true, "Writes, syncs and background work of the index that failed",
           s.index.write_errors + s.index.sync_errors + s.index.background_errors),
    FIGURE("Index", "index_resumes", kCounter, true, "Times that the index became writable again", s.index.resumes),
    FIGURE("Index", "index_readonly", kGauge, true, "1 while the index cannot be written", s.index_read_only ? 1 : 0),
    FIGURE("Index", "index_lost_records", kGauge, true, "Changes written before the last start and not found by it",
           s.index.lost_records + s.index.lost_in_tables),
    FIGURE("Index", "restored_objects", kGauge, true, "Objects that the last start took from the index",
           s.restored.objects),
    FIGURE("Index", "restored_confirmed", kGauge, true, "Restored objects that a store has confirmed",
           s.restored.confirmed),
    FIGURE("Index", "restored_waiting", kGauge, true, "Restored objects whose stores have not joined yet",
           s.restored.waiting),
    FIGURE("Index", "restored_lost", kGauge, true, "Restored objects whose stores came back without them",
           s.restored.lost),
    FIGURE("Index", "restored_dropped", kGauge, true, "Records that the last start could not use",
           s.restored.dropped()),
    FIGURE("Transfer", "value_bytes_received", kCounter, true, "Bytes of large values that came over RESP",
           s.front.value_bytes_received),
    FIGURE("Transfer", "value_bytes_sent", kCounter, true, "Bytes of large values that left over RESP",
           s.front.value_bytes_sent),
    FIGURE("Transfer", "remote_transfers", kGauge, true, "Transfers of the front end with other stores, now",
           s.payload.transfers_now),
    FIGURE("Transfer", "remote_transfers_failed", kCounter, true,
           "Transfers of the front end with other stores that failed", s.payload.failed),
    FIGURE("Transfer", "closed_slow_readers", kCounter, true, "Connections closed because they did not read",
           s.front.closed_slow_reader),
    FIGURE("Transfer", "closed_idle", kCounter, true, "Connections closed for idleness", s.front.closed_idle),
    FIGURE("Transfer", "closed_protocol_errors", kCounter, true, "Connections closed for protocol errors",
           s.front.closed_protocol_error),
    FIGURE("Transfer", "versions_refused", kCounter, true, "Clients and stores refused for their protocol's version",
           s.front.versions_refused),
    FIGURE("Store", "store_segment_bytes", kGauge, false, "Bytes of this store's segments", s.node.segment_bytes),
    FIGURE("Store", "store_reads", kCounter, false, "Reads that this store admitted", s.node.target.reads),
    FIGURE("Store", "store_writes", kCounter, false, "Writes that this store admitted", s.node.target.writes),
    FIGURE("Store", "store_views", kCounter, false, "Views that this store admitted", s.node.target.views),
    FIGURE("Store", "store_read_bytes", kCounter, false, "Bytes of admitted reads", s.node.target.read_bytes),
    FIGURE("Store", "store_write_bytes", kCounter, false, "Bytes of admitted writes", s.node.target.write_bytes),
    FIGURE("Store", "store_views_now", kGauge, false, "Views pinned now", s.node.target.views_now),
    FIGURE("Store", "store_view_bytes", kGauge, false, "Bytes pinned by views now", s.node.target.view_bytes_now),
    FIGURE("Store", "store_puts_open", kGauge, false, "Puts at this store whose bytes may still arrive",
           s.node.target.puts_open),
    FIGURE("Store", "store_in_use_by_view", kCounter, false, "Writes refused because a view held the range",
           s.node.target.in_use_by_view),
    FIGURE("Store", "store_in_use_by_other", kCounter, false,
           "Writes refused for another use of the range; 0 while all keep to the rules", s.node.target.in_use_by_other),
    FIGURE("Store", "store_joins", kCounter, false, "Times that this store joined its master", s.node.control.joins),
    FIGURE("Store", "store_master_silent_ms", kGauge, false,
           "Milliseconds since this store heard its master; -1: never", s.node.heard_ms_ago),
    FIGURE("Store", "store_verifies_bad", kCounter, false,
           "Replicas that this store found bad when it hashed them again", s.node.control.verifies_bad),
};

#undef FIGURE

bool SameText(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::span<const FigureRow> FigureTable() { return kTable; }

Sample Figures::Take() const {
  Sample sample;
  if (sources_.host != nullptr) {
    sample.is_master = true;
    sources_.host->With([&](core::Master& master, Times) {
      sample.counters = master.counters();
      sample.dram = master.Figures(Tier::kDram);
      sample.metadata_bytes = master.metadata_bytes();
      sample.metadata_max_bytes = master.options().metadata_max_bytes;
      sample.open_puts = master.open_puts();
      sample.generation = master.generation();
      for (uint32_t n = 0; n < master.options().name_spaces; ++n) sample.objects += master.Size(n);
      for (core::StoreSlot slot : master.Stores()) {
        ++(master.store(slot).state == core::StoreInfo::State::kServing ? sample.stores_serving : sample.stores_other);
      }
      sample.restored = master.restore_figures();
      sample.index_read_only = master.index_read_only();
      sample.index_wait = master.last() - master.durable();
    });
    if (sources_.index != nullptr) {
      sample.index = sources_.index->figures();
      sample.saves = sources_.index->saves();
    }
  }
  if (sources_.node != nullptr) {
    sample.is_store = true;
    sample.node = sources_.node->Figures();
  }
  if (sources_.payload != nullptr) sample.payload = sources_.payload->Figures();
  if (sources_.front != nullptr) sample.front = sources_.front->Figures();
  return sample;
}

std::vector<std::string> Figures::Sections() const {
  std::vector<std::string> sections;
  for (const FigureRow& row : kTable) {
    const bool served = row.of_master ? sources_.host != nullptr : sources_.node != nullptr;
    if (served && (sections.empty() || sections.back() != row.section)) sections.emplace_back(row.section);
  }
  return sections;
}

void Figures::Append(std::string_view section, std::string* out) const {
  const Sample sample = Take();
  for (const FigureRow& row : kTable) {
    const bool served = row.of_master ? sample.is_master : sample.is_store;
    if (served && SameText(row.section, section)) {
      fmt::format_to(std::back_inserter(*out), "{}:{}\r\n", row.name, std::llround(row.value(sample)));
    }
  }
  if (SameText(section, "Store") && sample.is_store) {
    fmt::format_to(std::back_inserter(*out), "store_name:{}\r\nstore_state:{}\r\nstore_data_address:{}\r\n",
                   sample.node.store_name, node::ControlStateName(sample.node.control.state),
                   sample.node.control.data_address);
  }
}

}  // namespace tiercel::server
