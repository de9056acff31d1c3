#include "engine/cost_model.h"

#include <algorithm>
#include <cmath>

namespace kvik {
namespace {

constexpr double kDecay = 0.99;  // decay of the weight of earlier observations at each observation
// Weight of the newest coefficients as a prior, added at each observation. It sums to 0.05 of one
// observation, and unlike those it does not decay.
constexpr double kPriorWeight = 0.05 * (1 - kDecay);
constexpr uint64_t kTrusted = 8;  // observations before outliers are limited
// Largest factor by which an observation may differ from the expected time.
constexpr double kOutlier = 2;
constexpr double kCommonShare = 0.05;  // share of a deviation that is applied to all terms at once

// One unit of each term takes about the same time, so that the first observation is divided
// sensibly: a step, 16 rows, 16 rows of logits, 16 Ki cached tokens read, and 16 rows that attend
// to them.
constexpr std::array<double, 5> kScale = {1, 1.0 / 16, 1.0 / 16, 1.0 / 16384, 1.0 / (16 * 16384)};

}  // namespace

StepWork StepWork::chunk(uint32_t n_cached, uint32_t n_new, uint32_t n_logits) {
  const double keys = n_cached + n_new;
  const double pairs = n_new > 1 ? n_new * (n_cached + n_new / 2.0) : 0;
  return {.n_rows = n_new, .n_logits = n_logits, .kv_tokens = keys, .attention = pairs};
}

StepWork& StepWork::operator+=(const StepWork& other) {
  n_rows += other.n_rows;
  n_logits += other.n_logits;
  kv_tokens += other.kv_tokens;
  attention += other.attention;
  return *this;
}

CostModel::Terms CostModel::terms_of(const StepWork& work) {
  Terms terms = {1, double(work.n_rows), double(work.n_logits), work.kv_tokens, work.attention};
  for (size_t i = 0; i < kTerms; ++i) terms[i] *= kScale[i];
  return terms;
}

double CostModel::ms(const StepWork& work) const { return cost_[0] + added_ms(work); }

double CostModel::added_ms(const StepWork& work) const {
  const Terms terms = terms_of(work);
  double sum = 0;
  for (size_t i = 1; i < kTerms; ++i) sum += cost_[i] * terms[i];
  return sum;
}

void CostModel::observe(const StepWork& work, double ms) {
  if (!(ms > 0)) return;
  const double expected = this->ms(work);
  if (n_observed_ >= kTrusted) {
    ms = std::clamp(ms, expected / kOutlier, expected * kOutlier);
    rescale(std::pow(ms / expected, kCommonShare));
  }
  ++n_observed_;
  max_rows_seen_ = std::max(max_rows_seen_, work.n_rows);
  const Terms terms = terms_of(work);
  // Weight of the absolute error; squared, it gives the relative error.
  const double weight = 1 / ms;
  for (size_t i = 0; i < kTerms; ++i) {
    targets_[i] = kDecay * targets_[i] + weight * terms[i];
    for (size_t j = 0; j < kTerms; ++j) {
      products_[i][j] = kDecay * products_[i][j] + weight * weight * terms[i] * terms[j];
    }
    const double prior = kPriorWeight * weight * weight;
    products_[i][i] += prior;
    targets_[i] += prior * cost_[i];
  }
  solve();
}

// Rescales the earlier observations as if the machine had always been slower by `factor`. Other
// load on the machine slows all terms alike.
void CostModel::rescale(double factor) {
  for (size_t i = 0; i < kTerms; ++i) {
    cost_[i] *= factor;
    targets_[i] /= factor;
    for (double& product : products_[i]) product /= factor * factor;
  }
}

// Solves the normal equations without the terms that would become negative.
void CostModel::solve() {
  std::array<bool, kTerms> is_free;
  is_free.fill(true);
  for (size_t round = 0; round < kTerms; ++round) {
    cost_ = solve_for(is_free);
    const auto least = std::ranges::min_element(cost_);
    if (*least >= 0) return;
    is_free[static_cast<size_t>(least - cost_.begin())] = false;
  }
  cost_ = {};
}

// Solves the equations by Gaussian elimination. The matrix is positive definite, so the pivots are
// positive.
CostModel::Terms CostModel::solve_for(const std::array<bool, kTerms>& is_free) const {
  auto a = products_;
  Terms x = targets_;
  for (size_t i = 0; i < kTerms; ++i) {
    if (is_free[i]) continue;
    x[i] = 0;
    for (size_t j = 0; j < kTerms; ++j) a[i][j] = a[j][i] = i == j ? 1 : 0;
  }
  for (size_t pivot = 0; pivot < kTerms; ++pivot) {
    for (size_t i = pivot + 1; i < kTerms; ++i) {
      const double factor = a[i][pivot] / a[pivot][pivot];
      for (size_t j = pivot; j < kTerms; ++j) a[i][j] -= factor * a[pivot][j];
      x[i] -= factor * x[pivot];
    }
  }
  for (size_t i = kTerms; i-- > 0;) {
    for (size_t j = i + 1; j < kTerms; ++j) x[i] -= a[i][j] * x[j];
    x[i] /= a[i][i];
  }
  return x;
}

uint32_t CostModel::tokens_within(double budget_ms, uint32_t n_cached, uint32_t n_max) const {
  uint32_t fits = 0, too_many = n_max + 1;  // bisection: the cost grows with the number of tokens
  while (fits + 1 < too_many) {
    const uint32_t n = fits + (too_many - fits) / 2;
    const bool is_within = added_ms(StepWork::chunk(n_cached, n, n == n_max ? 1 : 0)) <= budget_ms;
    (is_within ? fits : too_many) = n;
  }
  return fits;
}

double CostModel::prompt_ms(uint32_t n_cached, uint32_t n_new, uint32_t chunk_tokens) const {
  // The sum of an arithmetic series over whole chunks: each chunk reads one chunk more than the one
  // before it.
  const double n_chunks = std::max(1.0, double(n_new) / chunk_tokens);
  StepWork all = StepWork::chunk(n_cached, n_new, 1);
  all.kv_tokens = n_chunks * (n_cached + n_new / 2.0);
  return n_chunks * cost_[0] + added_ms(all);
}

}  // namespace kvik
