#include "server/operate/metrics_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace kvik {
namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Returns the text with backslashes, line feeds and double quotes escaped, as in a label's value.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

MetricsPage::MetricsPage(std::string_view model) : model_(escaped(model)) {}

std::string& MetricsPage::family(std::string_view name, std::string_view help,
                                 std::string_view type) {
  const auto known = std::ranges::find(families_, name, &Family::name);
  if (known != families_.end()) return known->text;
  families_.push_back({.name = std::string(name),
                       .text = fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type)});
  return families_.back().text;
}

void MetricsPage::add_line(std::string& text, std::string_view name,
                           std::initializer_list<Label> labels, double value) const {
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}{{model_name=\"{}\"", name, model_);
  for (const auto& [label, of] : labels) {
    if (!label.empty()) fmt::format_to(out, ",{}=\"{}\"", label, escaped(of));
  }
  fmt::format_to(out, "}} {}\n", number_text(value));
}

void MetricsPage::add(Names names, std::string_view help, std::string_view type,
                      const Parts& parts) {
  const Of of = parts.of.value_or(Of{});
  for (const std::string_view name : names) {
    std::string& text = family(name, help, type);
    for (const Part& part : parts.parts) {
      add_line(text, name, {{of.label, of.value}, {parts.label, part.value}}, part.sample.value);
    }
  }
}

void MetricsPage::info(std::string_view name, std::string_view help,
                       std::initializer_list<Label> labels) {
  add_line(family(name, help, "gauge"), name, labels, 1);
}

void MetricsPage::gauge(Names names, std::string_view help, Sample sample) {
  add(names, help, "gauge", {.label = {}, .parts = {{"", sample}}});
}

void MetricsPage::gauge(Names names, std::string_view help, const Parts& parts) {
  add(names, help, "gauge", parts);
}

void MetricsPage::counter(Names names, std::string_view help, Sample sample) {
  add(names, help, "counter", {.label = {}, .parts = {{"", sample}}});
}

void MetricsPage::counter(Names names, std::string_view help, const Parts& parts) {
  add(names, help, "counter", parts);
}

void MetricsPage::histogram(Names names, std::string_view help, const Histogram& histogram) {
  for (const std::string_view name : names) {
    std::string& text = family(name, help, "histogram");
    const std::string bucket = fmt::format("{}_bucket", name);
    uint64_t n_below = 0;
    for (size_t i = 0; i <= Histogram::kBuckets; ++i) {
      n_below += histogram.in_bucket(i);
      const double bound =
          i < Histogram::kBuckets ? histogram.bound(i) : std::numeric_limits<double>::infinity();
      add_line(text, bucket, {{"le", number_text(bound)}}, static_cast<double>(n_below));
    }
    add_line(text, fmt::format("{}_sum", name), {}, histogram.sum());
    add_line(text, fmt::format("{}_count", name), {}, static_cast<double>(histogram.count()));
  }
}

std::string MetricsPage::text() const {
  std::string page;
  for (const Family& family : families_) page += family.text;
  return page;
}

}  // namespace kvik
