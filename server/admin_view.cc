#include "server/admin_view.h"

#include <fmt/format.h>

#include "base/units.h"
#include "server/net/replica_reply.h"

namespace tiercel::server {
namespace {

admin::Readiness ReadinessOf(const Sample& sample, bool stopping) {
  if (stopping) return {.ready = false, .reason = "stopping"};
  if (sample.is_store && sample.node.control.state != node::ControlState::kServing) {
    return {.ready = false,
            .reason = fmt::format(
                "store {} is {}{}{}", sample.node.store_name, node::ControlStateName(sample.node.control.state),
                sample.node.control.last_failure.empty() ? "" : ": ", sample.node.control.last_failure)};
  }
  if (sample.is_master && sample.restored.loading) {
    return {.ready = false, .reason = fmt::format("loading the index: {} records so far", sample.restored.records)};
  }
  if (sample.is_master && sample.stores_serving == 0) return {.ready = false, .reason = "no store serves"};
  // Confirming goes on beside serving: what is not confirmed yet is a miss.
  if (sample.restored.waiting > 0) {
    return {.ready = true,
            .reason = fmt::format("{} of {} objects confirmed", sample.restored.confirmed, sample.restored.objects)};
  }
  return {.ready = true, .reason = ""};
}

std::vector<admin::MetricFamily> MetricsOf(const Sample& sample) {
  std::vector<admin::MetricFamily> families;
  for (const FigureRow& row : FigureTable()) {
    if (!(row.of_master ? sample.is_master : sample.is_store)) continue;
    const bool counter = row.kind == FigureRow::Kind::kCounter;
    families.push_back({.name = fmt::format("tiercel_{}{}", row.name, counter ? "_total" : ""),
                        .type = counter ? admin::MetricType::kCounter : admin::MetricType::kGauge,
                        .help = std::string(row.help),
                        .samples = {{.value = row.value(sample), .labels = {}}}});
  }
  admin::MetricFamily calls{
      .name = "tiercel_commands_total", .type = admin::MetricType::kCounter, .help = "Commands by name", .samples = {}};
  for (const auto& command : sample.front.by_command) {
    calls.samples.push_back({.value = static_cast<double>(command.calls), .labels = {{"command", command.name}}});
  }
  admin::MetricFamily errors{.name = "tiercel_error_replies_total",
                             .type = admin::MetricType::kCounter,
                             .help = "Error replies by first word",
                             .samples = {}};
  for (const auto& [word, count] : sample.front.by_error) {
    errors.samples.push_back({.value = static_cast<double>(count), .labels = {{"word", word}}});
  }
  admin::MetricFamily refusals{.name = "tiercel_store_refusals_total",
                               .type = admin::MetricType::kCounter,
                               .help = "Data requests refused, by cause",
                               .samples = {}};
  for (size_t i = 0; sample.is_store && i < kErrorCount; ++i) {
    if (sample.node.target.refusals[i] == 0) continue;
    refusals.samples.push_back({.value = static_cast<double>(sample.node.target.refusals[i]),
                                .labels = {{"cause", std::string(kErrorTable[i].name)}}});
  }
  for (auto* family : {&calls, &errors, &refusals}) {
    if (!family->samples.empty()) families.push_back(std::move(*family));
  }
  return families;
}

std::vector<admin::StatusTable> TablesOf(const Sample& sample, net::MasterHost* host) {
  std::vector<admin::StatusTable> tables;
  if (host != nullptr) {
    admin::StatusTable stores{
        .title = "Stores", .columns = {"name", "state", "host", "data address", "size", "live", "free"}, .rows = {}};
    host->With([&](core::Master& master, Times) {
      const auto segments = master.Segments();
      for (core::StoreSlot slot : master.Stores()) {
        const core::StoreInfo& store = master.store(slot);
        core::SpaceBytes bytes;
        for (const core::SegmentInfo& segment : segments) {
          if (segment.store == slot) bytes += segment.bytes;
        }
        stores.rows.push_back({store.name, std::string(net::StoreStateName(store.state)), store.host,
                               store.data_address, HumanBytes(bytes.total()), HumanBytes(bytes.live),
                               HumanBytes(bytes.free)});
      }
    });
    tables.push_back(std::move(stores));
  }
  admin::StatusTable figures{.title = "Figures", .columns = {"section", "name", "value", ""}, .rows = {}};
  for (const FigureRow& row : FigureTable()) {
    if (!(row.of_master ? sample.is_master : sample.is_store)) continue;
    figures.rows.push_back({std::string(row.section), std::string(row.name), fmt::format("{:.0f}", row.value(sample)),
                            std::string(row.help)});
  }
  tables.push_back(std::move(figures));
  return tables;
}

}  // namespace

admin::AdminHandlers AdminView(const Figures* figures, net::MasterHost* host, const std::atomic<bool>* stopping) {
  return {.readiness = [=] { return ReadinessOf(figures->Take(), stopping->load()); },
          .metrics = [=] { return MetricsOf(figures->Take()); },
          .status = [=] { return TablesOf(figures->Take(), host); }};
}

}  // namespace tiercel::server
