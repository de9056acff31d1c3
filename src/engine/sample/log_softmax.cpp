#include "engine/sample/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "tensor/largest.h"

namespace kvik {

// The sum is in double and in ascending order of id, so that it is always the same.
LogSoftmax::LogSoftmax(std::span<const float> logits) : logits_(logits) {
  const float peak = largest_finite(logits);
  double sum = 0;
  for (const float logit : logits) {
    if (std::isfinite(logit)) sum += std::exp(static_cast<double>(logit) - peak);
  }
  log_sum_ = peak + std::log(sum);
}

std::vector<TokenLogprob> LogSoftmax::top(uint32_t n) const {
  if (n == 0) return {};
  std::vector<TokenLogprob> best;
  for (TokenId id = 0; id < logits_.size(); ++id) {
    if (!std::isfinite(logits_[id])) continue;
    const float logprob = of(id);
    if (best.size() == n) {
      if (logprob <= best.back().logprob) continue;
      best.pop_back();
    }
    best.insert(std::ranges::upper_bound(best, logprob, std::greater<>(), &TokenLogprob::logprob),
                {id, logprob});
  }
  return best;
}

uint32_t rank_of(std::span<const float> logits, TokenId id) {
  uint32_t rank = 1;
  for (TokenId other = 0; other < logits.size(); ++other)
    rank += logits[other] > logits[id] || (logits[other] == logits[id] && other < id);
  return rank;
}

}  // namespace kvik
