#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Returns the natural logarithms of the probabilities that these logits give.
std::vector<double> log_probabilities(std::span<const float> logits);

struct Estimate {
  double value = 0;
  double error = 0;  // standard error of the value
};

// Computes the perplexity of the tokens of a text.
class Perplexity {
 public:
  void add(std::span<const double> log_p, TokenId next);

  uint64_t n_tokens() const { return n_; }
  Estimate value() const;

 private:
  uint64_t n_ = 0;
  double sum_ = 0, sum_of_squares_ = 0;  // sums of −log p of the actual tokens, in nats
};

// Computes the divergence of a model's distributions from another's at each position: KL(other ||
// model) in nats (Kullback and Leibler 1951).
class Divergence {
 public:
  void add(std::span<const double> log_p, std::span<const double> other_log_p);

  Estimate mean() const;
  // Returns the quantile of the divergence at this share of the positions.
  double quantile(double share) const;
  double max() const { return quantile(1); }
  Estimate same_top_share() const;

 private:
  std::vector<double> values_;
  uint64_t n_same_top_ = 0;
};

}  // namespace kvik
