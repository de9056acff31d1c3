#include "server/operate/metrics_page.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>

namespace kvik {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric::Histogram to_prometheus(const Histogram& histogram) {
  ClientMetric::Histogram out;
  out.sample_count = histogram.count();
  out.sample_sum = histogram.sum();
  uint64_t n_below = 0;
  for (size_t i = 0; i <= Histogram::kBuckets; ++i) {
    n_below += histogram.in_bucket(i);
    const double bound =
        i < Histogram::kBuckets ? histogram.bound(i) : std::numeric_limits<double>::infinity();
    out.bucket.push_back({.cumulative_count = n_below, .upper_bound = bound});
  }
  return out;
}

}  // namespace

MetricsPage::MetricsPage(std::string_view model) : model_(model) {}

// Returns the sample as a counter and as a gauge; the family's type selects one.
ClientMetric MetricsPage::sampled(Sample sample) const {
  ClientMetric metric;
  metric.label.push_back({.name = "model_name", .value = model_});
  metric.counter.value = sample.value;
  metric.gauge.value = sample.value;
  return metric;
}

MetricsPage::Metrics MetricsPage::sampled(const Parts& parts) const {
  Metrics metrics;
  for (const Part& part : parts.parts) {
    auto& label = metrics.emplace_back(sampled(part.sample)).label;
    if (parts.of) {
      label.push_back(
          {.name = std::string(parts.of->label), .value = std::string(parts.of->value)});
    }
    if (!parts.label.empty())
      label.push_back({.name = std::string(parts.label), .value = part.value});
  }
  return metrics;
}

void MetricsPage::add(Names names, std::string_view help, MetricType type, const Metrics& metrics) {
  for (const std::string_view name : names) {
    const auto known = std::ranges::find(families_, name, &prometheus::MetricFamily::name);
    if (known != families_.end()) {
      known->metric.insert(known->metric.end(), metrics.begin(), metrics.end());
      continue;
    }
    families_.push_back(
        {.name = std::string(name), .help = std::string(help), .type = type, .metric = metrics});
  }
}

void MetricsPage::info(std::string_view name, std::string_view help,
                       std::initializer_list<ClientMetric::Label> labels) {
  ClientMetric metric = sampled(1);
  metric.label.insert(metric.label.end(), labels);
  add({name}, help, MetricType::Gauge, {metric});
}

void MetricsPage::gauge(Names names, std::string_view help, Sample sample) {
  add(names, help, MetricType::Gauge, {sampled(sample)});
}

void MetricsPage::gauge(Names names, std::string_view help, const Parts& parts) {
  add(names, help, MetricType::Gauge, sampled(parts));
}

void MetricsPage::counter(Names names, std::string_view help, Sample sample) {
  add(names, help, MetricType::Counter, {sampled(sample)});
}

void MetricsPage::counter(Names names, std::string_view help, const Parts& parts) {
  add(names, help, MetricType::Counter, sampled(parts));
}

void MetricsPage::histogram(Names names, std::string_view help, const Histogram& histogram) {
  ClientMetric metric = sampled(0);
  metric.histogram = to_prometheus(histogram);
  add(names, help, MetricType::Histogram, {metric});
}

std::string MetricsPage::text() const { return prometheus::TextSerializer().Serialize(families_); }

}  // namespace kvik
