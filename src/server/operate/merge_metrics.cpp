#include "server/operate/merge_metrics.h"

#include <algorithm>
#include <map>
#include <utility>

namespace kvik {
namespace {

constexpr std::string_view kHelp = "# HELP ";
constexpr std::string_view kType = "# TYPE ";

// Returns the name in a HELP or TYPE line; empty for other lines.
std::string_view family_of(std::string_view line) {
  for (const std::string_view prefix : {kHelp, kType}) {
    if (!line.starts_with(prefix)) continue;
    line.remove_prefix(prefix.size());
    return line.substr(0, line.find(' '));
  }
  return {};
}

bool is_counter_type(std::string_view line) {
  return line.starts_with(kType) && (line.ends_with(" counter") || line.ends_with(" histogram"));
}

// Metrics by their names, in the order in which they were added.
class FamilyList {
 public:
  // Returns a metric, and whether it is new.
  std::pair<MetricFamily&, bool> find_or_add(std::string_view name) {
    const auto [found, is_new] = indices_.try_emplace(std::string(name), families_.size());
    if (is_new) families_.push_back({.name = std::string(name), .comments = {}, .samples = {}});
    return {families_[found->second], is_new};
  }
  std::vector<MetricFamily> take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
  std::map<std::string, size_t, std::less<>> indices_;
};

}  // namespace

std::string_view take_metric_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

std::vector<MetricFamily> parse_metrics(std::string_view page) {
  FamilyList families;
  std::string name;           // of the metric that the lines belong to
  bool has_comments = false;  // from earlier lines of the page
  while (!page.empty()) {
    const std::string_view line = take_metric_line(page);
    const std::string_view begun = family_of(line);
    if (!begun.empty() && begun != name) {
      name = begun;
      has_comments = !families.find_or_add(name).second;
    }
    if (name.empty() || line.empty() || (!begun.empty() && has_comments)) continue;
    MetricFamily& family = families.find_or_add(name).first;
    std::string& part = begun.empty() ? family.samples : family.comments;
    part += line;
    part += '\n';
    family.is_counter = family.is_counter || is_counter_type(line);
  }
  return families.take();
}

std::string metrics_text(std::span<const MetricFamily> families) {
  std::string text;
  for (const MetricFamily& family : families) text += family.comments + family.samples;
  return text;
}

std::string merge_metrics(std::span<const std::string> pages) {
  FamilyList merged;
  for (const std::string& page : pages) {
    for (MetricFamily& family : parse_metrics(page)) {
      const auto [target, is_new] = merged.find_or_add(family.name);
      if (is_new)
        target = std::move(family);
      else
        target.samples += family.samples;
    }
  }
  return metrics_text(merged.take());
}

}  // namespace kvik
