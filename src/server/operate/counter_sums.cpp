#include "server/operate/counter_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "server/operate/merge_metrics.h"

namespace kvik {
namespace {

// Parses "NAME{LABELS} VALUE".
std::optional<CounterSums::Sample> parse_sample(std::string_view line) {
  const size_t blank = line.rfind(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  double value = 0;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + blank + 1, end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return CounterSums::Sample(line.substr(0, blank), value);
}

std::vector<CounterSums::Sample> parse_samples(std::string_view lines) {
  std::vector<CounterSums::Sample> samples;
  while (!lines.empty()) {
    if (auto sample = parse_sample(take_metric_line(lines))) samples.push_back(std::move(*sample));
  }
  return samples;
}

std::string samples_text(const std::vector<CounterSums::Sample>& samples) {
  std::string text;
  for (const auto& [series, value] : samples) text += fmt::format("{} {}\n", series, value);
  return text;
}

void add_samples(std::vector<CounterSums::Sample>& sums,
                 const std::vector<CounterSums::Sample>& more) {
  for (const CounterSums::Sample& sample : more) {
    const auto known = std::ranges::find(sums, sample.first, &CounterSums::Sample::first);
    if (known == sums.end())
      sums.push_back(sample);
    else
      known->second += sample.second;
  }
}

// Adds only to the samples that are there.
void add_to_known(std::vector<CounterSums::Sample>& sums,
                  const std::vector<CounterSums::Sample>& more) {
  for (CounterSums::Sample& sample : sums) {
    const auto found = std::ranges::find(more, sample.first, &CounterSums::Sample::first);
    if (found != more.end()) sample.second += found->second;
  }
}

}  // namespace

CounterSums::Counters CounterSums::parse(std::string_view page) {
  Counters counters;
  for (MetricFamily& family : parse_metrics(page)) {
    if (!family.is_counter) continue;
    counters.push_back({.name = std::move(family.name),
                        .comments = std::move(family.comments),
                        .samples = parse_samples(family.samples)});
  }
  return counters;
}

const CounterSums::Family* CounterSums::find(const Counters& counters, std::string_view name) {
  const auto found = std::ranges::find(counters, name, &Family::name);
  return found == counters.end() ? nullptr : &*found;
}

void CounterSums::add(Counters& sums, const Counters& more) {
  for (const Family& family : more) {
    const auto known = std::ranges::find(sums, family.name, &Family::name);
    if (known == sums.end())
      sums.push_back(family);
    else
      add_samples(known->samples, family.samples);
  }
}

std::string CounterSums::text_of(const Counters& counters) {
  std::string text;
  for (const Family& family : counters) text += family.comments + samples_text(family.samples);
  return text;
}

std::string CounterSums::known_text(const Model& model) {
  Counters sums = model.ended;
  add(sums, model.seen);
  return text_of(sums);
}

std::string CounterSums::with_earlier(const std::string& model, uint64_t n_loads,
                                      std::string_view page, Reader reader) {
  const MutexLock lock(mutex_);
  Model& known = models_[model];
  const bool is_operator = reader == Reader::kOperator;
  if (n_loads <= known.n_ended) return is_operator ? known_text(known) : "";
  if (is_operator) {
    known.seen = parse(page);
    known.seen_of = n_loads;
  }
  std::vector<MetricFamily> families = parse_metrics(page);
  for (MetricFamily& family : families) {
    const Family* const earlier = family.is_counter ? find(known.ended, family.name) : nullptr;
    if (!earlier) continue;
    std::vector<Sample> samples = parse_samples(family.samples);
    is_operator ? add_samples(samples, earlier->samples) : add_to_known(samples, earlier->samples);
    family.samples = samples_text(samples);
  }
  std::string text = metrics_text(families);
  for (const Family& family : known.ended) {
    const bool is_shown = !is_operator || find(known.seen, family.name);
    if (!is_shown) text += family.comments + samples_text(family.samples);
  }
  return text;
}

std::string CounterSums::page_of(const std::string& model) const {
  const MutexLock lock(mutex_);
  const auto known = models_.find(model);
  return known == models_.end() ? "" : known_text(known->second);
}

void CounterSums::end(const std::string& model, uint64_t n_loads, std::string_view counters) {
  const MutexLock lock(mutex_);
  Model& known = models_[model];
  if (n_loads <= known.n_ended) return;  // its process had not been ready yet
  if (!counters.empty())
    add(known.ended, parse(counters));
  else if (known.seen_of == n_loads)
    add(known.ended, known.seen);
  known.n_ended = n_loads;
  known.seen.clear();
}

std::string CounterSums::counters_in(std::string_view page) {
  std::vector<MetricFamily> families = parse_metrics(page);
  std::erase_if(families, [](const MetricFamily& family) { return !family.is_counter; });
  return metrics_text(families);
}

}  // namespace kvik
