#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"

namespace kvik {

// Builds a page in Prometheus' text format, metric by metric, from values that are there already:
// the library's own registry wants to count for itself, and has no histogram that can be set.
//
// Every sample carries the label model_name. A metric of several names appears under each of them;
// one that is given twice has the samples of both.
class MetricsPage {
 public:
  using Names = std::initializer_list<std::string_view>;
  // A count of 2^53 and more is rounded.
  struct Sample {
    template <class Number>
    Sample(Number number) : value(static_cast<double>(number)) {}
    double value;
  };
  struct Part {
    std::string value;  // of the metric's own label
    Sample sample;
  };
  // One metric with a sample for each value of `label`. Where several belong to one metric, each
  // says with `of` what it is of.
  struct Of {
    std::string_view label, value;
  };
  struct Parts {
    std::string_view label;
    std::vector<Part> parts;
    std::optional<Of> of = {};
  };

  explicit MetricsPage(std::string_view model);

  // What does not change while the server runs: labels of a sample that is 1.
  void info(std::string_view name, std::string_view help,
            std::initializer_list<prometheus::ClientMetric::Label> labels);
  void gauge(Names names, std::string_view help, Sample sample);
  void gauge(Names names, std::string_view help, const Parts& parts);
  void counter(Names names, std::string_view help, Sample sample);
  void counter(Names names, std::string_view help, const Parts& parts);
  void histogram(Names names, std::string_view help, const Histogram& histogram);

  std::string text() const;

 private:
  using Metrics = std::vector<prometheus::ClientMetric>;

  void add(Names names, std::string_view help, prometheus::MetricType type, const Metrics& metrics);
  prometheus::ClientMetric sampled(Sample sample) const;
  Metrics sampled(const Parts& parts) const;

  std::string model_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace kvik
