#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

#include "server/admin/admin.h"

namespace tiercel::admin {

std::string MetricsText(const std::vector<MetricFamily>& families) {
  std::vector<prometheus::MetricFamily> model;
  model.reserve(families.size());
  for (const MetricFamily& family : families) {
    const bool counter = family.type == MetricType::kCounter;
    prometheus::MetricFamily& out = model.emplace_back();
    out.name = family.name;
    out.help = family.help;
    out.type = counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    for (const Sample& sample : family.samples) {
      prometheus::ClientMetric& metric = out.metric.emplace_back();
      for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
      (counter ? metric.counter.value : metric.gauge.value) = sample.value;
    }
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, model);
  return std::move(text).str();
}

}  // namespace tiercel::admin
