#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"

namespace kvik {

// Builds a page in Prometheus' text format, version 0.0.4, from existing values.
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

  struct Label {
    std::string_view name, value;
  };

  explicit MetricsPage(std::string_view model);

  // Constant information: labels of a sample with value 1.
  void info(std::string_view name, std::string_view help, std::initializer_list<Label> labels);
  void gauge(Names names, std::string_view help, Sample sample);
  void gauge(Names names, std::string_view help, const Parts& parts);
  void counter(Names names, std::string_view help, Sample sample);
  void counter(Names names, std::string_view help, const Parts& parts);
  void histogram(Names names, std::string_view help, const Histogram& histogram);

  std::string text() const;

 private:
  struct Family {
    std::string name;
    std::string text;  // its help, its type and its samples
  };

  // Returns the text of the family, which is added unless it exists.
  std::string& family(std::string_view name, std::string_view help, std::string_view type);
  // Adds one sample. `labels` follow the label model_name.
  void add_line(std::string& text, std::string_view name, std::initializer_list<Label> labels,
                double value) const;
  void add(Names names, std::string_view help, std::string_view type, const Parts& parts);

  std::string model_;
  std::vector<Family> families_;
};

}  // namespace kvik
