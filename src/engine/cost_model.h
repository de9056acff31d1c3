#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace kvik {

// What one step computes, in the quantities that its time grows with.
struct StepWork {
  uint32_t n_rows = 0;    // tokens through the layers
  uint32_t n_logits = 0;  // rows through the head, sampled from
  double kv_tokens = 0;   // cached tokens read, once for each sequence
  double attention = 0;   // (query, key) pairs of chunks of more than one token

  // The next n_new tokens of a sequence of which n_cached have K and V; with logits behind the last
  // of them where n_logits is 1.
  static StepWork chunk(uint32_t n_cached, uint32_t n_new, uint32_t n_logits);
  StepWork& operator+=(const StepWork& other);
  friend StepWork operator+(StepWork a, const StepWork& b) { return a += b; }
};

// Milliseconds of a step, learned from the steps that were:
//   ms = a + b · n_rows + c · n_logits + d · kv_tokens + e · attention, none of them negative.
//
// Least squares of the relative error over observations that fade: the last hundred count. What is
// not observed for a while keeps its last value: a thousand decode steps do not teach that prompts
// are free. One observation counts as at most twice what was expected, so an outlier hardly moves
// it; a machine that became slower in all it does is believed within some thirty steps. Before the
// first observation everything costs nothing.
class CostModel {
 public:
  double ms(const StepWork& work) const;
  void observe(const StepWork& work, double ms);

  // Of a step, what reading its context takes, and what attending of more than one row a sequence.
  double kv_ms(const StepWork& work) const { return cost_[3] * terms_of(work)[3]; }
  double attention_ms(const StepWork& work) const { return cost_[4] * terms_of(work)[4]; }
  // What a row takes where many are computed; 0 as long as no step had many.
  double row_ms() const {
    return n_rows_most_ < kManyRows ? 0 : cost_[1] * terms_of({.n_rows = 1})[1];
  }

  // The most tokens in [0, n_most], from n_cached on, that add at most budget_ms to a step. Their
  // last one has logits where they are all n_most.
  uint32_t tokens_within(double budget_ms, uint32_t n_cached, uint32_t n_most) const;

  // The time that n_new tokens behind n_cached ones take where nothing else is computed, in chunks
  // of chunk_tokens.
  double prompt_ms(uint32_t n_cached, uint32_t n_new, uint32_t chunk_tokens) const;

  // What computing these tokens takes, for who could read their K and V instead. As long as no step
  // computed many rows nothing is known of that: steps that decode make a row look as if it were
  // nearly free.
  std::optional<double> known_compute_ms(uint32_t n_cached, uint32_t n_new) const {
    if (n_rows_most_ < std::min(n_new, kManyRows)) return std::nullopt;
    return added_ms(StepWork::chunk(n_cached, n_new, 0));
  }

 private:
  static constexpr size_t kTerms = 5;
  static constexpr uint32_t kManyRows = 128;
  using Terms = std::array<double, kTerms>;
  static Terms terms_of(const StepWork& work);
  double added_ms(const StepWork& work) const;  // beyond what any step costs
  void rescale(double factor);
  void solve();
  Terms solve_for(const std::array<bool, kTerms>& is_free) const;

  Terms cost_{};                          // ms per term
  std::array<Terms, kTerms> products_{};  // Σ x xᵀ / ms², faded
  Terms targets_{};                       // Σ x / ms, faded
  uint64_t n_observed_ = 0;
  uint32_t n_rows_most_ = 0;  // that a step was observed with
};

}  // namespace kvik
