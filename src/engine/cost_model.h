#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvik {

// The work of one step, in the quantities that determine its time.
struct StepWork {
  uint32_t n_rows = 0;    // rows through the layers
  uint32_t n_logits = 0;  // rows through the output head
  double kv_tokens = 0;   // cached tokens read by attention, counted once for each sequence
  double attention = 0;   // (query, key) pairs of chunks of more than one token

  // Returns the work of computing the next n_new tokens of a sequence that has n_cached cached
  // tokens. n_logits is 1 if the logits of the last token are needed, else 0.
  static StepWork chunk(uint32_t n_cached, uint32_t n_new, uint32_t n_logits);
  StepWork& operator+=(const StepWork& other);
  friend StepWork operator+(StepWork a, const StepWork& b) { return a += b; }
};

// Estimates the milliseconds of a step from the steps observed so far:
//   ms = a + b · n_rows + c · n_logits + d · kv_tokens + e · attention
//
// The coefficients are the least-squares fit of the relative error, and none is negative. The
// weight of an observation decays, so about the last hundred count. A coefficient that is not
// observed for a while keeps its last value: a thousand decoding steps do not make prompts look
// free. An observation is limited to twice the expected time, so an outlier hardly changes the fit.
// If the whole machine becomes slower, the estimates follow within about thirty steps. Before the
// first observation every estimate is 0.
class CostModel {
 public:
  double ms(const StepWork& work) const;
  void observe(const StepWork& work, double ms);

  // Return the milliseconds of a step that are spent reading its context, and on attention of
  // sequences with more than one row.
  double kv_ms(const StepWork& work) const { return cost_[3] * terms_of(work)[3]; }
  double attention_ms(const StepWork& work) const { return cost_[4] * terms_of(work)[4]; }
  // Returns the milliseconds of one row in a step of many rows, or 0 if no step had many rows yet.
  double row_ms() const {
    return max_rows_seen_ < kManyRows ? 0 : cost_[1] * terms_of({.n_rows = 1})[1];
  }

  // Returns the largest number of tokens in [0, n_max], following n_cached cached ones, that adds
  // at most budget_ms to a step. If all n_max fit, the last token has logits.
  uint32_t tokens_within(double budget_ms, uint32_t n_cached, uint32_t n_max) const;

  // Returns the time to compute n_new tokens after n_cached cached ones in chunks of chunk_tokens,
  // if nothing else is computed.
  double prompt_ms(uint32_t n_cached, uint32_t n_new, uint32_t chunk_tokens) const;

  // Returns the time to compute n_new tokens after n_cached cached ones, to compare it with the
  // time to read their K and V from a tier. Returns std::nullopt if no step had many rows yet: the
  // estimate is then unknown, because in decoding steps a row looks nearly free.
  std::optional<double> known_compute_ms(uint32_t n_cached, uint32_t n_new) const {
    if (max_rows_seen_ < std::min(n_new, kManyRows)) return std::nullopt;
    return added_ms(StepWork::chunk(n_cached, n_new, 0));
  }

 private:
  static constexpr size_t kTerms = 5;
  static constexpr uint32_t kManyRows = 128;
  using Terms = std::array<double, kTerms>;
  static Terms terms_of(const StepWork& work);
  double added_ms(const StepWork& work) const;  // without the fixed cost of a step
  void rescale(double factor);
  void solve();
  Terms solve_for(const std::array<bool, kTerms>& is_free) const;

  Terms cost_{};                          // ms per term
  std::array<Terms, kTerms> products_{};  // Σ x xᵀ / ms², faded
  Terms targets_{};                       // Σ x / ms, faded
  uint64_t n_observed_ = 0;
  uint32_t max_rows_seen_ = 0;  // largest number of rows in any observed step
};

}  // namespace kvik
