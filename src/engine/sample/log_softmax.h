#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/request.h"

namespace kvik {

// The log softmax of raw logits, which are borrowed. Values that are not finite are skipped, as in
// sampling.
class LogSoftmax {
 public:
  explicit LogSoftmax(std::span<const float> logits);

  float of(TokenId id) const { return rounded(logits_[id]); }
  // Returns the n most likely tokens, most likely first; ties go to the lower id.
  std::vector<TokenLogprob> top(uint32_t n) const;

 private:
  float rounded(float logit) const { return static_cast<float>(logit - log_sum_); }

  std::span<const float> logits_;
  double log_sum_ = 0;  // log(Σ exp(logit))
};

// Returns the token's rank by logit; the most likely token has rank 1.
uint32_t rank_of(std::span<const float> logits, TokenId id);

}  // namespace kvik
