#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvik {

// A metric of a page in Prometheus' text format.
struct MetricFamily {
  std::string name;
  std::string comments;     // its HELP and TYPE lines, each ended by a line feed
  std::string samples;      // its samples, each ended by a line feed
  bool is_counter = false;  // a counter or a histogram: its samples only grow
};

// Returns the metrics of a page in their order. Lines that belong to none are left out.
std::vector<MetricFamily> parse_metrics(std::string_view page);

// Returns the metrics as a page.
std::string metrics_text(std::span<const MetricFamily> families);

// Merges pages into one: each metric has one HELP and one TYPE line, those of the first page that
// has it, and the samples of all pages.
std::string merge_metrics(std::span<const std::string> pages);

// Returns the text up to the next line feed, and removes it from `text`.
std::string_view take_metric_line(std::string_view& text);

}  // namespace kvik
