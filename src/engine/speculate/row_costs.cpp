#include "engine/speculate/row_costs.h"

#include <algorithm>
#include <cmath>

namespace kvik {
namespace {

constexpr uint32_t kTrusted = 3;      // first observations of a row count; the minimum is used
constexpr double kMaxChange = 0.03;   // largest relative change by one later observation
constexpr double kLearned = 0.25;     // share of a deviation that is applied, up to kMaxChange
constexpr double kCommonShare = 0.1;  // share of a deviation that is applied to all row counts
// Largest factor by which an observation may differ from the expected time.
constexpr double kMaxRatio = 1.3;
constexpr uint64_t kForget = 512;  // observations of other row counts after which one is forgotten
constexpr uint64_t kForgetSoon = 128;  // the same for one with fewer than kWellKnown observations
constexpr uint32_t kWellKnown = 16;
constexpr double kUnknownRowCost =
    0.12;  // cost of a row beyond the observed counts, as a share of a step

}  // namespace

void RowCosts::observe(uint32_t n_rows, double ms) {
  if (!(ms > 0) || n_rows == 0 || n_rows > kMaxRows) return;
  Known& known = known_[n_rows];
  // If other load made a row count look slow, the mistake would last: the count would not be used
  // again, so it would never be corrected.
  const double expected = this->ms(n_rows, 0);
  if (expected > 0) ms = std::min(ms, kMaxRatio * expected);
  if (known.n_observed >= kTrusted) {
    const double ratio = std::max(ms / known.ms, 1 / kMaxRatio);
    const double common = std::pow(ratio, kCommonShare);
    for (Known& other : known_) other.ms *= common;
    known.ms *= std::exp(std::clamp(kLearned * std::log(ratio), -kMaxChange, kMaxChange));
  } else {
    known.ms = known.n_observed == 0 ? ms : std::min(known.ms, ms);
  }
  ++known.n_observed;
  known.last = ++n_observed_;
  for (Known& other : known_) {
    const uint64_t kept = other.n_observed < kWellKnown ? kForgetSoon : kForget;
    if (other.n_observed > 0 && other.last + kept < n_observed_) other = {};
  }
}

// Returns the time of one row beyond all observed row counts.
double RowCosts::row_ms(double prompt_row_ms) const {
  if (prompt_row_ms > 0) return prompt_row_ms;
  const auto first = std::ranges::find_if(known_, [](const Known& k) { return k.n_observed > 0; });
  return first == known_.end() ? 0 : kUnknownRowCost * first->ms;
}

// More rows never take less time. If the observations say so, the smaller row count is assumed to
// take as little.
double RowCosts::ms(uint32_t n_rows, double prompt_row_ms) const {
  const auto n = std::min(n_rows, kMaxRows);
  uint32_t below = 0, above = 0;
  double above_ms = 0;
  for (uint32_t r = n; r >= 1 && below == 0; --r) {
    if (known_[r].n_observed > 0) below = r;
  }
  for (uint32_t r = n; r <= kMaxRows; ++r) {
    if (known_[r].n_observed == 0 || (above != 0 && known_[r].ms >= above_ms)) continue;
    if (above == 0) above = r;
    above_ms = known_[r].ms;
  }
  if (below == 0) return above == 0 ? 0 : above_ms;
  if (above == 0) return known_[below].ms + row_ms(prompt_row_ms) * (n_rows - below);
  const double below_ms = std::min(known_[below].ms, above_ms);
  if (above == below) return above_ms;
  return below_ms + (above_ms - below_ms) * (n - below) / (above - below);
}

}  // namespace kvik
