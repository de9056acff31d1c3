#include "study/perplexity/text_scores.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvik {
namespace {

// Returns the mean of n values and its standard error, from their sums.
Estimate mean_of(double n, double sum, double sum_of_squares) {
  if (n < 2) return {n == 0 ? 0 : sum, 0};
  const double mean = sum / n;
  const double variance = std::max(sum_of_squares / n - mean * mean, 0.0);
  return {mean, std::sqrt(variance / (n - 1))};
}

}  // namespace

std::vector<double> log_probabilities(std::span<const float> logits) {
  const auto peak = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - peak);
  const double log_sum = peak + std::log(sum);
  std::vector<double> log_p(logits.begin(), logits.end());
  for (double& p : log_p) p -= log_sum;
  return log_p;
}

void Perplexity::add(std::span<const double> log_p, TokenId next) {
  CHECK(next < log_p.size());
  ++n_;
  sum_ -= log_p[next];
  sum_of_squares_ += log_p[next] * log_p[next];
}

Estimate Perplexity::value() const {
  const Estimate mean = mean_of(static_cast<double>(n_), sum_, sum_of_squares_);
  const double perplexity = std::exp(mean.value);
  return {perplexity, mean.error * perplexity};
}

void Divergence::add(std::span<const double> log_p, std::span<const double> other_log_p) {
  CHECK(log_p.size() == other_log_p.size());
  double kl = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(other_log_p[i]);
    if (p > 0) kl += p * (other_log_p[i] - log_p[i]);
  }
  values_.push_back(kl);
  const auto top = [](std::span<const double> of) {
    return std::ranges::max_element(of) - of.begin();
  };
  n_same_top_ += top(log_p) == top(other_log_p) ? 1 : 0;
}

Estimate Divergence::mean() const {
  double sum = 0;
  double sum_of_squares = 0;
  for (const double v : values_) {
    sum += v;
    sum_of_squares += v * v;
  }
  return mean_of(static_cast<double>(values_.size()), sum, sum_of_squares);
}

double Divergence::quantile(double share) const {
  if (values_.empty()) return 0;
  std::vector<double> sorted = values_;
  std::ranges::sort(sorted);
  // Interpolates linearly between two positions, as numpy does.
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Estimate Divergence::same_top_share() const {
  const auto same = static_cast<double>(n_same_top_);
  return mean_of(static_cast<double>(values_.size()), same, same);
}

}  // namespace kvik
