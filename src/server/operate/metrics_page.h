#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"

namespace kvik {

// Builds a page in Prometheus' text format from existing values: the library's own registry counts
// itself, and has no histogram whose values can be set.
//
// Every sample has the label model_name. A metric with several names appears under each of them; a
// metric that is added twice has the samples of both.
class MetricsPage {
 public:
  using Names = std::initializer_list<std::string_view>;
  // Counts of 2^53 and more are rounded.
  struct Sample {
    template <class Number>
    Sample(Number number) : value(static_cast<double>(number)) {}
    double value;
  };
  struct Part {
    std::string value;  // value of the metric's label
    Sample sample;
  };
  // A metric with one sample per value of `label`. Several calls for one metric are distinguished
  // by `of`.
  struct Of {
    std::string_view label, value;
  };
  struct Parts {
    std::string_view label;
    std::vector<Part> parts;
    std::optional<Of> of = {};
  };

  explicit MetricsPage(std::string_view model);

  // Constant information: labels of a sample with value 1.
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
