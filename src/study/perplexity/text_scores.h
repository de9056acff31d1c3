#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// Natural logarithms of the probabilities that these logits mean.
std::vector<double> log_probabilities(std::span<const float> logits);

struct Estimate {
  double value = 0;
  double error = 0;  // standard error of the value
};

// How well the tokens of a text were foreseen.
class Perplexity {
 public:
  void add(std::span<const double> log_p, TokenId next);

  uint64_t n_tokens() const { return n_; }
  Estimate value() const;

 private:
  uint64_t n_ = 0;
  double sum_ = 0, sum_of_squares_ = 0;  // of −log p of the tokens that came, in nats
};

// How far a model's distributions are from another's, position by position: KL(other || model), in
// nats (Kullback and Leibler 1951).
class Divergence {
 public:
  void add(std::span<const double> log_p, std::span<const double> other_log_p);

  Estimate mean() const;
  // The value below which this share of the positions lies.
  double quantile(double share) const;
  double max() const { return quantile(1); }
  Estimate same_top_share() const;

 private:
  std::vector<double> values_;
  uint64_t n_same_top_ = 0;
};

}  // namespace kvik
